"""Nodes added up: every type, groups, filters, CSV."""

from typing import Any

import pytest
from tests.contract.monitoring.harness import gpu_columns, node_now
from tests.contract.runai.harness import RunaiHarness

NODES = "/api/v1/nodes/telemetry"
GIB = 2**30


@pytest.fixture
def fleet(harness: RunaiHarness) -> RunaiHarness:
    """Three nodes in two pools: one half used, one free, one that is faulty, and a part of a GPU idle for long."""
    now = harness.clock.now()
    harness.publish(
        overview=harness.overview(),
        nodes=[
            node_now("node-001", allocated_milli=4500, cpu_milli=64_000, cpu_allocated_milli=8_500, memory_bytes=GIB),
            node_now("node-002", pool="big", memory_allocated_bytes=GIB),
            node_now("node-003", pool="big", fault="XID 79", allocated_milli=1000),
            node_now("node-004", gpus=0, models=()),
        ],
        gpus=gpu_columns(
            {
                "memory_used_bytes": GIB,
                "memory_total_bytes": 4 * GIB,
                "allocated_milli": 500,
                "workload": "job-1",
                "idle_since": now - 400_000,
            },
            {
                "device": 1,
                "memory_total_bytes": 4 * GIB,
                "allocated_milli": 1000,
                "workload": "job-2",
                "idle_since": now - 200_000,
            },
            {"node": "node-002", "memory_total_bytes": 2 * GIB},
        ),
    )
    return harness


def values(harness: RunaiHarness, kind: str, **query: Any) -> list[tuple[str, ...]]:
    asked = "&".join(f"{name}={value}" for name, value in {"telemetryType": kind, **query}.items())
    answer = harness.get(f"{NODES}?{asked}", as_="viewer")
    assert answer.status_code == 200, answer.text
    assert answer.json()["type"] == kind
    return [(each["value"], *(group["value"] for group in each.get("groups", []))) for each in answer.json()["values"]]


def test_nodes_are_added_up(fleet: RunaiHarness) -> None:
    expected = {
        "TOTAL_GPU_NODES": "3",
        "READY_GPU_NODES": "2",
        "FULLY_FREE_GPU_NODES": "1",
        "TOTAL_GPUS": "24",
        "READY_GPUS": "16",
        "ALLOCATED_GPUS": "5.5",
        "FREE_GPUS": "11.5",
        "IDLE_ALLOCATED_GPUS": "0.5",
        "TOTAL_GPU_MEMORY_BYTES": str(10 * GIB),
        "USED_GPU_MEMORY_BYTES": str(GIB),
        "TOTAL_CPU_CORES": str(64 + 3 * 128),
        "ALLOCATED_CPU_CORES": "8.5",
        "TOTAL_CPU_MEMORY_BYTES": str(GIB + 3 * 2**40),
        "ALLOCATED_CPU_MEMORY_BYTES": str(GIB),
    }
    assert {kind: values(fleet, kind) for kind in expected} == {kind: [(value,)] for kind, value in expected.items()}


def test_what_nodes_use_is_what_their_pods_were_last_seen_to_take(fleet: RunaiHarness) -> None:
    assert values(fleet, "USED_CPU_CORES") == [("0",)]
    ref = fleet.submit(replica=2)
    fleet.start(ref, {"node-001": []}, {"node-002": []})
    first, second = fleet.pods(ref)
    now = fleet.clock.now()
    fleet.measure(first.uid, now - 15_000, cpu_milli=9000, memory_bytes=9 * GIB)
    fleet.measure(first.uid, now, cpu_milli=500, memory_bytes=GIB)
    assert values(fleet, "USED_CPU_CORES", groupBy="Node")[:2] == [("0.5", "node-001"), ("0", "node-002")]
    fleet.clock.advance(seconds=60)
    fleet.measure(second.uid, now + 60_000, cpu_milli=2000, memory_bytes=2 * GIB)
    assert values(fleet, "USED_CPU_MEMORY_BYTES", groupBy="Nodepool") == [(str(2 * GIB), "big"), ("0", "default")]
    fleet.clock.advance(seconds=301)
    assert values(fleet, "USED_CPU_CORES") == [("0",)]


def test_groups_and_filters(fleet: RunaiHarness) -> None:
    cluster = fleet.cluster_id
    assert values(fleet, "TOTAL_GPUS", groupBy="Nodepool") == [("16", "big"), ("8", "default")]
    assert values(fleet, "TOTAL_GPUS", groupBy="ClusterId,Node", nodepoolName="big") == [
        ("8", cluster, "node-002"),
        ("8", cluster, "node-003"),
    ]
    assert values(fleet, "TOTAL_GPUS", clusterId=cluster) == [("24",)]
    assert values(fleet, "TOTAL_GPUS", nodepoolName="none") == [("0",)]
    path = f"{NODES}?telemetryType=TOTAL_GPUS"
    assert fleet.get(f"{path}&clusterId=none", as_="viewer").status_code == 404
    assert fleet.get(f"{path}&groupBy=Node,Nodepool,ClusterId", as_="viewer").status_code == 400
    assert fleet.get(f"{NODES}?telemetryType=GPUS", as_="viewer").status_code == 400
    lines = fleet.get(f"{path}&groupBy=Nodepool", as_="viewer", headers={"Accept": "text/csv"}).text.splitlines()
    assert lines[0] == "telemetryType,timestamp,nodepool,value"
    assert lines[1].endswith(",big,16")
