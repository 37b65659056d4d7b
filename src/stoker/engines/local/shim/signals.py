"""Signals without the `signal` module, whose enumerations would cost 0.8 MB in every shim."""

from _signal import (  # pyrefly: ignore[missing-import]
    SIG_BLOCK,
    SIG_DFL,
    SIG_SETMASK,
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGQUIT,
    SIGTERM,
    SIGUSR1,
    SIGUSR2,
    SIGXFSZ,
    pthread_sigmask,
    set_wakeup_fd,
    signal,
)

BLOCKED_SIGNALS = (SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2)
"""Signals that a shim blocks: it is stopped through its control socket. They are not ignored, so that a signal that
reaches a child before its exec is kept for it."""


def watch_children(wakeup: int) -> None:
    """Have a byte written to this descriptor when a child ends, and block all other signals."""
    set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal(SIGCHLD, lambda *_: None)
    pthread_sigmask(SIG_BLOCK, BLOCKED_SIGNALS)


def restore_defaults() -> None:
    """Restore the signal state that programs expect."""
    for number in (SIGPIPE, SIGXFSZ, SIGCHLD):
        signal(number, SIG_DFL)
    pthread_sigmask(SIG_SETMASK, ())


__all__ = ["SIGKILL", "SIGTERM", "restore_defaults", "watch_children"]
