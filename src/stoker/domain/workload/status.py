"""The status message of a workload: why it is pending or lacks replicas, why nothing happens, or how it ended."""

from msgspec import Struct

from stoker.domain.clock import format_rfc3339
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase, StatusReason

NOT_YET_SCHEDULED = StatusReason("not_considered", "Queued. The scheduler has not considered it yet.")
"""Status of a workload that no scheduling cycle has considered."""
NO_LEADER = "not_driven"
ENGINE_UNREACHABLE = "cluster_unreachable"


class LeaderlessCluster(Struct, frozen=True):
    """A cluster whose lease no server holds: nothing starts, stops or is observed there."""

    name: str
    simulated: bool

    @property
    def code(self) -> str:
        return NO_LEADER

    @property
    def recovery(self) -> str:
        return "a server drives it"

    @property
    def message(self) -> str:
        return f'No server drives cluster "{self.name}"'

    @property
    def hint(self) -> str:
        if self.simulated:
            return "Start the server with --demo, or remove the demo with: stoker demo remove"
        return "Start the server that drives it."


class UnreachableCluster(Struct, frozen=True):
    """A cluster whose engine cannot be reached: nothing starts, stops or is observed there."""

    name: str
    since: int
    reason: str

    @property
    def code(self) -> str:
        return ENGINE_UNREACHABLE

    @property
    def recovery(self) -> str:
        return "it can be reached again"

    @property
    def message(self) -> str:
        return f'Cluster "{self.name}" cannot be reached since {format_rfc3339(self.since)}'

    @property
    def hint(self) -> str:
        return f"{self.reason} Admins see what to do with: stoker cluster check {self.name}".strip()


UnavailableCluster = LeaderlessCluster | UnreachableCluster


def describe_status(workload: Workload, unavailable: UnavailableCluster | None = None) -> StatusReason:
    """The status of a workload; the code is empty unless it waits for something."""
    phase = workload.phase
    if unavailable is not None and not phase.is_finished:
        text = f"{unavailable.message}{_describe_consequence(phase, unavailable)} {unavailable.hint}"
        return StatusReason(unavailable.code, text)
    if phase.accrues_pending_time:
        why = workload.pending_message or workload.message or NOT_YET_SCHEDULED.message
        return StatusReason(workload.pending_reason or NOT_YET_SCHEDULED.code, why)
    if workload.pending_message and not phase.is_finished and not phase.is_terminating:
        return StatusReason(workload.pending_reason, workload.pending_message)
    return StatusReason("", workload.message)


def describe_missing_replicas(missing: int, replicas: int, sentence: str) -> str:
    """Why some replicas of a running workload are not placed."""
    return f"{missing} of {replicas} {'replicas wait' if replicas > 1 else 'replica waits'}. {sentence}"


def _describe_consequence(phase: Phase, unavailable: UnavailableCluster) -> str:
    if phase.accrues_pending_time:
        return ", so it cannot start."
    if phase.is_terminating:
        return f". The stop is recorded and takes place when {unavailable.recovery}."
    return ", so this is its last known state."
