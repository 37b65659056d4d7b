"""The directories of the local engine.

`local/pods/<pod uid>` belongs to the shim and is hidden from every pod. `local/work/<slug>` is the working directory of
a workload, kept until it is purged; replicas of rolling kinds have one each, `local/work/<slug>/<rank>`.
`local/services/<slug>` holds the port of its service.
"""

import contextlib
import itertools
import logging
import os
import re
import secrets
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError

log = logging.getLogger(__name__)
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,127}\Z")


class LocalPaths:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.pods_dir = self.data_dir / "local" / "pods"
        self.services_dir = self.data_dir / "local" / "services"
        self._work_dir = self.data_dir / "local" / "work"
        self._trash_dir = self.data_dir / "local" / "gone"
        self._remove_trash(self._trash_dir)
        for folder in (self.pods_dir, self._work_dir, self.services_dir, self._trash_dir):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def pod_dir(self, uid: str) -> Path:
        return self.pods_dir / _checked_name(uid)

    def make_tmp_dir(self, pod: Path) -> Path:
        """The directory that a pod sees as /tmp; it is removed with the pod."""
        folder = pod / "tmp"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)
        return folder

    def remove_pod_dir(self, pod: Path) -> None:
        """Remove a pod's directory. It is renamed first, so that a partly removed one is never read as a pod."""
        gone = self._trash_dir / pod.name
        with contextlib.suppress(FileNotFoundError):
            pod.rename(gone)
        self._remove_trash(gone)

    def _remove_trash(self, gone: Path) -> None:
        """Remove a directory in the trash; one that cannot be removed is left to the next start."""
        try:
            remove_tree(gone)
        except OSError:
            log.warning("The folder %s could not be removed", gone, exc_info=True)

    def make_working_dir(self, slug: str, rank: int | None = None) -> Path:
        """The working directory of a workload or of one of its replicas; created if it does not exist."""
        folder = self._work_dir / _checked_name(slug)
        folder.mkdir(mode=0o700, exist_ok=True)
        if rank is not None:
            folder /= str(rank)
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def purge_workload(self, slug: str) -> None:
        """Remove the working directory of a workload and the port of its service."""
        remove_tree(self._work_dir / _checked_name(slug))
        (self.services_dir / slug).unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Remove a directory of any depth, also where a job has removed permissions; links are not followed.

    Every subdirectory is emptied into the top directory and removed, so neither paths nor recursion grow with the
    depth.
    """
    if not folder.is_dir() or folder.is_symlink():
        folder.unlink(missing_ok=True)
        return
    mark = secrets.token_hex(8)
    top = _open_dir(str(folder))
    try:
        names = _unlink_files(top)
        for count in itertools.count():
            if not names:
                break
            name = names.pop()
            inner = _open_dir(name, top)
            try:
                for number, below in enumerate(_unlink_files(inner)):
                    _grant_owner_access(below, inner)
                    lifted = f"{mark}-{count}-{number}"
                    os.rename(below, lifted, src_dir_fd=inner, dst_dir_fd=top)
                    names.append(lifted)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


def _unlink_files(folder: int) -> list[str]:
    """Remove everything that is not a directory. Returns the names of the directories that are left."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]


def _open_dir(name: str, parent: int | None = None) -> int:
    _grant_owner_access(name, parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def _grant_owner_access(name: str, parent: int | None) -> None:
    """Give the owner all rights to a directory. A path descriptor needs no permission to open, and O_NOFOLLOW rejects
    links."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        with contextlib.suppress(PermissionError):  # owned by another user; the next step fails if that matters
            Path(f"/proc/self/fd/{fd}").chmod(0o700)
    finally:
        os.close(fd)


def _checked_name(name: str) -> str:
    if not _NAME_PATTERN.match(name):
        raise StokerError(ErrorCode.BAD_REQUEST, f'"{name[:80]}" cannot be the name of a folder.')
    return name
