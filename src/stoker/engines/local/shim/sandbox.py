"""The walls of a pod: its own processes, /dev, /tmp and IPC, and of the data directory its own folder.

What is hidden cannot be uncovered: the command keeps no privilege that mounts, and in a user namespace of its own
the kernel locks these mounts. The platform's code and the home of the server's user can be read and not written; the
rest of the machine's files stays as the command's user has it.
"""

import os

from .kernel import (
    CLONE_NEWIPC,
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
_TEMPORARY = "/tmp"  # noqa: S108 - it becomes the pod's own
_READ_ONLY_IN_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_PATH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
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
    own = CLONE_NEWNS | CLONE_NEWPID
    if os.path.exists("/proc/self/ns/ipc"):  # noqa: PTH110 - pathlib is too large for a shim
        own |= CLONE_NEWIPC
    if user == 0:
        unshare(own)
        return
    unshare(CLONE_NEWUSER | own)
    _put("/proc/self/setgroups", "deny")
    _put("/proc/self/uid_map", f"{user} {user} 1")
    _put("/proc/self/gid_map", f"{group} {group} 1")


def build(order: LaunchOrder) -> None:
    """Hide what is to be hidden. Runs as the first process of the new namespaces."""
    os.umask(0o022)  # what is made on the way to what the command sees can be passed by its user
    mount(None, "/", None, MS_REC | MS_SLAVE)
    pinned = _pin(order.read_only)
    folder = os.open(order.folder, _PATH)
    temporary = os.open(order.temporary, _PATH)
    code = [(path, os.open(path, _PATH)) for path in order.read_only if _is_folder(path)]
    accounts = os.open(order.accounts, os.O_PATH | os.O_CLOEXEC) if order.accounts else -1
    devices = [(name, os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC)) for name in order.devices]
    _own_devices(devices)
    if _is_folder(_TEMPORARY):
        mount(f"/proc/self/fd/{temporary}", _TEMPORARY, None, MS_BIND)
    for path in order.covered:
        mount("stoker", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k")
    for path in order.hidden:
        if _is_folder(path):
            _cover(path, order.folder, folder)
        elif os.path.exists(path):  # noqa: PTH110 - else it lies in what is hidden already
            mount("/dev/null", path, None, MS_BIND)
    for path, fd in [*code, (order.folder, folder)]:
        if not _is_folder(path):  # it lies in what is new or covered now
            _show(path, fd)
    if order.accounts:
        mount(f"/proc/self/fd/{accounts}", "/etc/passwd", None, MS_BIND)
    for path in {*pinned, *order.read_only}:
        if _is_folder(path) and any(f"{path}/".startswith(f"{top}/") for top in order.read_only):
            make_read_only(path, recursive=False)
    for path in order.covered:
        make_read_only(path, recursive=False)
    make_read_only("/sys", recursive=True)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for name in _READ_ONLY_IN_PROC:
        path = f"/proc/{name}"
        if os.path.exists(path):  # noqa: PTH110
            mount(path, path, None, MS_BIND | MS_REC)
            make_read_only(path, recursive=True)
    for fd in (folder, temporary, accounts, *(fd for _, fd in code + devices)):
        if fd >= 0:
            os.close(fd)


def _pin(paths: list[str]) -> list[str]:
    """Each of these, and each folder above it, is a mount of its own: what is mounted cannot be renamed away."""
    above = {path[:end] for path in paths for end in range(2, len(path) + 1) if path[end : end + 1] in ("", "/")}
    pinned = sorted(filter(_is_folder, above), key=len)
    for path in pinned:
        mount(path, path, None, MS_BIND | MS_REC)
    return pinned


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


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - pathlib is too large for a shim


def _put(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
