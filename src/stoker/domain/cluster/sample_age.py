"""How old a sample may be and still count: the rule that every consumer of samples follows.

- As the current value, a sample counts for five minutes, or for two sampling periods if that is longer, so that one
  lost sample changes nothing. The live view, the idle policy and the node metrics use this limit.
- As part of a history, two samples describe the time between them if it is at most ten minutes: each of them counts for
  five. The usage ledger and the idle times use this limit, also for samples whose period they do not know.
"""

MAX_SAMPLE_AGE_MS = 300_000
MAX_SAMPLE_GAP_MS = 2 * MAX_SAMPLE_AGE_MS


def max_sample_age(period_ms: int) -> int:
    """How long a sample counts as current, in milliseconds."""
    return max(MAX_SAMPLE_AGE_MS, 2 * period_ms)
