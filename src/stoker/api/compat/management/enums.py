"""Phases, priorities, times and durations of the management family."""

import base64
import binascii
from collections.abc import Iterable

from stoker.domain.clock import format_rfc3339
from stoker.domain.errors import bad_request
from stoker.domain.workload.phase import Phase, PodPhase

PHASE_NAMES = {
    Phase.CREATING: "Pending",
    Phase.PENDING: "Pending",
    Phase.SUBMITTED: "Pending",
    Phase.INITIALIZING: "Pending",
    Phase.RESUMING: "Pending",
    Phase.RUNNING: "Running",
    Phase.DEGRADED: "Running",
    Phase.STOPPING: "Running",
    Phase.TERMINATING: "Running",
    Phase.DELETING: "Running",
    Phase.UNKNOWN: "Running",
    Phase.UPDATING: "Updating",
    Phase.STOPPED: "Stopped",
    Phase.COMPLETED: "Succeeded",
    Phase.FAILED: "Failed",
}
POD_PHASE_NAMES = {phase: "Failed" if phase is PodPhase.LOST else str(phase) for phase in PodPhase}
PRIORITY_LEVELS = (80, 125, 150)
"""The stored values of the priorities normal, high and highest."""


def phases_shown_as(words: Iterable[str]) -> tuple[Phase, ...]:
    """The domain phases that are shown under these names, in the order of the names."""
    return tuple(phase for word in sorted(set(words)) for phase, shown in PHASE_NAMES.items() if shown == word)


def priority_level(kept: int) -> int:
    return 0 if kept < 100 else 1 if kept < 150 else 2


def rfc3339_or_empty(at: int | None) -> str:
    return "" if at is None else format_rfc3339(at)


def format_duration(milliseconds: int) -> str:
    """A duration such as `1h30m45s`, `45s` or `0s`, without leading zero units."""
    seconds = max(0, milliseconds) // 1000
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    shown = f"{hours}h" if hours else ""
    shown += f"{minutes}m" if hours or minutes else ""
    return f"{shown}{seconds % 60}s"


def decode_script(encoded: str, field: str) -> str:
    """The script of a Base64-encoded entry point."""
    try:
        script = binascii.a2b_base64(encoded, strict_mode=True).decode()
        if len(encoded) % 4:  # one surplus "=" is accepted
            raise ValueError(encoded)
    except ValueError:
        example = base64.b64encode(b"python train.py").decode()
        problem = f'it is not Base64 of UTF-8 text. "python train.py" is "{example}".'
        raise bad_request(field, problem) from None
    if "\0" in script:
        raise bad_request(field, "the script must not contain the character NUL.")
    return script
