"""One simulated fleet with one faulty GPU: everything that counts GPUs counts the same, and so does the scheduler."""

import re
from typing import Any

import pytest
from msgspec import structs
from tests.api.harness import V1
from tests.contract.monitoring.harness import MonitoringHarness

from stoker.domain.cluster.live_view import CollectorStatus
from stoker.domain.cluster.samples import GpuFault
from stoker.engines.simulated.fleet.nodes import SimulatedFleet, build_machine_groups
from stoker.scheduler.cache import ClusterCache
from stoker.store.cluster import clusters, gpu_availability, live_views, nodes
from stoker.store.cluster.state import read_state
from stoker.store.db.base import Transaction
from stoker.telemetry.live.builder import LiveViewBuilder

BAD = GpuFault("gpu-node-3", 5, "Its driver reported XID 79.")


@pytest.fixture
def fleet(harness: MonitoringHarness) -> MonitoringHarness:
    """1024 GPUs, of which one is faulty, 8 are on a node that is down, and 16 on a cordoned one."""
    harness.add_cluster("demo", "simulated")
    machines = SimulatedFleet(build_machine_groups(1024), 1).nodes
    down, cordoned = machines[0], machines[-1]
    told = [
        structs.replace(down, ready=False),
        *machines[1:-1],
        structs.replace(cordoned, cordoned=True),
    ]

    def change(transaction: Transaction) -> None:
        found = clusters.find(transaction, "demo")
        assert found is not None
        nodes.upsert(transaction, found.id, told, 0)
        nodes.report_faults(transaction, found.id, [BAD], 0)
        view = LiveViewBuilder()
        view.reset(nodes.reported_by_engine(transaction, found.id), [])
        view.set_samples(None, faults=gpu_availability.reported_faults(transaction, found.id))
        parts = view.build_parts(harness.clock.now(), CollectorStatus("simulated", harness.clock.now(), stale=False))
        live_views.publish(transaction, found.id, harness.clock.now(), parts)

    harness.run(harness.installation.store.write(change))
    return harness


def asked(harness: MonitoringHarness, what: str, **query: object) -> Any:
    found = harness.get(
        f"{V1}/{what}?" + "&".join(f"{name}={value}" for name, value in {"cluster": "demo", **query}.items())
    )
    assert found.status_code == 200, found.text
    return found.json()


def test_the_overview_the_grids_the_metrics_and_the_scheduler_agree(fleet: MonitoringHarness) -> None:
    total = asked(fleet, "overview")["total"]
    assert (total["gpus"], total["faultyGpus"], total["notReadyGpus"], total["cordonedGpus"]) == (1024, 1, 8, 16)
    assert total["schedulableGpus"] == 999
    assert asked(fleet, "gpus", limit=1)["total"] == 1024
    assert asked(fleet, "gpus", limit=1, state="faulty")["total"] == 1
    grid = asked(fleet, "nodes", limit=1000)["items"]
    assert sum(node["gpus"] for node in grid) == 1024
    assert sum(node["faultyGpus"] for node in grid) == 1
    assert sum(node["schedulableGpus"] for node in grid) == 999
    text = fleet.get("/metrics").text
    assert re.search(r'^stoker_gpus\{cluster="demo".*\} 1024$', text, re.M)
    assert re.search(r'^stoker_gpus_schedulable\{cluster="demo".*\} 999$', text, re.M)

    def rooms(transaction: Transaction) -> int:
        found = clusters.find(transaction, "demo")
        assert found is not None
        snapshot = ClusterCache(read_state(transaction, found.id)).snapshot(0)
        return sum(room.free_whole_gpus for room in snapshot.nodes if room.is_schedulable)

    assert fleet.run(fleet.installation.store.read(rooms)) == 999


def test_a_node_with_a_faulty_gpu_is_a_faulty_node(fleet: MonitoringHarness) -> None:
    shown = fleet.data("/api/clusters/overview", cluster="demo")
    assert (shown["totalNodes"], shown["healthyNodes"], shown["faultyNodes"]) == (120, 118, 2)
    [node] = asked(fleet, "nodes", name="gpu-node-3", state="faulty")["items"]
    assert (node["gpus"], node["faultyGpus"], node["fault"]) == (8, 1, f"GPU 5: {BAD.message}")
