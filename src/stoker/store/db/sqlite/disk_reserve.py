"""The disk of the data dir: how much of it is free, and a reserve for when nothing is.

The reserve is a file that does nothing but hold room. It is given up when a write finds none, so that workloads can
still be stopped and deleted, and made again once there is room. On a small disk both measures shrink with it.
"""

import contextlib
import os
import time
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.quantity import MIB

RESERVE = "reserve"
LOW_SHARE = 10
RESERVE_SHARE = 20
AT_ONCE_BYTES = 8 * MIB
MOMENT_SECONDS = 0.02
RETRY_SECONDS = 60
"""Somebody has to make room: it is longer than clients wait by themselves, so that people are told at once."""


class Disk:
    def __init__(self, folder: Path, low_bytes: int, reserve_bytes: int) -> None:
        self.folder = folder
        found = os.statvfs(folder)
        size = found.f_blocks * found.f_frsize
        self.low_bytes = min(low_bytes, size // LOW_SHARE)
        self._reserve_bytes = min(reserve_bytes, size // RESERVE_SHARE)
        self._held = self._reserve.exists()
        self._free, self._asked_at = 0, -MOMENT_SECONDS

    @property
    def _reserve(self) -> Path:
        return self.folder / RESERVE

    def free(self) -> int:
        """As the system said at most a moment ago."""
        now = time.monotonic()
        if now >= self._asked_at + MOMENT_SECONDS:
            found = os.statvfs(self.folder)
            self._free, self._asked_at = found.f_bavail * found.f_frsize, now
        return self._free

    def check_room(self) -> None:
        """Refuse when there is too little for anything new."""
        free = self.free()
        if free >= self.low_bytes:
            return
        raise StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The disk of {self.folder} is nearly full: {shown(free)} are free, and nothing new is accepted "
            f"below {shown(self.low_bytes)}.",
            hint="Free some space there. Stopping and deleting workloads still works.",
            retry_after_seconds=RETRY_SECONDS,
        )

    def hold(self) -> None:
        """Make the reserve, if it is missing and there is room for it."""
        if self._held or not self._reserve_bytes:
            return
        with contextlib.suppress(OSError):
            if self.free() < self.low_bytes + self._reserve_bytes:
                return
            new = self._reserve.with_suffix(".new")
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, self._reserve_bytes)
            finally:
                os.close(fd)
            new.replace(self._reserve)
            self._held = True

    def release(self, log: Path) -> bool:
        """Give the reserve up, and take some of it for the log of a database before a job that still writes can;
        False when there is none."""
        if not self._held:
            return False
        self._held = False
        with contextlib.suppress(OSError):
            self._reserve.unlink()
            fd = os.open(log, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(fd, 0, os.fstat(fd).st_size + min(AT_ONCE_BYTES, self._reserve_bytes // 2))
            finally:
                os.close(fd)
        return True


def shown(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
