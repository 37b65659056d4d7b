"""Places where a process can be made to die, so that a test can prove what a crash there leaves behind."""

import os
import signal

VARIABLE = "STOKER_FAILPOINT"


def failpoint(name: str) -> None:
    """Die here, as by a power cut, if the environment names this place."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
