"""The pod: one replica of one attempt on one node."""

from msgspec import Struct

from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase


class Pod(Struct, frozen=True, kw_only=True):
    """One process tree or container group of one attempt. `rank` is its index among the replicas."""

    uid: str
    workload_uid: str
    name: str
    attempt: int
    revision: int
    rank: int
    node: str
    resources: Resources
    devices: tuple[int, ...] = ()
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    restarts: int = 0
    port: int = 0
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    engine_uid: str = ""
    """The engine's own id, if it has one."""
    owner_uid: str = ""
    """The object that owns it directly, if that is not the workload."""
