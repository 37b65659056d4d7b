"""What a plan says: who starts where, who has to leave for whom, who has failed, and why the others wait."""

from collections.abc import Mapping

from msgspec import Struct

from stoker.scheduler.reasons import Reason


class Place(Struct, frozen=True):
    """Start all replicas, one pod on each of `nodes`; a node may be named more than once. An attempt that begins with
    it is not preempted before `guaranteed_until`."""

    uid: str
    nodes: tuple[str, ...]
    guaranteed_until: int | None = None


class Preempt(Struct, frozen=True):
    """Take this workload off its nodes and requeue it, for the sake of another."""

    uid: str
    for_uid: str


class Fail(Struct, frozen=True):
    """It can never start: a dependency did not succeed."""

    uid: str
    dependency: str

    @property
    def reason(self) -> str:
        return f"The dependency {self.dependency} did not succeed."


class Wait(Struct, frozen=True):
    """Why it waits, and its place in the queue of its workspace, counted from 1."""

    reason: Reason
    order: int


class Plan(Struct, frozen=True):
    """One decision for each waiting workload: it is placed, fails, or is in `waits`.

    `waits` is worked out when it is looked at, so a plan costs nothing for those that nobody asks about.
    """

    placements: tuple[Place, ...]
    preemptions: tuple[Preempt, ...]
    failures: tuple[Fail, ...]
    waits: Mapping[str, Wait]
