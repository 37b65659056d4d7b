"""Starts a shim: under the lock, in its sandbox, detached, and once only.

The first process waits until `started` is on disk and then exits; the shim is its child, in a session of its own.
"""

import gc
import os
import time

from .control_socket import ControlListener
from .cpu_limit import CpuLimit
from .launch_file import LaunchConfig
from .pod_dir import EXIT_FILE, LAUNCH_FILE, STARTED_FILE, PodDir
from .sandbox import build_sandbox, unshare_namespaces
from .supervisor import PodSupervisor, now_ms
from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_NAME, prctl

_LOCK_RETRY_SECONDS = 0.01
_MAX_LOCK_ATTEMPTS = 500


def main(arguments: list[str]) -> int:
    os.closerange(3, 1 << 20)  # descriptors that the server has left open do not reach a pod
    if arguments[0] == "--probe":
        return probe_sandbox(arguments[1])
    folder = PodDir(arguments[0])
    for _ in range(_MAX_LOCK_ATTEMPTS):
        lock = folder.try_lock()
        if folder.exists(STARTED_FILE) or folder.exists(EXIT_FILE) or not folder.exists(LAUNCH_FILE):
            return 0  # it runs, has run or is gone: a second start changes nothing
        if lock is None:
            time.sleep(_LOCK_RETRY_SECONDS)  # another shim is starting, or an engine is checking the lock
            continue
        try:
            return start_supervisor(folder, lock)
        except OSError as error:
            record_failure(folder, error)
            return 1
    return 0


def start_supervisor(folder: PodDir, lock: int) -> int:
    config = LaunchConfig(folder.read(LAUNCH_FILE))
    groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in config.cgroup_files]
    kill_count = os.open(config.oom_events_file, os.O_RDONLY | os.O_CLOEXEC) if config.oom_events_file else -1
    throttle = CpuLimit(config.cpu_limit_file)
    listener = ControlListener(folder)
    read_end, write_end = os.pipe()
    os.chdir("/")
    if config.use_namespaces:
        unshare_namespaces()
    if os.fork():
        os.close(write_end)
        return 0 if os.read(read_end, 1) else 1
    os.close(read_end)
    try:
        os.ftruncate(lock, 0)
        # read from the machine's /proc, so it is the pid in the machine's namespace
        os.pwrite(lock, os.readlink("/proc/self").encode(), 0)  # noqa: PTH115 - pathlib is too large for a shim
        if config.use_namespaces:
            build_sandbox(config)
        else:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_DUMPABLE, 0)  # the command may run as the same user, and must not read the memory of its shim
        prctl(PR_SET_NAME, b"stoker-pod")
        folder.reserve_space(EXIT_FILE)
    except OSError as error:
        record_failure(folder, error)
        os._exit(1)
    supervisor = PodSupervisor(config, folder, listener, groups, throttle)
    started_at = now_ms()
    folder.write_record(STARTED_FILE, {"at": started_at}, durable=True)
    os.write(write_end, b"1")
    os.close(write_end)
    gc.enable()
    supervisor.run(started_at, kill_count)
    os._exit(0)


def record_failure(folder: PodDir, error: OSError) -> None:
    reason = " ".join(f"It could not be started: {error}".split())
    folder.write_record(EXIT_FILE, {"reason": reason, "ended_at": now_ms()}, durable=True)


def probe_sandbox(path: str) -> int:
    """Try to build an empty sandbox and to enter a directory in it; prints why that is not possible."""
    try:
        config = LaunchConfig(PodDir(path).read(LAUNCH_FILE))
        unshare_namespaces()
        if pid := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        build_sandbox(config)
        if config.probe_dir:
            enter_directory(config)
    except OSError as error:
        os.write(1, f"{error.strerror}: {error.filename}".encode())
        return 1
    return 0


def enter_directory(config: LaunchConfig) -> None:
    """Enter the directory where the command would start, as its user, and check that it is the same one as outside."""
    if config.uid:
        os.setgroups(config.supplementary_groups)
        os.setresgid(config.uid, config.uid, config.uid)
        os.setresuid(config.uid, config.uid, config.uid)
    os.chdir(config.probe_dir)
    found = os.stat(".")  # noqa: PTH116 - pathlib is too large for a shim
    if f"{found.st_dev}:{found.st_ino}" != config.probe_inode:
        raise FileNotFoundError(2, os.strerror(2), config.probe_dir)
