"""The back-off between restarts of a command. It repeats `concurrency/retry`, because a shim imports nothing outside
its package."""

INITIAL_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 300.0
RESET_AFTER_SECONDS = 600.0


class RestartBackoff:
    """The delay doubles with every run in a row that lasted less than ten minutes."""

    def __init__(self) -> None:
        self._delay = INITIAL_BACKOFF_SECONDS

    def next_delay(self, ran_seconds: float) -> float:
        """Seconds to wait after a run of this length."""
        if ran_seconds >= RESET_AFTER_SECONDS:
            self._delay = INITIAL_BACKOFF_SECONDS
        wait = self._delay
        self._delay = min(self._delay * 2, MAX_BACKOFF_SECONDS)
        return wait
