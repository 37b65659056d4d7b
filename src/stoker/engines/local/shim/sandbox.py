"""The sandbox of a pod: its own processes, /dev, /tmp and IPC, and only its own directory of the data directory.

Hidden paths cannot be uncovered: the command keeps no capability to mount, and in a user namespace the kernel locks
these mounts. The platform's code and the home of the server's user are read-only; other files of the machine are as the
command's user may access them.
"""

import os

from .launch_file import LaunchConfig
from .syscalls import (
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

# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, ipc_lock, sys_chroot,
# sys_nice, audit_write, setfcap. Not net_raw: it would read what others send to the server on loopback.
KEPT_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 14, 18, 23, 29, 31}
_MAX_CAPABILITIES = 64
_TMP = "/tmp"  # noqa: S108 - it becomes the pod's own
_READ_ONLY_IN_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_O_PATH_DIR = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_DEV_SYMLINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def unshare_namespaces() -> None:
    """Leave the machine's namespaces; the next child is the first process of the new ones."""
    user, group = os.geteuid(), os.getegid()
    own = CLONE_NEWNS | CLONE_NEWPID
    if os.path.exists("/proc/self/ns/ipc"):  # noqa: PTH110 - pathlib is too large for a shim
        own |= CLONE_NEWIPC
    if user == 0:
        unshare(own)
        return
    unshare(CLONE_NEWUSER | own)
    _write_file("/proc/self/setgroups", "deny")
    _write_file("/proc/self/uid_map", f"{user} {user} 1")
    _write_file("/proc/self/gid_map", f"{group} {group} 1")


def build_sandbox(config: LaunchConfig) -> None:
    """Build the mounts of the sandbox. Runs as the first process of the new namespaces."""
    os.umask(0o022)  # created parent directories can be traversed by the command's user
    mount(None, "/", None, MS_REC | MS_SLAVE)
    pinned = _bind_parents(config.read_only_dirs)
    folder = os.open(config.working_dir, _O_PATH_DIR)
    temporary = os.open(config.tmp_dir, _O_PATH_DIR)
    code = [(path, os.open(path, _O_PATH_DIR)) for path in config.read_only_dirs if _is_dir(path)]
    accounts = os.open(config.passwd_file, os.O_PATH | os.O_CLOEXEC) if config.passwd_file else -1
    devices = [(name, os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC)) for name in config.devices]
    _mount_dev(devices)
    if _is_dir(_TMP):
        mount(f"/proc/self/fd/{temporary}", _TMP, None, MS_BIND)
    for path in config.masked_dirs:
        mount("stoker", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k")
    for path in config.hidden_paths:
        if _is_dir(path):
            _mask_dir(path, config.working_dir, folder)
        elif os.path.exists(path):  # noqa: PTH110 - else it lies in what is hidden already
            mount("/dev/null", path, None, MS_BIND)
    for path, fd in [*code, (config.working_dir, folder)]:
        if not _is_dir(path):  # it is inside something that is mounted or masked now
            _bind_dir(path, fd)
    if config.passwd_file:
        mount(f"/proc/self/fd/{accounts}", "/etc/passwd", None, MS_BIND)
    for path in {*pinned, *config.read_only_dirs}:
        if _is_dir(path) and any(f"{path}/".startswith(f"{top}/") for top in config.read_only_dirs):
            make_read_only(path, recursive=False)
    for path in config.masked_dirs:
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


def _bind_parents(paths: list[str]) -> list[str]:
    """Make each of these directories and its parents a mount of its own: a mount point cannot be renamed away."""
    above = {path[:end] for path in paths for end in range(2, len(path) + 1) if path[end : end + 1] in ("", "/")}
    pinned = sorted(filter(_is_dir, above), key=len)
    for path in pinned:
        mount(path, path, None, MS_BIND | MS_REC)
    return pinned


def drop_capabilities() -> None:
    """Limit the bounding set, so that no program this process executes can gain more capabilities."""
    for capability in range(_MAX_CAPABILITIES):
        if capability not in KEPT_CAPABILITIES:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                return  # past the last capability of this kernel


def _mask_dir(path: str, folder: str, folder_fd: int) -> None:
    """Mount an empty directory over this one that holds nothing but the pod's directory."""
    mount("stoker", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k")
    if folder.startswith(f"{path}/"):
        _bind_dir(folder, folder_fd)
    make_read_only(path, recursive=False)


def _bind_dir(folder: str, folder_fd: int) -> None:
    os.makedirs(folder, 0o755)  # noqa: PTH103
    mount(f"/proc/self/fd/{folder_fd}", folder, None, MS_BIND | MS_REC)


def _mount_dev(devices: list[tuple[str, int]]) -> None:
    """Mount a /dev without disks, kernel memory and the terminals of others."""
    mount("stoker", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=256k")
    for name, fd in devices:
        target = f"/dev/{name}"
        if os.path.isdir(f"/proc/self/fd/{fd}"):  # noqa: PTH112
            os.mkdir(target, 0o755)  # noqa: PTH102
        else:
            os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC, 0o600))
        mount(f"/proc/self/fd/{fd}", target, None, MS_BIND | MS_REC)
    for name, target in _DEV_SYMLINKS.items():
        os.symlink(target, f"/dev/{name}")  # noqa: PTH211
    for name, mode in (("pts", 0o755), ("shm", 0o1777)):
        os.mkdir(f"/dev/{name}", mode)  # noqa: PTH102
    terminals = "newinstance,ptmxmode=0666,mode=620" + (",gid=5" if os.geteuid() == 0 else "")
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals)
    mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")  # noqa: S108


def _is_dir(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - pathlib is too large for a shim


def _write_file(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
