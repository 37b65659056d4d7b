"""How a workload ended, as an exit code."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.client.workload_shapes import WorkloadDetail

_EXITED = re.compile(r"pod \S+ exited with code (\d{1,3})\b")
_KILLED = re.compile(r"pod \S+ was killed by signal (\d{1,2})\b")
FAILED = 1


def exit_code(detail: "WorkloadDetail") -> int:
    """The code that the job's own command ended with, 128 + n for signal n; 1 where it cannot be known."""
    if detail.phase == "Succeeded":
        return 0
    words = [each.message for each in detail.conditions if each.type == "Failed"][-1:] or [detail.message]
    if detail.phase != "Failed":
        return FAILED
    if killed := _KILLED.match(words[0]):
        return 128 + int(killed[1])
    exited = _EXITED.match(words[0])
    return int(exited[1]) & 0xFF or FAILED if exited else FAILED
