"""Where the local engine keeps things: `local/pods/<pod uid>` (the keeper's, hidden from every pod),
`local/work/<slug>` (the workload's own folder, kept until it is discarded) and `local/services/<slug>` (its port)."""

import contextlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError

_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,127}\Z")


class Places:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.pods = self.data_dir / "local" / "pods"
        self.services = self.data_dir / "local" / "services"
        self._work = self.data_dir / "local" / "work"
        self._gone = self.data_dir / "local" / "gone"
        remove_tree(self._gone)
        for folder in (self.pods, self._work, self.services, self._gone):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def pod(self, uid: str) -> Path:
        return self.pods / _checked(uid)

    def let_go(self, pod: Path) -> None:
        """Remove a pod's folder; a half of one is never taken for a pod."""
        gone = self._gone / pod.name
        with contextlib.suppress(FileNotFoundError):
            pod.rename(gone)
        remove_tree(gone)

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
    """Remove a folder also where a job has taken the permissions away."""

    def open_up(function: Callable[[str], object], path: str, _: object) -> None:
        for each in (Path(path).parent, Path(path)):
            if each.exists() and not each.is_symlink():
                each.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    if folder.exists():
        shutil.rmtree(folder, onerror=open_up)


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise StokerError(ErrorCode.BAD_REQUEST, f'"{name[:80]}" cannot be the name of a folder.')
    return name
