"""Failpoints: named places where a test can make the process die, to prove what a crash there leaves behind."""

import os
import signal

FAILPOINT_VARIABLE = "STOKER_FAILPOINT"


def failpoint(name: str) -> None:
    """Exit at once, as after a power cut, if the environment names this failpoint."""
    if os.environ.get(FAILPOINT_VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
