"""A pod's folder, through a descriptor that stays good after the folder has been hidden.

Held lock = the keeper lives. `started` is on disk before the command runs, `exit` once its whole tree is dead.
"""

import fcntl
import os

LOCK = "lock"
ORDER = "launch"
STARTED = "started"
STATE = "state"
EXIT = "exit"
CONTROL = "control"
LOG = "log."
RECORD_BYTES = 512

Fields = dict[str, int | str]


class Folder:
    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self.fd)

    def has(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.fd)
        except FileNotFoundError:
            return False
        return True

    def lock(self) -> int | None:
        """Take the lock for as long as the descriptor is open anywhere; None if another has it or the pod is gone."""
        fd = self.open(LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        if os.fstat(fd).st_nlink == 0:
            os.close(fd)
            return None
        return fd

    def read(self, name: str) -> bytes:
        fd = self.open(name, os.O_RDONLY)
        try:
            parts = []
            while part := os.read(fd, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(fd)

    def record(self, name: str, fields: Fields, *, durable: bool) -> None:
        """Put a record in place, whole or not at all."""
        fd = self.open(name + ".new", os.O_WRONLY | os.O_CREAT)
        try:
            os.ftruncate(fd, os.write(fd, "".join(f"{key}={value}\n" for key, value in fields.items()).encode()))
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(name + ".new", name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        if durable:
            os.fsync(self.fd)

    def hold_room(self, name: str) -> None:
        """Take the room of a record now, so that a disk that is full by then does not keep it from being written."""
        fd = self.open(name + ".new", os.O_WRONLY | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, RECORD_BYTES)
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def close(self) -> None:
        os.close(self.fd)


def fields_of(record: bytes) -> dict[str, str]:
    """A record as it was written."""
    return dict(line.split("=", 1) for line in record.decode("utf-8", "replace").splitlines() if "=" in line)
