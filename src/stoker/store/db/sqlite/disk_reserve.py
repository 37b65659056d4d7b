"""Free space on the disk of the data dir, and a reserve file for when the disk is full.

The reserve is deleted when a write finds no space, so that workloads can still be stopped and deleted. It is created
again once there is enough space. On a small disk the low-space limit and the reserve shrink with the disk size.
"""

import contextlib
import os
import time
from pathlib import Path

from stoker.domain.cluster.quantity import MIB
from stoker.domain.errors import ErrorCode, StokerError

RESERVE_FILE = "reserve"
LOW_WATERMARK_DIVISOR = 10
RESERVE_DIVISOR = 20
WAL_PREALLOCATION_BYTES = 8 * MIB
STATVFS_TTL_SECONDS = 0.02
RETRY_AFTER_SECONDS = 60
"""Longer than clients wait by themselves, so that users see the error at once: somebody has to free space."""


class DiskReserve:
    def __init__(self, folder: Path, low_bytes: int, reserve_bytes: int) -> None:
        self.data_dir = folder
        stats = os.statvfs(folder)
        size = stats.f_blocks * stats.f_frsize
        self.low_bytes = min(low_bytes, size // LOW_WATERMARK_DIVISOR)
        self._reserve_bytes = min(reserve_bytes, size // RESERVE_DIVISOR)
        self._is_reserved = self._reserve_path.exists()
        self._free_bytes, self._measured_at = 0, -STATVFS_TTL_SECONDS

    @property
    def _reserve_path(self) -> Path:
        return self.data_dir / RESERVE_FILE

    def free_bytes(self) -> int:
        """Free bytes, measured at most STATVFS_TTL_SECONDS ago."""
        now = time.monotonic()
        if now >= self._measured_at + STATVFS_TTL_SECONDS:
            stats = os.statvfs(self.data_dir)
            self._free_bytes, self._measured_at = stats.f_bavail * stats.f_frsize, now
        return self._free_bytes

    def check_disk_space(self) -> None:
        """Raise an error if the free space is below the low-space limit."""
        free = self.free_bytes()
        if free >= self.low_bytes:
            return
        raise StokerError(
            ErrorCode.UNAVAILABLE,
            f"The disk of {self.data_dir} is nearly full: {format_mib(free)} are free, and nothing new is accepted "
            f"below {format_mib(self.low_bytes)}.",
            hint="Free some space there. Stopping and deleting workloads still works.",
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )

    def ensure_reserve(self) -> None:
        """Create the reserve file if it is missing and there is enough space."""
        if self._is_reserved or not self._reserve_bytes:
            return
        with contextlib.suppress(OSError):
            if self.free_bytes() < self.low_bytes + self._reserve_bytes:
                return
            new = self._reserve_path.with_suffix(".new")
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, self._reserve_bytes)
            finally:
                os.close(fd)
            new.replace(self._reserve_path)
            self._is_reserved = True

    def release_reserve(self, log: Path) -> bool:
        """Delete the reserve and preallocate part of its space for the WAL, before a running job can fill it.

        False if there is no reserve."""
        if not self._is_reserved:
            return False
        self._is_reserved = False
        with contextlib.suppress(OSError):
            self._reserve_path.unlink()
            fd = os.open(log, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(fd, 0, os.fstat(fd).st_size + min(WAL_PREALLOCATION_BYTES, self._reserve_bytes // 2))
            finally:
                os.close(fd)
        return True


def format_mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
