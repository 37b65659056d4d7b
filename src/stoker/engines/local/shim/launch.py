"""How a keeper comes to be: under the lock, behind its walls, detached, and once only.

The first process waits until `started` is on disk and then goes; the keeper is its child, in a session of its own.
"""

import gc
import os
import time

from .control import Listener
from .folder import EXIT, ORDER, STARTED, Folder
from .keep import Keeper, now_ms
from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_NAME, prctl
from .order import LaunchOrder
from .throttle import Throttle
from .walls import build, separate

_LOCK_SECONDS = 0.01
_LOCK_TRIES = 500


def main(arguments: list[str]) -> int:
    os.closerange(3, 1 << 20)  # whatever the server forgot to close is none of a pod's business
    if arguments[0] == "--probe":
        return probe(arguments[1])
    folder = Folder(arguments[0])
    for _ in range(_LOCK_TRIES):
        lock = folder.lock()
        if folder.has(STARTED) or folder.has(EXIT) or not folder.has(ORDER):
            return 0  # it runs, it has run, or it is gone: a second start changes nothing
        if lock is None:
            time.sleep(_LOCK_SECONDS)  # another shim is starting, or an engine has a look
            continue
        try:
            return start(folder, lock)
        except OSError as error:
            fail(folder, error)
            return 1
    return 0


def start(folder: Folder, lock: int) -> int:
    order = LaunchOrder(folder.read(ORDER))
    groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in order.groups]
    kill_count = os.open(order.kill_count, os.O_RDONLY | os.O_CLOEXEC) if order.kill_count else -1
    throttle = Throttle(order.cpu_limit)
    listener = Listener(folder)
    read_end, write_end = os.pipe()
    os.chdir("/")
    if order.namespaces:
        separate()
    if os.fork():
        os.close(write_end)
        return 0 if os.read(read_end, 1) else 1
    os.close(read_end)
    try:
        os.ftruncate(lock, 0)
        # seen from the machine's /proc, this is the machine's number for this process
        os.pwrite(lock, os.readlink("/proc/self").encode(), 0)  # noqa: PTH115 - pathlib is too large for a shim
        if order.namespaces:
            build(order)
        else:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_DUMPABLE, 0)  # the command may be the same user, and must not look into its keeper
        prctl(PR_SET_NAME, b"stoker-pod")
        folder.hold_room(EXIT)
    except OSError as error:
        fail(folder, error)
        os._exit(1)
    keeper = Keeper(order, folder, listener, groups, throttle)
    started_at = now_ms()
    folder.record(STARTED, {"at": started_at}, durable=True)
    os.write(write_end, b"1")
    os.close(write_end)
    gc.enable()
    keeper.run(started_at, kill_count)
    os._exit(0)


def fail(folder: Folder, error: OSError) -> None:
    reason = " ".join(f"It could not be started: {error}".split())
    folder.record(EXIT, {"reason": reason, "ended_at": now_ms()}, durable=True)


def probe(path: str) -> int:
    """Try to build the walls around nothing; prints why if that is not possible."""
    try:
        order = LaunchOrder(Folder(path).read(ORDER))
        separate()
        if pid := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        build(order)
    except OSError as error:
        os.write(1, f"{error.strerror}: {error.filename}".encode())
        return 1
    return 0
