"""The words of usage: accounts that every GPU-second of capacity lies in, and the hours they are closed for.

Amounts are whole numbers of milli-GPU-milliseconds, so that they add up exactly.
"""

from enum import StrEnum

from msgspec import Struct

HOUR_MS = 3_600_000
GPU_HOUR = 1000 * HOUR_MS
"""One GPU for one hour, as an amount."""


class Account(StrEnum):
    """Each GPU-second lies in the first of these that holds. UNMEASURED is held without a reading."""

    FAULTY = "faulty"
    FREE = "free"
    STARTING = "starting"
    UNMEASURED = "unmeasured"
    BUSY = "busy"
    IDLE = "idle"


class Entry(Struct, frozen=True, order=True):
    """A line of the ledger: an amount of GPUs of one model. `payer` is the uid of the workload that held them, empty
    when nobody did."""

    payer: str
    model: str
    account: Account
    amount: int


class Stats(Struct, frozen=True):
    """Utilisation over samples, in hundredths of a percent; all 0 without samples. `total` is their sum."""

    samples: int = 0
    total: int = 0
    lowest: int = 0
    highest: int = 0
    p50: float = 0.0
    p95: float = 0.0


class MemoryStats(Struct, frozen=True):
    """GPU memory over samples that have it, in MiB a GPU."""

    samples: int = 0
    used_total: int = 0
    used_highest: int = 0
    size_total: int = 0


class Replicas(Struct, frozen=True):
    """How many pods held GPUs at once, while any did; `average` is weighted by time."""

    average: float = 0.0
    highest: int = 0
    lowest: int = 0


class Use(Struct, frozen=True):
    """What one workload had of an hour: all its accounts together, and the most that it held at once."""

    uid: str
    allocated: int
    peak_milli: int
    stats: Stats
    memory: MemoryStats
    replicas: Replicas


class HourUse(Struct, frozen=True):
    """A cluster's hour. The entries add up to the capacity's time; `gpus` is the most that were there at once."""

    at: int
    gpus: int
    capacity: int
    entries: tuple[Entry, ...]
    uses: tuple[Use, ...]
    stats: Stats
