"""Starts shims. A shim is nobody's child for long: it outlives the server and knows nothing of its environment."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from stoker.engines.failpoints import failpoint

SHIM = str(Path(__file__).with_name("shim.py"))
ERRORS = "shim.err"
_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD)


async def launch(pod_folder: Path) -> int:
    """Start the pod's shim, if nobody has, and wait until its command is about to run; its exit code, 0 if well."""
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", SHIM, str(pod_folder)],
        {},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(pod_folder / ERRORS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULTS,
    )
    failpoint("engine.shim-started")
    return await ended(pid)


async def ended(pid: int) -> int:
    """Wait for a child without a thread; its exit code, negative for a signal."""
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
