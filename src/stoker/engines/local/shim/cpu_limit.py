"""The limit of a pod's processors. It is lifted while its processes are killed: each needs a little time to die."""

import os


class Throttle:
    def __init__(self, path: str) -> None:
        """The control group's file, of either version; none without a limit."""
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC) if path else -1
        self._kept = b""

    def lift(self) -> None:
        """Nothing is held back any more. Where that cannot be, it dies as slowly as it ran."""
        if self._fd < 0 or self._kept:
            return
        try:
            kept = os.pread(self._fd, 64, 0).strip()
            os.pwrite(self._fd, b"max" if b" " in kept else b"-1", 0)
        except OSError:
            return
        self._kept = kept

    def restore(self) -> None:
        """What runs again has the limit again."""
        if not self._kept:
            return
        try:
            os.pwrite(self._fd, self._kept, 0)
        except OSError:  # the group has gone: no reason to end a pod
            return
        self._kept = b""
