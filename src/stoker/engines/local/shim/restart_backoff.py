"""How long a command that has ended waits for its next start."""

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
HEALTHY_SECONDS = 600.0


class Pause:
    """Doubles with every start in a row that did not last ten minutes."""

    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def after(self, ran_seconds: float) -> float:
        """Seconds to wait after a run of this length."""
        if ran_seconds >= HEALTHY_SECONDS:
            self._next = FIRST_SECONDS
        wait = self._next
        self._next = min(self._next * 2, LONGEST_SECONDS)
        return wait
