"""Phases of workloads and pods, and the conditions that record how a workload reached its phase."""

from enum import StrEnum

from msgspec import Struct


class Phase(StrEnum):
    CREATING = "Creating"
    PENDING = "Pending"
    SUBMITTED = "Submitted"
    """In the queue of an engine that admits workloads by itself."""
    INITIALIZING = "Initializing"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    UPDATING = "Updating"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    RESUMING = "Resuming"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    DELETING = "Deleting"
    UNKNOWN = "Unknown"

    @property
    def is_terminal(self) -> bool:
        """Whether the phase can never change again."""
        return self in _TERMINAL_PHASES

    @property
    def is_finished(self) -> bool:
        """Whether no pod runs and only a resume can start one."""
        return self in _FINISHED_PHASES

    @property
    def is_pending(self) -> bool:
        """Whether the workload waits in the queue."""
        return self in _PENDING_PHASES

    @property
    def accrues_pending_time(self) -> bool:
        """Whether the workload waits in a queue, that of Stoker or that of its engine."""
        return self in _PENDING_PHASES or self is Phase.SUBMITTED

    @property
    def displayed(self) -> "Phase":
        """The phase that users see: whose queue a workload waits in makes no difference to them."""
        return Phase.PENDING if self is Phase.SUBMITTED else self

    @property
    def is_terminating(self) -> bool:
        """Whether its pods are being terminated."""
        return self in _TERMINATING_PHASES


_TERMINAL_PHASES = frozenset({Phase.COMPLETED, Phase.FAILED})
_FINISHED_PHASES = _TERMINAL_PHASES | {Phase.STOPPED}
_PENDING_PHASES = frozenset({Phase.PENDING, Phase.RESUMING})
_TERMINATING_PHASES = frozenset({Phase.STOPPING, Phase.TERMINATING, Phase.DELETING})


class EnginePhase(StrEnum):
    """The state of a workload as its engine reports it. Stoker itself sets REQUESTED, before the engine was asked, and
    GONE, when it no longer reports the workload."""

    REQUESTED = "Requested"
    QUEUED = "Queued"
    ADMITTED = "Admitted"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    EVICTED = "Evicted"
    SUSPENDED = "Suspended"
    GONE = "Gone"

    @property
    def is_finished(self) -> bool:
        return self in _FINISHED_ENGINE_PHASES


_FINISHED_ENGINE_PHASES = frozenset({EnginePhase.SUCCEEDED, EnginePhase.FAILED, EnginePhase.GONE})


class PodPhase(StrEnum):
    """LOST means that the node or the shim disappeared, so that the exit code is unknown."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    LOST = "Lost"

    @property
    def is_finished(self) -> bool:
        return self in _FINISHED_POD_PHASES


_FINISHED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.LOST})


class ConditionType(StrEnum):
    QUEUED = "Queued"
    DISPATCHED = "Dispatched"
    RUNNING = "Running"
    UPDATING = "Updating"
    PREEMPTED = "Preempted"
    FAILOVER = "Failover"
    TIMED_OUT = "TimedOut"
    STOPPED = "Stopped"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


ROLLED_BACK = "RolledBack"
"""Condition reason and note key: the previous revision was abandoned for the present one."""
SERVICE_PORT_TAKEN = "ServicePortTaken"
"""The service listens on another port than requested."""
DEADLINE_EXCEEDED = "DeadlineExceeded"
"""The present revision missed its rollout deadline and there is no revision to return to."""
IMAGE_NOT_USED = "ImageNotUsed"


class Condition(Struct, frozen=True):
    type: ConditionType
    reason: str
    message: str
    at: int


class StatusReason(Struct, frozen=True):
    """Why a workload is pending: a stable code, and a sentence with the present numbers."""

    code: str
    message: str
