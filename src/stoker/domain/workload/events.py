"""What can happen to a workload. `lifecycle.transition` says what follows from it."""

from msgspec import Struct

from stoker.domain.workload import Spec


class Placed(Struct, frozen=True):
    """It has a place, in these node pools; the attempt begins. Until `guaranteed_until` nobody takes the place."""

    at: int
    pools: tuple[str, ...] = ()
    guaranteed_until: int | None = None


class PodsUp(Struct, frozen=True):
    """Every pod that is wanted runs."""

    at: int


class PodsShort(Struct, frozen=True):
    """Some of the pods that should be up are not; said again when there is something new to say about it."""

    at: int
    message: str


class StartDelayed(Struct, frozen=True):
    """The engine cannot start its pods now, and is asked again."""

    at: int
    message: str


class StartRefused(Struct, frozen=True):
    """The engine will never start these pods. `left` run all the same."""

    at: int
    message: str
    left: bool = False


class PodsEnded(Struct, frozen=True):
    """The pods of something that ends have ended, or one of them has failed. `left` still run."""

    at: int
    success: bool
    message: str
    left: bool = False


class PodsLost(Struct, frozen=True):
    """A node, or the keeper of a pod, has gone, without the workload's fault. `left` still run."""

    at: int
    message: str
    left: bool = False


class PodsGone(Struct, frozen=True):
    """No pod of the attempt is left."""

    at: int


class StopAsked(Struct, frozen=True):
    at: int
    by: str


class DeleteAsked(Struct, frozen=True):
    at: int
    by: str


class ResumeAsked(Struct, frozen=True):
    at: int
    by: str


class TimedOut(Struct, frozen=True):
    at: int


class Preempted(Struct, frozen=True):
    """It gives its place to another."""

    at: int
    by: str


class IdleNoted(Struct, frozen=True):
    """Nobody uses its GPUs, and its owner is told."""

    at: int
    reason: str
    message: str


class DependencyFailed(Struct, frozen=True):
    at: int
    message: str


class Replaced(Struct, frozen=True):
    """What it runs was changed: its pods must be replaced. A queued one only gets the new words."""

    at: int
    by: str
    spec: Spec


class ContactLost(Struct, frozen=True):
    at: int
    message: str


class ContactRegained(Struct, frozen=True):
    at: int


Event = (
    Placed
    | PodsUp
    | PodsShort
    | StartDelayed
    | StartRefused
    | PodsEnded
    | PodsLost
    | PodsGone
    | StopAsked
    | DeleteAsked
    | ResumeAsked
    | TimedOut
    | Preempted
    | IdleNoted
    | DependencyFailed
    | Replaced
    | ContactLost
    | ContactRegained
)
