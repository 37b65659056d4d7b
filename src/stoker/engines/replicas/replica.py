"""A pod of an engine that runs pods itself, as far as readiness, rollouts and services see it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from stoker.domain.workload.spec import PortProtocol, Service
from stoker.engines.model import EngineEvent, LaunchSpec, PodAssignment
from stoker.engines.proxy.tcp import ReplicaAddress


class ReadinessProbe(Struct, frozen=True):
    """How readiness is probed: the TCP port answers, or, without a port, the pod has run for a while."""

    port: int = 0
    path: str = ""


class ReplicaRecord(Struct, frozen=True, kw_only=True):
    """What an engine must know about a pod after a restart of the server."""

    uid: str
    name: str
    workload_uid: str
    slug: str
    attempt: int
    revision: int
    rank: int
    port: int = 0
    """The port it listens on, if the workload has a service."""
    service: Service | None = None
    check: ReadinessProbe | None = None
    """None if the pod is ready as soon as it runs."""


class Replica(ABC):
    def __init__(self) -> None:
        self.is_draining = False
        """Whether it gets no new connections because it is being replaced."""
        self.exposure_checked = False
        """Whether it was checked on which addresses it listens."""
        self.unready_reason = ""
        """Why the current run is not ready, if that takes long."""
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    @abstractmethod
    def record(self) -> ReplicaRecord: ...

    @property
    @abstractmethod
    def address(self) -> ReplicaAddress | None:
        """Where its port can be reached from this server."""

    @property
    @abstractmethod
    def has_started(self) -> bool: ...

    @property
    @abstractmethod
    def is_finished(self) -> bool: ...

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the current run has passed its probe."""

    @property
    @abstractmethod
    def running_since(self) -> int | None:
        """When the current run of the command started; None while none is running."""

    @abstractmethod
    def set_ready(self, ready: bool) -> None:
        """Record the result of the probe of the current run."""

    async def wait_for_change(self) -> None:
        """Wait for the next change of the pod."""
        future = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        try:
            await future
        finally:
            self._waiters.discard(future)

    def notify(self) -> None:
        for future in self._waiters:
            if not future.done():
                future.set_result(None)


P = TypeVar("P", bound=Replica)


class ReplicaRegistry(Protocol[P]):
    """The pods of an engine, and the events that it reports."""

    def find(self, uid: str) -> P | None: ...

    def attempt_pods(self, workload_uid: str, attempt: int) -> Sequence[P]:
        """All pods of an attempt, by rank."""
        ...

    async def stop(self, pod: P, grace_seconds: float, reason: str) -> None:
        """Ask a pod to stop. One that has not started never will, for this reason."""
        ...

    def publish_event(self, event: EngineEvent) -> None: ...

    def withdraw_event(self, workload_uid: str, reason: str) -> None: ...

    def reject(self, launch_spec: LaunchSpec, reason: str) -> None:
        """Take note that the missing pods of a launch spec will never start, although `apply` has returned."""
        ...


class ReplicaStarter(Protocol[P]):
    async def takes_long(self, launch_spec: LaunchSpec) -> bool:
        """Whether the start of missing pods has to go on after `apply` has returned."""
        ...

    async def prepare(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> P:
        """The pod, prepared to be started if it never was."""
        ...

    async def start(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> P:
        """Start this pod, if it never was."""
        ...

    async def start_all(self, launch_spec: LaunchSpec) -> None:
        """Start missing pods; one that fails does not keep the others from starting."""
        ...


def readiness_probe(launch_spec: LaunchSpec, port: int) -> ReadinessProbe | None:
    """Readiness is probed only for replicas of rolling kinds; UDP cannot be probed."""
    if not launch_spec.rolling_update:
        return None
    if launch_spec.service is None or launch_spec.service.protocol is not PortProtocol.TCP:
        return ReadinessProbe()
    return ReadinessProbe(port, launch_spec.readiness.path if launch_spec.readiness else "")
