"""The walls of a pod: it sees its own processes, its own /dev and its own folder of the data directory.

What is hidden cannot be uncovered: the command keeps no privilege that mounts, and in a user namespace of its own
the kernel locks these mounts. The rest of the machine's files, /tmp included, stays as the user has it.
"""

import os

from .kernel import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_REC,
    MS_SLAVE,
    PR_CAPBSET_DROP,
    make_read_only,
    mount,
    prctl,
    unshare,
)
from .order import LaunchOrder

# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, ipc_lock, sys_chroot,
# sys_nice, audit_write, setfcap. Not net_raw: it would read what others send to the server on loopback.
KEPT_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 14, 18, 23, 29, 31}
_CAPABILITIES = 64
_READ_ONLY_IN_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def separate() -> None:
    """Leave the machine's namespaces; the next child is the first process of the new ones."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        unshare(CLONE_NEWNS | CLONE_NEWPID)
        return
    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)
    _put("/proc/self/setgroups", "deny")
    _put("/proc/self/uid_map", f"{user} {user} 1")
    _put("/proc/self/gid_map", f"{group} {group} 1")


def build(order: LaunchOrder) -> None:
    """Hide what is to be hidden. Runs as the first process of the new namespaces."""
    mount(None, "/", None, MS_REC | MS_SLAVE)
    _pin(order.read_only)
    folder = os.open(order.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    devices = [(name, os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC)) for name in order.devices]
    _own_devices(devices)
    for path in order.hidden:
        if os.path.isdir(path):  # noqa: PTH112 - pathlib is too large for a shim
            _cover(path, order.folder, folder)
        elif os.path.exists(path):  # noqa: PTH110 - else it lies in what is hidden already
            mount("/dev/null", path, None, MS_BIND)
    if not os.path.isdir(order.folder):  # noqa: PTH112 - the data directory is in /dev/shm, which is new now
        _show(order.folder, folder)
    for path in order.read_only:
        if os.path.isdir(path):  # noqa: PTH112
            make_read_only(path, recursive=False)
    make_read_only("/sys", recursive=True)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for name in _READ_ONLY_IN_PROC:
        path = f"/proc/{name}"
        if os.path.exists(path):  # noqa: PTH110
            mount(path, path, None, MS_BIND | MS_REC)
            make_read_only(path, recursive=True)
    os.close(folder)
    for _, device in devices:
        os.close(device)


def _pin(paths: list[str]) -> None:
    """Each of these, and each folder above it, is a mount of its own: what is mounted cannot be renamed away."""
    above = {path[:end] for path in paths for end in range(2, len(path) + 1) if path[end : end + 1] in ("", "/")}
    for path in sorted(above, key=len):
        if os.path.isdir(path):  # noqa: PTH112
            mount(path, path, None, MS_BIND | MS_REC)


def give_up_privileges() -> None:
    """No program that this process becomes can ever hold more than the kept capabilities."""
    for capability in range(_CAPABILITIES):
        if capability not in KEPT_CAPABILITIES:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                return  # past the last one that this kernel knows


def _cover(path: str, folder: str, folder_fd: int) -> None:
    """An empty directory in place of this one, with nothing in it but the pod's folder."""
    mount("stoker", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k")
    if folder.startswith(f"{path}/"):
        _show(folder, folder_fd)
    make_read_only(path, recursive=False)


def _show(folder: str, folder_fd: int) -> None:
    os.makedirs(folder, 0o755)  # noqa: PTH103
    mount(f"/proc/self/fd/{folder_fd}", folder, None, MS_BIND | MS_REC)


def _own_devices(devices: list[tuple[str, int]]) -> None:
    """A /dev without disks, kernel memory and other people's terminals."""
    mount("stoker", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=256k")
    for name, fd in devices:
        target = f"/dev/{name}"
        if os.path.isdir(f"/proc/self/fd/{fd}"):  # noqa: PTH112
            os.mkdir(target, 0o755)  # noqa: PTH102
        else:
            os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC, 0o600))
        mount(f"/proc/self/fd/{fd}", target, None, MS_BIND | MS_REC)
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")  # noqa: PTH211
    for name, mode in (("pts", 0o755), ("shm", 0o1777)):
        os.mkdir(f"/dev/{name}", mode)  # noqa: PTH102
    terminals = "newinstance,ptmxmode=0666,mode=620" + (",gid=5" if os.geteuid() == 0 else "")
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals)
    mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")  # noqa: S108


def _put(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
