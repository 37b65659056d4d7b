"""A pod's directory, accessed through a descriptor that stays valid after the directory was hidden.

The lock is held while the shim lives. `started` is on disk before the command runs, `exit` once its whole process tree
is dead.
"""

import fcntl
import os

LOCK_FILE = "lock"
LAUNCH_FILE = "launch"
STARTED_FILE = "started"
STATE_FILE = "state"
EXIT_FILE = "exit"
CONTROL_SOCKET = "control"
LOG_PREFIX = "log."
RECORD_RESERVE_BYTES = 512

RecordFields = dict[str, int | str]


class PodDir:
    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self.fd)

    def exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.fd)
        except FileNotFoundError:
            return False
        return True

    def try_lock(self) -> int | None:
        """Take the lock until the descriptor is closed everywhere; None if it is held or the pod is gone."""
        fd = self.open(LOCK_FILE, os.O_RDWR | os.O_CREAT)
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

    def write_record(self, name: str, fields: RecordFields, *, durable: bool) -> None:
        """Replace a record atomically."""
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

    def reserve_space(self, name: str) -> None:
        """Reserve the disk space of a record, so that it can be written when the disk is full."""
        fd = self.open(name + ".new", os.O_WRONLY | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, RECORD_RESERVE_BYTES)
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def close(self) -> None:
        os.close(self.fd)


def parse_record(record: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in record.decode("utf-8", "replace").splitlines() if "=" in line)
