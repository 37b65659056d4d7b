"""An engine in memory: its pods come up when they are asked for, and end when a test says so."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from msgspec import structs

from stoker.domain.errors import StokerError, not_found
from stoker.domain.node import Device, Node
from stoker.domain.reach import LogLine, Terminal
from stoker.domain.resources import MILLI
from stoker.domain.workload import PodPhase
from stoker.engines.base import Capabilities, Changes, Everything, Observation, Order, PodSeen, Serving

GIB = 2**30


def machine(name: str, gpus: int = 8) -> Node:
    devices = tuple(Device(index, f"{name}-{index}", "Pretend GPU", pretend=True) for index in range(gpus))
    return Node(name, 256 * MILLI, 1024 * GIB, devices, address="127.0.0.1")


class PretendEngine:
    def __init__(self, nodes: Iterable[Node], *, comes_up: bool = True) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods: dict[str, PodSeen] = {}
        self.orders: list[Order] = []
        self.removed: list[tuple[str, int]] = []
        self.forgotten: set[str] = set()
        self.listening: list[Serving] = []
        self.refusal: StokerError | None = None
        self.comes_up = comes_up
        self._news: asyncio.Queue[Observation] = asyncio.Queue()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(restarts=True, simulated=True)

    async def observe(self) -> AsyncGenerator[Observation]:
        yield Everything(tuple(self.nodes.values()), tuple(self.pods.values()))
        while True:
            yield await self._news.get()

    async def apply(self, order: Order) -> None:
        self.orders.append(order)
        if self.refusal is not None:
            raise self.refusal
        fresh = [pod for pod in order.pods if pod.uid not in self.pods]
        phase = PodPhase.RUNNING if self.comes_up else PodPhase.PENDING
        self.report(
            *(
                PodSeen(
                    uid=pod.uid,
                    name=pod.name,
                    workload_uid=order.workload_uid,
                    attempt=order.attempt,
                    revision=order.revision,
                    node=pod.node,
                    phase=phase,
                    started_at=1 if self.comes_up else None,
                )
                for pod in fresh
            )
        )

    async def remove(self, workload_uid: str, attempt: int, grace_seconds: float) -> frozenset[str]:
        self.removed.append((workload_uid, attempt))
        found = self.of(workload_uid, attempt)
        self.report(*(self._ended(pod, 143, 15) for pod in found if not pod.phase.ended))
        return frozenset(pod.uid for pod in found)

    async def forget(self, workload_uid: str, attempt: int) -> None:
        gone = tuple(pod.uid for pod in self.of(workload_uid, attempt))
        for uid in gone:
            del self.pods[uid]
        self.forgotten.add(workload_uid)
        self._news.put_nowait(Changes(gone=gone))

    async def discard(self, slug: str) -> None: ...

    async def logs(self, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        if pod_uid not in self.pods:
            raise not_found("pod", pod_uid)
        return []

    async def log_activity(self) -> AsyncGenerator[str]:
        await asyncio.Event().wait()
        yield ""

    def serving(self) -> list[Serving]:
        return self.listening

    async def service_address(self, workload_uid: str) -> str:
        return ""

    async def shells(self, pod_uid: str) -> list[str]:
        return []

    async def execute(self, pod_uid: str, command: list[str], *, tty: bool, columns: int, rows: int) -> Terminal:
        raise not_found("pod", pod_uid)

    async def close(self) -> None: ...

    def of(self, workload_uid: str, attempt: int = 0) -> list[PodSeen]:
        return [
            pod
            for pod in self.pods.values()
            if pod.workload_uid == workload_uid and (not attempt or pod.attempt == attempt)
        ]

    def report(self, *pods: PodSeen) -> None:
        """Say how these pods are now, all at once."""
        self.pods |= {pod.uid: pod for pod in pods}
        if pods:
            self._news.put_nowait(Changes(pods=pods))

    def tell(self, report: Observation) -> None:
        self._news.put_nowait(report)

    def change(self, workload_uid: str, **fields: Any) -> None:
        """Report every pod of a workload that has not ended, with some of it changed."""
        alive = [pod for pod in self.of(workload_uid) if not pod.phase.ended]
        self.report(*(structs.replace(pod, **fields) for pod in alive))

    def end(self, workload_uid: str, code: int = 0) -> None:
        self.report(*(self._ended(pod, code) for pod in self.of(workload_uid) if not pod.phase.ended))

    def _ended(self, pod: PodSeen, code: int, signal: int | None = None) -> PodSeen:
        phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
        return structs.replace(pod, phase=phase, ready=False, exit_code=code, signal=signal, ended_at=2)
