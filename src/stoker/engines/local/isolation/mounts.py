"""What is mounted where, as /proc/self/mountinfo has it."""

import re
from pathlib import Path, PurePosixPath

from msgspec import Struct

MOUNTINFO = Path("/proc/self/mountinfo")


class Mount(Struct, frozen=True):
    device: str
    root: str
    """The folder of the file system that is seen at `point`."""
    point: str
    kind: str
    options: str


def parse(mountinfo: str) -> list[Mount]:
    """Every mount, the latest last."""
    mounts = []
    for line in mountinfo.splitlines():
        first, _, second = line.partition(" - ")
        words, more = first.split(" "), second.split(" ")
        mounts.append(Mount(words[2], _plain(words[3]), _plain(words[4]), more[0], more[2] if len(more) > 2 else ""))
    return mounts


def aliases(mounts: list[Mount], folder: str) -> list[str]:
    """Other paths that lead to a folder, or into it, because its file system is mounted more than once."""
    holders = [mount for mount in mounts if _below(folder, mount.point)]
    if not holders:
        return []
    holder = max(enumerate(holders), key=lambda pair: (len(pair[1].point), pair[0]))[1]
    inside = _join(holder.root, folder, holder.point)
    found = []
    for mount in mounts:
        if mount.device != holder.device or mount == holder or _below(mount.point, folder):
            continue
        if _below(inside, mount.root):
            found.append(_join(mount.point, inside, mount.root))
        elif _below(mount.root, inside):
            found.append(mount.point)
    return [path for path in dict.fromkeys(found) if path != folder]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _join(folder: str, path: str, start: str) -> str:
    return str(PurePosixPath(folder) / PurePosixPath(path).relative_to(start))


def _plain(text: str) -> str:
    """Blanks and the like are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
