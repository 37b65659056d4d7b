"""Kills the processes that a shim without a PID namespace leaves behind when it is killed.

They are found by their control group and by a variable that every process of a pod inherits.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from stoker.engines.local.isolation import cgroups

POD_UID_VARIABLE = "STOKER_POD_UID"
_KILL_TIMEOUT_SECONDS = 5.0


def kill_orphans(pods: Collection[tuple[str, tuple[str, ...]]]) -> None:
    """Kill all processes of these pods, given as uid and control groups, and wait until there are none."""
    give_up = time.monotonic() + _KILL_TIMEOUT_SECONDS
    while (found := _find_orphans(pods)) and time.monotonic() < give_up:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _find_orphans(pods: Collection[tuple[str, tuple[str, ...]]]) -> set[int]:
    marks = {f"{POD_UID_VARIABLE}={uid}".encode() for uid, _ in pods}
    found = {pid for _, groups in pods for pid in cgroups.list_pids(groups)}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if not marks.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                    found.add(int(folder.name))
    return found
