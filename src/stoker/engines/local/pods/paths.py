"""Where the local engine keeps things: `local/pods/<pod uid>` (the keeper's, hidden from every pod),
`local/work/<slug>` (the workload's own folder, kept until it is discarded) and `local/services/<slug>` (its port)."""

import contextlib
import itertools
import logging
import os
import re
import secrets
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError

log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,127}\Z")


class Places:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.pods = self.data_dir / "local" / "pods"
        self.services = self.data_dir / "local" / "services"
        self._work = self.data_dir / "local" / "work"
        self._gone = self.data_dir / "local" / "gone"
        self._clear(self._gone)
        for folder in (self.pods, self._work, self.services, self._gone):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def pod(self, uid: str) -> Path:
        return self.pods / _checked(uid)

    def temporary(self, pod: Path) -> Path:
        """What a pod has as /tmp; it goes with the pod."""
        folder = pod / "tmp"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)
        return folder

    def let_go(self, pod: Path) -> None:
        """Remove a pod's folder; a half of one is never taken for a pod."""
        gone = self._gone / pod.name
        with contextlib.suppress(FileNotFoundError):
            pod.rename(gone)
        self._clear(gone)

    def _clear(self, gone: Path) -> None:
        """Remove what nobody needs any more; what cannot be removed waits for the next start."""
        try:
            remove_tree(gone)
        except OSError:
            log.warning("The folder %s could not be removed", gone, exc_info=True)

    def work(self, slug: str) -> Path:
        """The workload's folder, made if it is not there."""
        folder = self._work / _checked(slug)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def discard(self, slug: str) -> None:
        """Remove the workload's folder and all that is in it, and forget its service's port."""
        remove_tree(self._work / _checked(slug))
        (self.services / slug).unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Remove a folder however deep it is, also where a job has taken the permissions away; links are not followed.

    Each folder below is emptied into the top one and removed, so that no path and no recursion grows with the depth.
    """
    if not folder.is_dir() or folder.is_symlink():
        folder.unlink(missing_ok=True)
        return
    mark = secrets.token_hex(8)
    top = _open_folder(str(folder))
    try:
        names = _unlink_files(top)
        for count in itertools.count():
            if not names:
                break
            name = names.pop()
            inner = _open_folder(name, top)
            try:
                for number, below in enumerate(_unlink_files(inner)):
                    _open_up(below, inner)
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
    """Remove what is no folder; the names of the folders that are left."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]


def _open_folder(name: str, parent: int | None = None) -> int:
    _open_up(name, parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def _open_up(name: str, parent: int | None) -> None:
    """Give the owner all rights to a folder: a path descriptor can be had without any, and is never a link's end."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        with contextlib.suppress(PermissionError):  # another user's: what follows says whether that matters
            Path(f"/proc/self/fd/{fd}").chmod(0o700)
    finally:
        os.close(fd)


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise StokerError(ErrorCode.BAD_REQUEST, f'"{name[:80]}" cannot be the name of a folder.')
    return name
