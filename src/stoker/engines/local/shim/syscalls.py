"""System calls that Python 3.11 lacks, through `_ctypes` alone: the `ctypes` package would cost 1 MB in every shim."""

import _ctypes
import os
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_SYS_MOUNT_SETATTR = 442  # the same number on every architecture
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_READ_ONLY = (1).to_bytes(8, sys.byteorder) + bytes(24)


class _Int(_ctypes._SimpleCData):
    _type_ = "i"


class _Long(_ctypes._SimpleCData):
    _type_ = "l"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_libc = _ctypes.dlopen(None, 0)  # pyrefly: ignore[bad-argument-type]


def _call(name: str, what: str, *arguments: int | bytes | None) -> None:
    function = _Function(_ctypes.dlsym(_libc, name))
    if function(*[_Long(value) if isinstance(value, int) else value for value in arguments]) == -1:
        number = _ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    _call("unshare", "unshare", flags)


def prctl(option: int, value: int | bytes) -> None:
    _call("prctl", f"prctl {option}", option, value, 0, 0, 0)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    _call(
        "mount",
        f"mount {target}",
        None if source is None else source.encode("utf-8", "surrogateescape"),
        target.encode("utf-8", "surrogateescape"),
        None if kind is None else kind.encode(),
        flags,
        options.encode() or None,
    )


def make_read_only(target: str, *, recursive: bool) -> None:
    """Make a mount read-only; with `recursive` also the mounts below it."""
    depth = _AT_RECURSIVE if recursive else 0
    path = target.encode("utf-8", "surrogateescape")
    _call("syscall", f"mount_setattr {target}", _SYS_MOUNT_SETATTR, _AT_FDCWD, path, depth, _READ_ONLY, 32)
