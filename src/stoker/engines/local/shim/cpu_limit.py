"""The CPU limit of a pod. It is lifted while the processes are killed, because each needs CPU time to exit."""

import os


class CpuLimit:
    def __init__(self, path: str) -> None:
        """`path` is the control group's file, of either version; empty without a limit."""
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC) if path else -1
        self._saved = b""

    def lift(self) -> None:
        """Lift the limit; where that is not possible, the processes exit slowly."""
        if self._fd < 0 or self._saved:
            return
        try:
            kept = os.pread(self._fd, 64, 0).strip()
            os.pwrite(self._fd, b"max" if b" " in kept else b"-1", 0)
        except OSError:
            return
        self._saved = kept

    def restore(self) -> None:
        """Set the limit again for the next run."""
        if not self._saved:
            return
        try:
            os.pwrite(self._fd, self._saved, 0)
        except OSError:  # the group is gone, which is no reason to end a pod
            return
        self._saved = b""
