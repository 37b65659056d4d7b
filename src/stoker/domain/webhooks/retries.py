"""When a failed webhook delivery is attempted again."""

RETRY_DELAYS_SECONDS = (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400)
"""Delay of each attempt after the one before it."""
MAX_RETRY_AFTER_SECONDS = 86_400


def retry_delay_seconds(tries: int, jitter: float, retry_after_seconds: int = 0) -> float | None:
    """The delay after this many failed attempts; None after the last one.

    `jitter` from 0 to 1 spreads retries; a Retry-After of the receiver extends the delay up to a maximum.
    """
    if tries >= len(RETRY_DELAYS_SECONDS):
        return None
    own = RETRY_DELAYS_SECONDS[tries] * (1 + jitter / 10)
    return max(own, min(retry_after_seconds, MAX_RETRY_AFTER_SECONDS))
