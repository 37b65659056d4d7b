"""What a job finds on this machine: variables that are not the server's, a shell, and a `python`."""

import os
import pwd
import shutil
import sys
from pathlib import Path

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELLS = ("bash", "sh", "zsh", "fish")


def search_path(standard: str = STANDARD_PATH, interpreter: str = sys.executable) -> str:
    """Where programs are found; Stoker's own interpreter comes last, where there is no other `python`."""
    return standard if shutil.which("python", path=standard) else f"{standard}:{Path(interpreter).parent}"


def surroundings(folder: Path, user: str = "") -> dict[str, str]:
    """The variables every pod begins with."""
    user = user or _user_name()
    return {
        "PATH": search_path(),
        "HOME": str(folder),
        "USER": user,
        "LOGNAME": user,
        "SHELL": shell(),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONUNBUFFERED": "1",  # what a job prints is seen when it prints it
    }


def shell() -> str:
    """What runs a script: bash where there is one."""
    return shutil.which("bash", path=STANDARD_PATH) or "/bin/sh"


def shells() -> list[str]:
    """The shells that exist here."""
    return [name for name in SHELLS if shutil.which(name, path=search_path())]


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
