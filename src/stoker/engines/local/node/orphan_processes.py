"""Ends what a keeper without a PID namespace leaves behind when it is killed itself.

Such processes are known by their control group, and by a variable that every process of a pod inherits.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from stoker.engines.local import cgroups

MARK = "STOKER_POD_UID"
_PATIENCE_SECONDS = 5.0


def end_survivors(pods: Collection[tuple[str, tuple[str, ...]]]) -> None:
    """Kill all processes of these pods, given as uid and control groups, and wait until there are none."""
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while (found := _survivors(pods)) and time.monotonic() < give_up:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _survivors(pods: Collection[tuple[str, tuple[str, ...]]]) -> set[int]:
    marks = {f"{MARK}={uid}".encode() for uid, _ in pods}
    found = {pid for _, groups in pods for pid in cgroups.processes(groups)}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if not marks.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                    found.add(int(folder.name))
    return found
