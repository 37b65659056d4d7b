"""Events of a workload's life; `lifecycle.transition` applies them."""

from msgspec import Struct

from stoker.domain.workload.spec import Spec


class Dispatched(Struct, frozen=True):
    """The scheduler placed the workload in these node pools and a new attempt begins. It is not preempted before
    `guaranteed_until`."""

    at: int
    node_pools: tuple[str, ...] = ()
    guaranteed_until: int | None = None


class SubmittedToEngine(Struct, frozen=True):
    """The workload is handed to an engine that admits workloads by itself, and a new attempt begins."""

    at: int


class PodsReady(Struct, frozen=True):
    """All pods are ready."""

    at: int


class PodsNotReady(Struct, frozen=True):
    """Some pods are not ready; repeated when the message changes."""

    at: int
    message: str


class LaunchRetrying(Struct, frozen=True):
    """The engine cannot start the pods now; the launch is retried."""

    at: int
    message: str


class LaunchRejected(Struct, frozen=True):
    """The engine will never start these pods."""

    at: int
    message: str
    has_remaining_pods: bool = False


class PodsFinished(Struct, frozen=True):
    """All pods of a workload that runs to completion have finished, or one has failed."""

    at: int
    success: bool
    message: str
    has_remaining_pods: bool = False


class PodsLost(Struct, frozen=True):
    """A node or the shim of a pod disappeared; the workload is not at fault."""

    at: int
    message: str
    has_remaining_pods: bool = False


class GpuFailed(Struct, frozen=True):
    """One of its GPUs is faulty, and the workload has to run elsewhere."""

    at: int
    message: str


class PodsTerminated(Struct, frozen=True):
    """All pods of the attempt have terminated."""

    at: int


class StopRequested(Struct, frozen=True):
    """A user asks for a stop. `grace_seconds` of None means the default grace period."""

    at: int
    by: str
    grace_seconds: int | None = None


class DeleteRequested(Struct, frozen=True):
    at: int
    by: str


class ResumeRequested(Struct, frozen=True):
    at: int
    by: str


class TimedOut(Struct, frozen=True):
    at: int


class Preempted(Struct, frozen=True):
    """The scheduler preempts the workload so that another can start."""

    at: int
    by: str


class NodesReserved(Struct, frozen=True):
    """Capacity on these nodes is reserved while others terminate; without nodes, the reservation ends."""

    at: int
    nodes: tuple[str, ...]


class IdleDetected(Struct, frozen=True):
    """Its GPUs are idle; the condition notifies its owner."""

    at: int
    reason: str
    message: str


class DependencyFailed(Struct, frozen=True):
    at: int
    message: str


class SpecChanged(Struct, frozen=True):
    """A user changed the spec, so that pods have to be replaced; a pending workload only gets the new spec.
    `restored_revision` is the earlier revision that the user went back to, if any."""

    at: int
    by: str
    spec: Spec
    restored_revision: int = 0


class RolledBack(Struct, frozen=True):
    """The present revision is abandoned; the spec of the last good one becomes a new revision."""

    at: int
    spec: Spec
    message: str


class NoteAdded(Struct, frozen=True):
    """A lasting message about the running workload; the phase does not change."""

    at: int
    reason: str
    message: str


class EngineUnreachable(Struct, frozen=True):
    at: int
    message: str


class EngineReachable(Struct, frozen=True):
    at: int


LifecycleEvent = (
    Dispatched
    | SubmittedToEngine
    | PodsReady
    | PodsNotReady
    | LaunchRetrying
    | LaunchRejected
    | PodsFinished
    | PodsLost
    | GpuFailed
    | PodsTerminated
    | StopRequested
    | DeleteRequested
    | ResumeRequested
    | TimedOut
    | Preempted
    | NodesReserved
    | IdleDetected
    | DependencyFailed
    | SpecChanged
    | RolledBack
    | NoteAdded
    | EngineUnreachable
    | EngineReachable
)
