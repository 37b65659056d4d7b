"""An engine in memory: its pods come up when they are asked for, and end when a test says so."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Any

from msgspec import structs

from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES, Capabilities
from stoker.domain.cluster.engine_access import LogLine, Terminal
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import StokerError, not_found
from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import (
    Delta,
    FullSync,
    LaunchSpec,
    LogRef,
    Observation,
    ObservedPod,
    ServiceEndpoint,
    WorkloadRef,
)

GIB = 2**30


def machine(name: str, gpus: int = 8) -> Node:
    devices = tuple(Device(index, f"{name}-{index}", "Pretend GPU", pretend=True) for index in range(gpus))
    return Node(name, 256 * MILLI, 1024 * GIB, devices, address="127.0.0.1")


class FakeEngine:
    def __init__(self, nodes: Iterable[Node], *, comes_up: bool = True) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods: dict[str, ObservedPod] = {}
        self.orders: list[LaunchSpec] = []
        self.removed: list[tuple[str, int]] = []
        self.graces: list[float] = []
        self.forced: list[tuple[str, int]] = []
        self.forgotten: set[str] = set()
        self.listening: list[ServiceEndpoint] = []
        self.refusal: StokerError | None = None
        self.keeps: StokerError | None = None
        """Why it ends no pod now."""
        self.ends_at_once = True
        self.comes_up = comes_up
        self._news: asyncio.Queue[Observation] = asyncio.Queue()

    @property
    def capabilities(self) -> Capabilities:
        return SIMULATED_CAPABILITIES

    async def watch(self) -> AsyncGenerator[Observation]:
        yield FullSync(tuple(self.nodes.values()), tuple(self.pods.values()))
        while True:
            yield await self._news.get()

    async def apply(self, launch_spec: LaunchSpec) -> str:
        self.orders.append(launch_spec)
        if self.refusal is not None:
            raise self.refusal
        fresh = [pod for pod in launch_spec.pods if pod.uid not in self.pods]
        phase = PodPhase.RUNNING if self.comes_up else PodPhase.PENDING
        self.report(
            *(
                ObservedPod(
                    uid=pod.uid,
                    name=pod.name,
                    workload_uid=launch_spec.ref.uid,
                    attempt=launch_spec.ref.attempt,
                    revision=launch_spec.ref.revision,
                    node=pod.node,
                    phase=phase,
                    started_at=1 if self.comes_up else None,
                    devices=pod.devices,
                    resources=launch_spec.main.resources,
                )
                for pod in fresh
            )
        )
        return ""

    async def terminate(
        self, ref: WorkloadRef, *, grace_seconds: float, force: bool = False, only: Collection[str] | None = None
    ) -> None:
        self.removed.append((ref.uid, ref.attempt))
        self.graces.append(grace_seconds)
        if force:
            self.forced.append((ref.uid, ref.attempt))
        if self.keeps is not None:
            raise self.keeps
        found = [pod for pod in self.of(ref.uid, ref.attempt) if only is None or pod.uid in only]
        if self.ends_at_once or force or not grace_seconds:
            self.report(*(self._ended(pod, 143, 15) for pod in found if not pod.phase.is_finished))

    async def pods_of(self, ref: WorkloadRef) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.of(ref.uid, ref.attempt))

    async def release(self, ref: WorkloadRef) -> None:
        gone = tuple(pod.uid for pod in self.of(ref.uid, ref.attempt))
        for uid in gone:
            del self.pods[uid]
        self.forgotten.add(ref.uid)
        self._news.put_nowait(Delta(gone=gone))

    async def purge(self, ref: WorkloadRef) -> None: ...

    async def read_logs(self, source: LogRef, cursor: int, limit: int) -> list[LogLine]:
        if source.pod_uid not in self.pods:
            raise not_found("pod", source.pod_uid)
        return []

    async def log_activity(self) -> AsyncGenerator[LogRef]:
        await asyncio.Event().wait()
        yield LogRef("")

    def service_endpoints(self) -> list[ServiceEndpoint]:
        return self.listening

    async def check_working_directory(self, directory: str, workspace_id: int) -> str:
        return ""

    async def service_address(self, workload_uid: str) -> str:
        return ""

    async def list_shells(self, pod_uid: str, container: str = "") -> list[str]:
        return []

    async def execute(
        self,
        pod_uid: str,
        command: list[str],
        *,
        container: str = "",
        tty: bool,
        columns: int,
        rows: int,
        stderr: bool = False,
    ) -> Terminal:
        raise not_found("pod", pod_uid)

    async def close(self) -> None: ...

    def of(self, workload_uid: str, attempt: int = 0) -> list[ObservedPod]:
        return [
            pod
            for pod in self.pods.values()
            if pod.workload_uid == workload_uid and (not attempt or pod.attempt == attempt)
        ]

    def report(self, *pods: ObservedPod) -> None:
        """Say how these pods are now, all at once."""
        self.pods |= {pod.uid: pod for pod in pods}
        if pods:
            self._news.put_nowait(Delta(pods=pods))

    def tell(self, report: Observation) -> None:
        self._news.put_nowait(report)

    def tell_nodes(self, *nodes: Node) -> None:
        """Say how these nodes are now."""
        self.nodes |= {node.name: node for node in nodes}
        self._news.put_nowait(Delta(nodes=nodes))

    def change(self, workload_uid: str, **fields: Any) -> None:
        """Report every pod of a workload that has not ended, with some of it changed."""
        alive = [pod for pod in self.of(workload_uid) if not pod.phase.is_finished]
        self.report(*(structs.replace(pod, **fields) for pod in alive))

    def end(self, workload_uid: str, code: int = 0) -> None:
        self.report(*(self._ended(pod, code) for pod in self.of(workload_uid) if not pod.phase.is_finished))

    def _ended(self, pod: ObservedPod, code: int, signal: int | None = None) -> ObservedPod:
        phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
        return structs.replace(pod, phase=phase, ready=False, exit_code=code, signal=signal, ended_at=2)
