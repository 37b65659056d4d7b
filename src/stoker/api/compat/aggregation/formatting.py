"""Formats of the aggregation family: times in seconds, percentages, GPUs and gigabytes.

The status of a workload is that of the monitoring family.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from stoker.api.compat.monitoring.enums import STATUS_BY_PHASE
from stoker.domain.cluster.quantity import GIB
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import bad_request
from stoker.domain.usage.ledger import GPU_HOUR
from stoker.domain.workload.phase import Phase

RFC3339_PATTERN = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)"
    r"(\.[0-9]{1,9})?([Zz]|[-+ ]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""RFC 3339. A space is accepted as a plus sign that was not URL-encoded."""
GPU_DECIMALS = 6
DECIMALS = 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAP_SECOND = re.compile(r":60(?=[.Zz+-])")


def parse_time(text: str, field: str) -> int:
    """Epoch milliseconds of a well-formed time; a date that does not exist is an error. A leap second counts as
    the first second of the next day."""
    usual, added = LEAP_SECOND.subn(":59", text.replace(" ", "+"))
    try:
        moment = datetime.fromisoformat(usual.upper())
    except ValueError:
        raise bad_request(field, f'there is no day or time "{text}". Use an RFC 3339 time that there is.') from None
    return (moment - EPOCH) // timedelta(milliseconds=1) + added * 1000


@lru_cache(4096)
def format_time(at: int) -> str:
    """Epoch milliseconds as `2025-11-05T14:00:00Z`."""
    return (EPOCH + timedelta(seconds=at // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_percent(hundredths: int) -> float:
    return hundredths / 100


def to_rate(amount: int, whole: int) -> float:
    """A ratio in percent, 0..100."""
    return round(100 * amount / whole, DECIMALS) if whole else 0.0


def to_gpus(amount: int) -> float:
    """The mean number of GPUs over an hour, with six decimals."""
    return round(amount / GPU_HOUR, GPU_DECIMALS)


def round_up_gpus(milli: int) -> int:
    return -(-milli // MILLI)


def to_gigabytes(size: int) -> float:
    """A gigabyte has 1024³ bytes, as GPU vendors count."""
    return round(size / GIB, DECIMALS)


def to_status(phase: str) -> str:
    return STATUS_BY_PHASE[Phase(phase)] if phase else STATUS_BY_PHASE[Phase.UNKNOWN]
