"""An installation for the contract of the monitoring family: every response is validated against the OpenAPI document.

Nothing runs. A test places workloads on nodes itself and publishes what a controller would publish.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import httpx
import numpy as np
from msgspec import structs
from tests.api.harness import RequestOptions
from tests.contract.management.harness import QueueHarness

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import Capabilities
from stoker.domain.cluster.live_view import (
    ClusterSummary,
    CollectorStatus,
    GpuColumns,
    GpuConsumer,
    LiveNode,
    LiveViewKind,
)
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.training import TrainingSample
from stoker.domain.names import new_uuid4
from stoker.domain.workload.events import Dispatched, PodsFinished, PodsReady
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.pod import Pod
from stoker.store.cluster import clusters, live_views
from stoker.store.db.base import Transaction
from stoker.store.telemetry import gpu_samples, training
from stoker.store.workloads import allocations, pods
from stoker.telemetry.tsdb import device_index
from stoker.telemetry.tsdb.codec import encode_tick

MODEL = "AMD Instinct MI300X OAM"
MONITORING_PATHS = ("/api/workloads", "/api/workloadMetadata", "/api/clusters")
Devices = Mapping[str, Sequence[int]]


class MonitoringHarness(QueueHarness):
    async def ask(self, method: str, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        answer = await super().ask(method, path, **how)
        if path.startswith(MONITORING_PATHS) and method == "GET":
            self.contract.check(method, path, answer)
            assert answer.json()["traceId"] == answer.headers["X-Trace-Id"]
        return answer

    def data(self, path: str, **query: Any) -> Any:
        """What is inside the envelope of a success."""
        answer = self.get(f"{path}?{httpx.QueryParams(query)}")
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert (body["code"], body["message"]) == (0, "success")
        return body["data"]

    def names(self, **query: Any) -> list[str]:
        found = self.data("/api/workloads", **{"pageSize": 1000, **query})["data"]
        return [self.inside(row["uid"]).slug for row in found]

    def only(self, **query: Any) -> dict[str, Any]:
        """The one workload of a list."""
        [row] = self.data("/api/workloads", **query)["data"]
        return row

    def start(
        self,
        ref: str,
        *placed: Devices,
        share: int = MILLI,
        model: str = MODEL,
        seconds: float = 0,
        guaranteed_until: int | None = None,
    ) -> None:
        """Run a workload: a pod for each mapping, on the GPUs of a node."""
        self.go(ref, lambda at: Dispatched(at, (), guaranteed_until), seconds=seconds)
        for rank, devices in enumerate(placed or ({"node-001": ()},)):
            self.add_pod(ref, rank, devices, share=share, model=model)
        self.go(ref, PodsReady)

    def add_pod(
        self, ref: str, rank: int, placed: Devices, *, share: int = MILLI, model: str = MODEL, revision: int = 0
    ) -> Pod:
        workload = self.inside(ref)
        [(node, devices)] = placed.items()
        now = self.clock.now()
        pod = Pod(
            uid=new_uuid4(),
            workload_uid=workload.uid,
            name=f"{workload.slug}-{rank}",
            attempt=workload.attempt,
            revision=revision or workload.revision,
            rank=rank,
            node=node,
            resources=Resources(share * len(devices), 100, 2**20),
            devices=tuple(devices),
            phase=PodPhase.RUNNING,
            created_at=now,
            started_at=now,
        )

        def change(transaction: Transaction) -> None:
            pods.add(transaction, workload.cluster_id, [pod])
            held = [
                allocations.Allocation(pod.uid, each, workload.uid, node, model, share, now, slot=each)
                for each in devices
            ]
            allocations.allocate(transaction, workload.cluster_id, held)

        self.run(self.installation.store.write(change))
        return pod

    def release(self, *gone: Pod) -> None:
        """These pods have ended and hold nothing any more."""
        now = self.clock.now()

        def change(transaction: Transaction) -> None:
            ended = [structs.replace(pod, phase=PodPhase.SUCCEEDED, ended_at=now) for pod in gone]
            pods.update(transaction, ended)
            allocations.release(transaction, ended)

        self.run(self.installation.store.write(change))

    def end(self, ref: str, *, success: bool = True, seconds: float = 0) -> None:
        self.clock.advance(seconds=seconds)
        self.release(*self.pods(ref))
        self.go(ref, lambda at: PodsFinished(at, success, "over"))

    def sample(self, at: int, gpus: Mapping[str, Sequence[Mapping[GpuMetric, float]]]) -> None:
        """What the GPUs of these nodes said at a moment, as a sampler keeps it; each has 100 GiB."""
        nodes = [
            Node(name, 1, 1, tuple(Device(number, "", MODEL, 100 * 2**30) for number in range(len(values))))
            for name, values in gpus.items()
        ]
        rows = [values for name in sorted(gpus) for values in gpus[name]]
        columns = {metric: np.array([row.get(metric, np.nan) for row in rows]) for metric in GpuMetric}

        def change(transaction: Transaction) -> None:
            cluster = clusters.find(transaction, "local")
            assert cluster is not None
            number = gpu_samples.get_or_add_device_index(
                transaction, cluster.id, device_index.encode(device_index.build_device_index(nodes)), len(rows), at
            )
            gpu_samples.add_tick(transaction, cluster.id, at, number, encode_tick(columns))

        self.run(self.installation.store.write(change))

    def train(self, ref: str, *said: TrainingSample) -> None:
        """What the training code printed."""
        workload = self.inside(ref)
        batch = training.TrainingBatch(workload.uid, "pod", workload.attempt, said)
        self.run(self.installation.store.write(lambda tx: training.add_batches(tx, [batch])))

    def add_cluster(self, name: str, engine: str) -> Cluster:
        capabilities = Capabilities(simulated=engine == "simulated")
        cluster = Cluster(new_uuid4(), name, engine, "", self.clock.now(), capabilities=capabilities)
        self.run(self.installation.store.write(lambda tx: clusters.add(tx, cluster)))
        return cluster

    def publish(self, cluster: str = "local", **parts: object) -> None:
        """What a controller publishes: `overview`, `consumers`, `nodes`, `gpus`."""
        encoded = {LiveViewKind(name): live_views.encode(part) for name, part in parts.items()}

        def change(transaction: Transaction) -> None:
            found = clusters.find(transaction, cluster)
            assert found is not None
            live_views.publish(transaction, found.id, self.clock.now(), encoded)

        self.run(self.installation.store.write(change))

    def overview(self, **fields: Any) -> ClusterSummary:
        """An idle cluster of one node of 8 GPUs, but for the fields that are given."""
        now = self.clock.now()
        known: dict[str, Any] = {
            "at": now,
            "source": CollectorStatus("nvml", now, stale=False),
            "nodes": 1,
            "healthy_nodes": 1,
            "faulty_nodes": 0,
            "idle_nodes": 1,
            "partial_nodes": 0,
            "busy_nodes": 0,
            "gpus": 8,
            "allocated_milli": 0,
            "allocated_gpus": 0,
            "measured_gpus": 0,
            "utilization_sum": 0.0,
            "power_watts": None,
            "storage_total_bytes": 0,
            "storage_used_bytes": 0,
            "rdma_ports": 0,
            "rdma_active_ports": 0,
            "rdma_bits_per_second": 0,
            "hottest": {},
        }
        return ClusterSummary(**{**known, **fields})


def consumer(uid: str, gpus: float, utilization: float | None = 0.5, **fields: Any) -> GpuConsumer:
    known: dict[str, Any] = {
        "uid": uid,
        "slug": f"slug-{uid}",
        "name": f"name-{uid}",
        "kind": "PyTorchJob",
        "namespace": "vision",
        "gpu_milli": int(gpus * MILLI),
        "utilization": utilization,
        "memory": 0.25,
        "power_watts": 300.0,
        "idle_since": None,
    }
    return GpuConsumer(**{**known, **fields})


def node_now(name: str, **fields: Any) -> LiveNode:
    known: dict[str, Any] = {
        "name": name,
        "pool": "default",
        "models": (MODEL,),
        "gpus": 8,
        "allocated_milli": 0,
        "pods": 0,
        "cpu_milli": 128_000,
        "cpu_allocated_milli": 0,
        "memory_bytes": 2**40,
        "memory_allocated_bytes": 0,
        "ready": True,
        "cordoned": False,
        "fault": "",
        "utilization": None,
        "memory": None,
        "power_watts": None,
        "temperature": None,
        "labels": {},
    }
    return LiveNode(**{**known, **fields})


def gpu_columns(*gpus: Mapping[str, Any]) -> GpuColumns:
    known: dict[str, Any] = {
        "node": "node-001",
        "device": 0,
        "model": MODEL,
        "workload": None,
        "allocated_milli": 0,
        "fault": "",
        "utilization": None,
        "memory_used_bytes": None,
        "memory_total_bytes": 2**37,
        "power_watts": None,
        "temperature": None,
        "idle_since": None,
        "uuid": "",
    }
    shared = [(place, *held) for place, gpu in enumerate(gpus) for held in gpu.get("shared", ())]
    rows = [{**known, **gpu} for gpu in gpus]
    return GpuColumns(**{name: [row[name] for row in rows] for name in known}, shared=shared)
