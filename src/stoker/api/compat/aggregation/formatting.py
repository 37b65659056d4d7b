"""How `aggregation` says things: times to the second, percents, GPUs, gigabytes, and a workload's status as `lens` has
it."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from stoker.api.lens.words import STATUSES
from stoker.domain.errors import bad_request
from stoker.domain.quantity import GIB
from stoker.domain.resources import MILLI
from stoker.domain.usage import GPU_HOUR
from stoker.domain.workload import Phase

TIME = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)"
    r"(\.[0-9]{1,9})?([Zz]|[-+ ]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""RFC 3339. A blank is a plus that was not encoded."""
GPU_DIGITS = 6
DIGITS = 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAP = re.compile(r":60(?=[.Zz+-])")


def instant(text: str, field: str) -> int:
    """Epoch milliseconds of a time in the right form, which may still be the 30th of February. The second that is
    added to some days is the first of the next."""
    usual, added = LEAP.subn(":59", text.replace(" ", "+"))
    try:
        moment = datetime.fromisoformat(usual.upper())
    except ValueError:
        raise bad_request(field, f'there is no day or time "{text}". Use an RFC 3339 time that there is.') from None
    return (moment - EPOCH) // timedelta(milliseconds=1) + added * 1000


@lru_cache(4096)
def shown(at: int) -> str:
    """Epoch milliseconds as `2025-11-05T14:00:00Z`."""
    return (EPOCH + timedelta(seconds=at // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def percent(hundredths: int) -> float:
    return hundredths / 100


def rate(amount: int, whole: int) -> float:
    """A part of a whole, from 0 to 100."""
    return round(100 * amount / whole, DIGITS) if whole else 0.0


def gpus(amount: int) -> float:
    """GPUs over a whole hour; as exact as six digits can be."""
    return round(amount / GPU_HOUR, GPU_DIGITS)


def whole_gpus(milli: int) -> int:
    return -(-milli // MILLI)


def gigabytes(size: int) -> float:
    """A gigabyte has 1024³ bytes here, as the makers of GPUs count."""
    return round(size / GIB, DIGITS)


def status(phase: str) -> str:
    return STATUSES[Phase(phase)] if phase else STATUSES[Phase.UNKNOWN]
