"""How `safe` says things: its phases, priorities, times and durations."""

import base64
import binascii
from collections.abc import Iterable

from stoker.domain.clock import rfc3339
from stoker.domain.errors import bad_request
from stoker.domain.workload import Phase, PodPhase

PHASES = {
    Phase.CREATING: "Pending",
    Phase.PENDING: "Pending",
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
POD_PHASES = {phase: "Failed" if phase is PodPhase.LOST else str(phase) for phase in PodPhase}
PRIORITIES = (80, 125, 150)
"""Normal, high and highest, as the integers that are kept."""


def phases_of(words: Iterable[str]) -> tuple[Phase, ...]:
    """Every inner phase that is shown by one of these words, in the order of the words."""
    return tuple(phase for word in sorted(set(words)) for phase, shown in PHASES.items() if shown == word)


def priority_of(kept: int) -> int:
    return 0 if kept < 100 else 1 if kept < 150 else 2


def moment(at: int | None) -> str:
    return "" if at is None else rfc3339(at)


def duration(milliseconds: int) -> str:
    """`1h30m45s`, `45s`, `0s`: no part that is zero at the front."""
    seconds = max(0, milliseconds) // 1000
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    shown = f"{hours}h" if hours else ""
    shown += f"{minutes}m" if hours or minutes else ""
    return f"{shown}{seconds % 60}s"


def script_of(encoded: str, field: str) -> str:
    """The script of a Base64 entry point."""
    try:
        script = binascii.a2b_base64(encoded, strict_mode=True).decode()
        if len(encoded) % 4:  # one "=" too many is let through
            raise ValueError(encoded)
    except ValueError:
        example = base64.b64encode(b"python train.py").decode()
        problem = f'it is not Base64 of UTF-8 text. "python train.py" is "{example}".'
        raise bad_request(field, problem) from None
    if "\0" in script:
        raise bad_request(field, "the script may not hold the character NUL.")
    return script
