"""Reads the mount table from /proc/self/mountinfo."""

import re
from pathlib import Path, PurePosixPath

from msgspec import Struct

MOUNTINFO = Path("/proc/self/mountinfo")


class Mount(Struct, frozen=True):
    device: str
    root: str
    """The directory of the file system that is mounted at `point`."""
    mount_point: str
    fs_type: str
    options: str


def parse_mountinfo(mountinfo: str) -> list[Mount]:
    """All mounts, latest last."""
    mounts = []
    for line in mountinfo.splitlines():
        first, _, second = line.partition(" - ")
        words, more = first.split(" "), second.split(" ")
        mounts.append(
            Mount(
                words[2],
                _unescape_octal(words[3]),
                _unescape_octal(words[4]),
                more[0],
                more[2] if len(more) > 2 else "",
            )
        )
    return mounts


def find_aliases(mounts: list[Mount], folder: str) -> list[str]:
    """Other paths that lead to a directory or into it, because its file system is mounted more than once."""
    holders = [mount for mount in mounts if _is_below(folder, mount.mount_point)]
    if not holders:
        return []
    holder = max(enumerate(holders), key=lambda pair: (len(pair[1].mount_point), pair[0]))[1]
    inside = _rebase(holder.root, folder, holder.mount_point)
    found = []
    for mount in mounts:
        if mount.device != holder.device or mount == holder or _is_below(mount.mount_point, folder):
            continue
        if _is_below(inside, mount.root):
            found.append(_rebase(mount.mount_point, inside, mount.root))
        elif _is_below(mount.root, inside):
            found.append(mount.mount_point)
    return [path for path in dict.fromkeys(found) if path != folder]


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _rebase(folder: str, path: str, start: str) -> str:
    return str(PurePosixPath(folder) / PurePosixPath(path).relative_to(start))


def _unescape_octal(text: str) -> str:
    """Decode the octal escapes of blanks and similar characters."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
