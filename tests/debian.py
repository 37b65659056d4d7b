"""Programs from Debian packages, unpacked into pytest's cache: nothing is installed and nobody needs to be root."""

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = "debian"


def program(config: pytest.Config, package: str, name: str) -> str:
    """The path of a program: this machine's own, or that of its Debian package."""
    if (installed := shutil.which(name)) is not None:
        return installed
    cache = config.cache
    assert cache is not None
    folder = Path(cache.mkdir(FOLDER))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unpacked = folder / package
        if not unpacked.exists():
            _unpack(folder, package, unpacked)
    return str(unpacked / "usr/bin" / name)


def _unpack(folder: Path, package: str, to: Path) -> None:
    if reason := unpack_package(folder, package, to):
        pytest.skip(reason)


def unpack_package(folder: Path, package: str, to: Path) -> str:
    """Download a package into `folder` and unpack it; why that is not possible, or nothing."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return f"{package} is not installed, and this is not a Debian that could fetch it"
    if not _download(folder, package) and not (_update(folder) and _download(folder, package, _lists(folder))):
        return f"{package} is not installed, and Debian's packages cannot be reached"
    (file,) = folder.glob(f"{package}_*.deb")
    half = to.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    subprocess.run(["dpkg", "-x", file, half], check=True)
    half.rename(to)
    file.unlink()
    return ""


def _download(folder: Path, package: str, options: list[str] | None = None) -> bool:
    command = ["apt-get", *(options or []), "download", package]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode == 0


def _update(folder: Path) -> bool:
    """Lists of packages of our own, as only root may renew those of the machine."""
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    command = ["apt-get", *_lists(folder), "update"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode == 0


def _lists(folder: Path) -> list[str]:
    return ["-o", f"Dir::State::Lists={folder}/lists", "-o", f"Dir::Cache={folder}"]
