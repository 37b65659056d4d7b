"""The uids of jobs when the server is root: every workspace has one that no other account of the machine uses.

A job has the rights of others, its working directory, and the groups of the devices it is given.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

JOB_USER_NAME = "job"
PASSWD_FILE = "passwd"


def workspace_uid(first: int, workspace_id: int) -> int:
    """The uid of a workspace; 0 where jobs run as the server's user."""
    return first + workspace_id if first and os.geteuid() == 0 else 0


def chown_tree(folder: Path, user: int) -> None:
    """Change the owner of a directory and all its content, once; links are not followed."""
    if folder.stat().st_uid == user:
        return
    for _, folders, files, fd in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, user, user, dir_fd=fd, follow_symlinks=False)
    os.chown(folder, user, user)


def render_passwd(user: int, home: Path, shell: str) -> str:
    """The machine's /etc/passwd with an entry for this uid."""
    known = Path("/etc/passwd").read_text(errors="replace").rstrip("\n")
    return f"{known}\n{JOB_USER_NAME}:x:{user}:{user}:Stoker job:{home}:{shell}\n"


def find_unreachable_parents(paths: Iterable[Path], except_below: Iterable[Path]) -> list[str]:
    """For each of these paths the topmost directory that other users cannot traverse, if there is one."""
    open_anyway = [str(path) for path in except_below]
    found = []
    for path in paths:
        for folder in reversed(path.parents):
            if any(f"{folder}/".startswith(f"{each}/") for each in open_anyway):
                break
            if not folder.stat().st_mode & stat.S_IXOTH:
                found.append(str(folder))
                break
    return list(dict.fromkeys(found))


def device_groups(names: Iterable[str], dev: Path = Path("/dev")) -> list[int]:
    """The groups that may use these devices, where not everyone may."""
    groups = set()
    for name in names:
        top = dev / name
        for path in (top, *top.rglob("*")) if top.is_dir() else (top,):
            found = path.stat()
            if found.st_mode & stat.S_IWGRP and not found.st_mode & stat.S_IWOTH and found.st_gid:
                groups.add(found.st_gid)
    return sorted(groups)
