"""What every engine can do, whether its pods are processes, containers or simulated.

An engine acts and reports; it decides nothing about workloads. `apply` and `remove` may be called again at
any time with the same arguments, also after a crash of Stoker or of the engine. What `observe` reports is
the truth: pods that run are adopted, and pods that nobody here asked for are reported too.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from stoker.domain.errors import ErrorCode
from stoker.domain.node import Node
from stoker.domain.reach import LogLine, Terminal
from stoker.domain.resources import Resources
from stoker.domain.workload import Kind, PodPhase, Service

FOR_GOOD = frozenset({ErrorCode.BAD_REQUEST, ErrorCode.NOT_ALLOWED, ErrorCode.TOO_LARGE, ErrorCode.NEVER_FITS})
"""Refusals of an engine that no waiting changes."""


class Capabilities(Struct, frozen=True):
    """`admits`: has a queue of its own. `places`: chooses nodes. `restarts`: keeps failed pods up by itself."""

    admits: bool = False
    places: bool = False
    restarts: bool = False
    simulated: bool = False


class PodOrder(Struct, frozen=True):
    """One pod to run, and where."""

    uid: str
    name: str
    rank: int
    node: str
    devices: tuple[int, ...]
    env: Mapping[str, str]
    port: int = 0


class Order(Struct, frozen=True):
    """All the pods of one attempt at one revision. Pods of an earlier revision are replaced by them,
    one by one when `rolling`."""

    workload_uid: str
    slug: str
    namespace: str
    kind: Kind
    attempt: int
    revision: int
    image: str
    entry_point: str
    resources: Resources
    pods: tuple[PodOrder, ...]
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    service: Service | None = None
    restart: bool = False
    rolling: bool = False
    grace_seconds: float = 30.0
    workspace_id: int = 0


class PodSeen(Struct, frozen=True):
    """A pod as the engine sees it now. `workload_uid` is empty for one that nobody here asked for."""

    uid: str
    name: str
    workload_uid: str
    attempt: int
    revision: int
    node: str
    phase: PodPhase
    ready: bool = True
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    restarts: int = 0
    port: int = 0
    """Where it listens, if the workload has a service."""
    started_at: int | None = None
    ended_at: int | None = None


class Serving(Struct, frozen=True):
    """A pod that is up and listens on a TCP port of its own, and where that is."""

    pod_uid: str
    workload_uid: str
    address: str


class Everything(Struct, frozen=True):
    """All that there is: first, and again after every gap. A pod that is not in it is gone."""

    nodes: tuple[Node, ...]
    pods: tuple[PodSeen, ...]


class Changes(Struct, frozen=True):
    """What is different since the last report. `gone` holds uids of pods that no longer exist."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    gone: tuple[str, ...] = ()


Observation = Everything | Changes


class Engine(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    def observe(self) -> AsyncIterator[Observation]:
        """Everything, then changes as they happen, for as long as the engine is open."""
        ...

    async def apply(self, order: Order) -> None:
        """Make these pods exist. Pods that exist already at this revision are left alone. A refusal with a code in
        `FOR_GOOD` says that it will never do so; after any other it is asked again."""
        ...

    async def remove(self, workload_uid: str, attempt: int, grace_seconds: float) -> frozenset[str]:
        """Ask every pod of the attempt to stop; returns at once, `observe` reports the end. Gives the uids of the
        pods that it has: no other pod of the attempt will come to be."""
        ...

    async def forget(self, workload_uid: str, attempt: int) -> None:
        """Let go of what is still held of pods that have ended (their logs were read before)."""
        ...

    async def discard(self, slug: str) -> None:
        """Remove what a deleted workload has left behind: its working directory, if the engine has one."""
        ...

    async def logs(self, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        """Up to `limit` lines from a position on; empty when there is nothing new."""
        ...

    def log_activity(self) -> AsyncIterator[str]:
        """Uids of pods whose log has grown, soon after it has; first of all that may have grown before anyone asked.
        One may come without need."""
        ...

    async def service_address(self, workload_uid: str) -> str:
        """Where the workload's service answers now, as `host:port`; empty while it does not."""
        ...

    def serving(self) -> Sequence[Serving]:
        """The pods behind services that can be spoken to from here, each at an address that is its own."""
        ...

    async def shells(self, pod_uid: str) -> list[str]:
        """The shells that exist in the pod."""
        ...

    async def execute(self, pod_uid: str, command: list[str], *, tty: bool, columns: int, rows: int) -> Terminal:
        """Run a command beside what the pod runs."""
        ...

    async def close(self) -> None:
        """Let go of the engine. Pods go on."""
        ...
