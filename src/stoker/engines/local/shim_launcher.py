"""Launches shims. A shim is detached at once: it outlives the server and does not inherit its environment."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from stoker.concurrency.failpoints import failpoint

SHIM_SCRIPT = str(Path(__file__).with_name("shim") / "entrypoint.py")
ERROR_FILE = "shim.err"
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD)


async def launch_shim(pod_folder: Path) -> int:
    """Launch the pod's shim, unless it was before, and wait until its command is about to run. Returns the exit code of
    the launcher, 0 for success."""
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", SHIM_SCRIPT, str(pod_folder)],
        {},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(pod_folder / ERROR_FILE), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT_SIGNALS,
    )
    failpoint("engine.shim-started")
    return await wait_for_child(pid)


async def wait_for_child(pid: int) -> int:
    """Wait for a child without a thread. Returns its exit code, negative for a signal."""
    loop = asyncio.get_running_loop()
    process = os.pidfd_open(pid)
    over = loop.create_future()
    loop.add_reader(process, lambda: over.done() or over.set_result(None))
    try:
        await over
    finally:
        loop.remove_reader(process)
        os.close(process)
        status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status)
