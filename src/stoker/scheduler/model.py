"""What a plan is made from: everything the scheduler may look at, frozen."""

from msgspec import Struct

from stoker.domain.identity import QueuePolicy, Quota
from stoker.domain.node import DEFAULT_POOL
from stoker.domain.resources import Resources


class NodeRoom(Struct, frozen=True):
    """A node and what is free on it. `whole_gpus` are wholly free; `shared_gpus` are the free milli-GPUs of
    each device that is partly taken. `usable` is ready, without fault and not cordoned."""

    name: str
    cpu_milli: int
    memory_bytes: int
    whole_gpus: int
    shared_gpus: tuple[int, ...] = ()
    total: Resources = Resources()
    usable: bool = True
    pool: str = DEFAULT_POOL
    shared_on: tuple[int, ...] = ()
    """The index of each device of `shared_gpus`. Without it, what shares a GPU frees less by leaving."""
    model: str = ""
    """Of its GPUs."""


class Waiting(Struct, frozen=True, kw_only=True):
    """A workload that wants `replicas` pods placed, all or none. `each` asks for whole GPUs, or for a part of one.

    `waits_for` are dependencies that have not ended; `failed_dependency` is one that did not succeed.
    """

    uid: str
    workspace_id: int
    priority: int
    submitted_at: int
    replicas: int
    each: Resources
    preemptible: bool = False
    requeued: bool = False
    promised: bool = False
    """Others were preempted for it and it has not started since: it goes first."""
    specified_nodes: tuple[str, ...] = ()
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    tolerate_all: bool = False
    not_before: int | None = None
    waits_for: tuple[str, ...] = ()
    failed_dependency: str = ""


class Placed(Struct, frozen=True, kw_only=True):
    """A workload that holds room: the node of each of its pods."""

    uid: str
    workspace_id: int
    priority: int
    placed_at: int
    nodes: tuple[str, ...]
    each: Resources
    preemptible: bool = False
    leaving: bool = False
    """Its pods are on their way out: the room will be free, but is not yet."""
    devices: tuple[int, ...] = ()
    """For a part of a GPU: the index of the device that each pod shares."""
    sizes: tuple[Resources, ...] = ()
    """What each pod holds, where not all of them hold `each`: while pods are replaced by larger or smaller ones."""
    guaranteed_until: int | None = None
    """Before then it is not preempted, preemptible or not."""


class Queue(Struct, frozen=True):
    """A workspace as the scheduler sees it."""

    workspace_id: int
    name: str
    quota: Quota = Quota()
    policy: QueuePolicy = QueuePolicy.FIFO
    preemption: bool = True
    guaranteed_seconds: int = 0
    """How long what is preemptible keeps a place that it is given."""


class Snapshot(Struct, frozen=True):
    """One cluster at one moment."""

    now: int
    nodes: tuple[NodeRoom, ...]
    queues: tuple[Queue, ...]
    waiting: tuple[Waiting, ...]
    placed: tuple[Placed, ...]
