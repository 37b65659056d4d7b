"""Disks that are full and folders that may not be written, for real."""

import contextlib
import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest


class Disk:
    """A folder whose space can be used up and freed."""

    def __init__(self, folder: Path, fill: Callable[[], None], free: Callable[[], None]) -> None:
        self.folder = folder
        self.fill = fill
        self.free = free


@contextlib.contextmanager
def small_mount(folder: Path, size: str = "4m") -> Generator[Disk]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a small disk; the file size limit is tested instead")
    ballast = folder / "ballast"

    def fill() -> None:
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass

    try:
        yield Disk(folder, fill, ballast.unlink)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # a failing test may leave files open


@contextlib.contextmanager
def size_limit(folder: Path) -> Generator[Disk]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        largest = max(path.stat().st_size for path in folder.glob("stoker.db*"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))

    def free() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    try:
        yield Disk(folder, fill, free)
    finally:
        free()


@pytest.fixture(params=[small_mount, size_limit])
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    with tempfile.TemporaryDirectory(prefix="stoker-disk-") as name, request.param(Path(name)) as limited:
        yield limited


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Permissions mean nothing to root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder that any user can reach and nobody can write."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as name:
        Path(name).chmod(0o555)
        yield Path(name)
        Path(name).chmod(0o755)
