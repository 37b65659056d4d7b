"""Signals without the `signal` module, whose enumerations would cost 0.8 MB in every pod."""

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

BLOCKED = (SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2)
"""What a keeper does not listen to: it is stopped through its control socket. Not ignored, so that a signal that
reaches a child before it has become its command is kept for it."""


def listen_for_children(wakeup: int) -> None:
    """Write a byte to this descriptor whenever a child ends, and hear nothing else."""
    set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal(SIGCHLD, lambda *_: None)
    pthread_sigmask(SIG_BLOCK, BLOCKED)


def as_usual() -> None:
    """What a program expects to find at its start."""
    for number in (SIGPIPE, SIGXFSZ, SIGCHLD):
        signal(number, SIG_DFL)
    pthread_sigmask(SIG_SETMASK, ())


__all__ = ["SIGKILL", "SIGTERM", "as_usual", "listen_for_children"]
