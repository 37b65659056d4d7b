"""The environment of jobs on this machine: base variables, which are not the server's, the shells and a `python`."""

import os
import pwd
import shutil
import sys
from pathlib import Path

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELLS = ("bash", "sh", "zsh", "fish")


def search_path(standard: str = STANDARD_PATH, interpreter: str = sys.executable) -> str:
    """The PATH of jobs. Stoker's own interpreter is added at the end if there is no other `python`."""
    return standard if shutil.which("python", path=standard) else f"{standard}:{Path(interpreter).parent}"


def build_base_env(folder: Path, user: str = "") -> dict[str, str]:
    """The variables that every pod starts with."""
    user = user or _user_name()
    return {
        "PATH": search_path(),
        "HOME": str(folder),
        "USER": user,
        "LOGNAME": user,
        "SHELL": default_shell(),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONUNBUFFERED": "1",  # output appears in the log when it is printed
    }


def default_shell() -> str:
    """The shell that runs scripts: bash if there is one."""
    return shutil.which("bash", path=STANDARD_PATH) or "/bin/sh"


def available_shells() -> list[str]:
    return [name for name in SHELLS if shutil.which(name, path=search_path())]


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
