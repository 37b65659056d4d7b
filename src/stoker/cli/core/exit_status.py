"""The exit code of a workload."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.wire.management import WorkloadDetailView

_EXITED = re.compile(r"pod \S+ exited with code (\d{1,3})\b")
_KILLED = re.compile(r"pod \S+ was killed by signal (\d{1,2})\b")
FAILED_EXIT_CODE = 1


def job_exit_code(detail: "WorkloadDetailView") -> int:
    """The exit code of the job's command, 128 + n for signal n; 1 if it is unknown."""
    if detail.phase == "Succeeded":
        return 0
    words = [each.message for each in detail.conditions if each.type == "Failed"][-1:] or [detail.message]
    if detail.phase != "Failed":
        return FAILED_EXIT_CODE
    if killed := _KILLED.match(words[0]):
        return 128 + int(killed[1])
    exited = _EXITED.match(words[0])
    return int(exited[1]) & 0xFF or FAILED_EXIT_CODE if exited else FAILED_EXIT_CODE
