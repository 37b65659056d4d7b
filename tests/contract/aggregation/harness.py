"""An installation for the contract of the aggregation family: every response is validated against the OpenAPI document.

Hours are closed from observations of a test, or written directly.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import httpx
from tests.api.harness import RequestOptions
from tests.contract.monitoring.harness import MonitoringHarness

from stoker.controller.reconcile.observe import record_nodes
from stoker.controller.usage.rollup import CLOSE_DELAY_MS, Rollup
from stoker.controller.usage.snapshots import AllocationSnapshotter
from stoker.domain.clock import parse_rfc3339
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.usage.hours import ClusterHour, DimensionHour, HourRollups, NamespaceHour, WorkloadHour
from stoker.domain.usage.ledger import GPU_HOUR, HOUR_MS
from stoker.domain.usage.snapshots import SnapshotWorkload
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.usage import closed_hours, snapshots
from stoker.store.usage.closed_hours import ClosedHour

BASE = "/api/v1/gpu-aggregation"
GIB = 2**30
MINUTE = 60
NODE = Node(
    "node-001", 64_000, 1024 * GIB, tuple(Device(number, f"u{number}", "MI300X", 100 * GIB) for number in range(8))
)
STATS = {"utilization": 5000, "min_utilization": 100, "max_utilization": 9000, "samples": 240}


def at(text: str) -> int:
    moment = parse_rfc3339(text)
    assert moment is not None
    return moment


class UsageHarness(MonitoringHarness):
    async def ask(self, method: str, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        answer = await super().ask(method, path, **how)
        if path.startswith(BASE) and method == "GET":
            self.contract.check(method, path, answer)
        return answer

    def data(self, path: str, **query: Any) -> Any:
        """What is inside the envelope of a success."""
        answer = self.get(f"{BASE}{path}?{httpx.QueryParams(query)}")
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert list(body) == ["code", "message", "data"]
        assert (body["code"], body["message"]) == (200, "success")
        return body["data"]

    def refusal(self, path: str, **query: Any) -> str:
        """What is wrong with a request."""
        answer = self.get(f"{BASE}{path}?{httpx.QueryParams(query)}")
        assert answer.status_code == 400, answer.text
        body = answer.json()
        assert list(body) == ["code", "message", "error"]
        assert (body["code"], body["message"]) == (400, "Invalid request parameters")
        return body["error"]

    def cluster_id(self, name: str) -> str:
        found = self.run(self.installation.store.read(lambda tx: clusters.find(tx, name)))
        return (found or self.add_cluster(name, "simulated")).id

    def to_the_hour(self) -> int:
        """Let the next hour begin."""
        self.clock.advance(seconds=(HOUR_MS - self.clock.now() % HOUR_MS) / 1000)
        return self.clock.now()

    def appear(self, *found: Node) -> None:
        """Nodes, as an engine would report them."""
        now, cluster_id = self.clock.now(), self.cluster_id("local")
        self.run(self.installation.store.write(lambda tx: record_nodes(tx, cluster_id, found or [NODE], now)))

    def read_gpus(self, utilization: Sequence[float], minutes: Iterable[int], hour: int) -> None:
        """What the GPUs of the node said, once a minute."""
        said = [{GpuMetric.UTILIZATION: value, GpuMetric.MEMORY_USED: 25.0 * GIB} for value in utilization]
        for minute in minutes:
            self.sample(hour + minute * MINUTE * 1000, {NODE.name: said})

    def close_hours(self) -> int:
        """Go on to the next hour, and a little further, and close all that is due."""
        self.to_the_hour()
        self.clock.advance(seconds=CLOSE_DELAY_MS / 1000)
        rollup = Rollup(self.installation.store, self.cluster_id("local"), self.clock, 1.0)
        return self.run(rollup.catch_up())

    def write_down(self, hour_at: int, levels: HourRollups, cluster: str = "local", closed_at: int = 0) -> None:
        """Write down an hour as it is wanted."""
        cluster_id = self.cluster_id(cluster)

        def change(transaction: Transaction) -> None:
            written = [ClosedHour(levels, [], {})]
            closed_hours.write_hours(transaction, cluster_id, written, closed_at or hour_at + HOUR_MS + 1000)

        self.run(self.installation.store.write(change))

    def photograph(self, *held: SnapshotWorkload, gpus: int = 8, cluster: str = "local", slot: int = 0) -> None:
        """Keep a snapshot as it is wanted, of now unless a slot is given."""
        slot, cluster_id = slot or self.clock.now(), self.cluster_id(cluster)
        self.run(
            self.installation.store.write(lambda tx: snapshots.add(tx, cluster_id, slot, gpus, list(held), slot + 1000))
        )

    def take_snapshot(self) -> None:
        taken = AllocationSnapshotter(
            self.installation.store, self.cluster_id("local"), self.clock, 300
        ).take_snapshot()
        self.run(taken)


def cluster_hour(hour_at: int, **fields: Any) -> ClusterHour:
    known: dict[str, Any] = {
        "gpus": 8,
        "capacity": 8 * GPU_HOUR,
        "allocated": 4 * GPU_HOUR,
        **STATS,
        "p50": 5000,
        "p95": 8000,
    }
    return ClusterHour(**{"hour_at": hour_at, **known, **fields})


def namespace_hour(hour_at: int, namespace: str, **fields: Any) -> NamespaceHour:
    known: dict[str, Any] = {
        "hour_at": hour_at,
        "namespace": namespace,
        "gpus": 8,
        "allocated": GPU_HOUR,
        **STATS,
        "workloads": 1,
    }
    return NamespaceHour(**{**known, **fields})


def dimension_hour(hour_at: int, kind: str, key: str, value: str, **fields: Any) -> DimensionHour:
    known: dict[str, Any] = {
        "hour_at": hour_at,
        "kind": kind,
        "key": key,
        "value": value,
        "allocated": GPU_HOUR,
        **STATS,
        "workloads": 1,
    }
    return DimensionHour(**{**known, **fields})


def workload_hour(hour_at: int, uid: str, **fields: Any) -> WorkloadHour:
    known: dict[str, Any] = {
        "hour_at": hour_at,
        "uid": uid,
        "slug": f"{uid}-x2k4b",
        "name": uid,
        "kind": "Job",
        "namespace": "ml",
        "phase": "Running",
        "allocated": GPU_HOUR,
        "requested_milli": 1000,
        **STATS,
        "p50": 5000,
        "p95": 8000,
        "memory_used": 40 * GIB,
        "max_memory": 60 * GIB,
        "memory_size": 80 * GIB,
        "replicas_milli": 1000,
        "max_replicas": 1,
        "min_replicas": 1,
        "labels": {},
        "annotations": {},
    }
    return WorkloadHour(**{**known, **fields})


def held(uid: str, gpus: float, utilization: float | None = 0.5, **fields: Any) -> SnapshotWorkload:
    known: dict[str, Any] = {"uid": uid, "name": uid, "namespace": "ml", "kind": "Job", "annotations": {}}
    return SnapshotWorkload(gpu_milli=int(gpus * 1000), utilization=utilization, **{**known, **fields})
