"""The native views of the fleet: overview with its sources, consumers, and the grids of nodes and GPUs."""

import asyncio
from typing import Any, TypeVar

import httpx
import pytest
from tests.api.harness import FAR, STARTED, V1
from tests.contract.monitoring.harness import MODEL, MonitoringHarness, consumer, gpu_columns, node_now

from stoker.domain.cluster.live_view import CollectorStatus
from stoker.store.db.base import TransactionFn

T = TypeVar("T")


def _page(harness: MonitoringHarness, what: str, **query: Any) -> dict[str, Any]:
    answer = harness.get(f"{V1}/{what}?{httpx.QueryParams(query)}")
    assert answer.status_code == 200, answer.text
    harness.contract.check("GET", f"{V1}/{what}", answer)
    return answer.json()


def _names(harness: MonitoringHarness, what: str, **query: Any) -> list[str]:
    shown = _page(harness, what, **query)["items"]
    return [item["name"] if what == "nodes" else f"{item['node']}:{item['device']}" for item in shown]


def test_the_overview_says_where_each_cluster_is_read_and_how_old_that_is(any_harness: MonitoringHarness) -> None:
    any_harness.add_cluster("moon", "simulated")
    read_at = any_harness.clock.now()
    any_harness.clock.advance(seconds=50)
    source = CollectorStatus("prometheus", read_at, stale=True, message="It does not answer.")
    any_harness.publish(overview=any_harness.overview(source=source, gpus=8, allocated_milli=2500, power_watts=512.34))
    shown = _page(any_harness, "overview")
    local, moon = shown["clusters"]
    assert local["source"] == {
        "name": "prometheus",
        "readAt": STARTED,
        "ageSeconds": 50,
        "stale": True,
        "message": "It does not answer.",
    }
    assert (local["name"], local["simulated"], moon["name"], moon["simulated"]) == ("local", False, "moon", True)
    assert (moon["source"]["readAt"], moon["source"]["ageSeconds"], moon["now"]["nodes"]) == (None, None, 0)
    assert moon["source"]["message"] == "The controller of this cluster has not published anything yet."
    assert (shown["total"]["allocatedGpus"], shown["total"]["powerWatts"]) == (2.5, 512.3)
    assert [each["name"] for each in _page(any_harness, "overview", cluster="moon")["clusters"]] == ["moon"]
    assert any_harness.get(f"{V1}/overview").headers["X-Stoker-Stale"] == "50"


def test_what_nobody_has_read_is_unknown_and_not_zero(harness: MonitoringHarness) -> None:
    harness.publish(overview=harness.overview(allocated_milli=8000, allocated_gpus=8))
    harness.add_cluster("moon", "simulated")
    now = _page(harness, "overview")["clusters"][0]["now"]
    assert (now["utilization"], now["powerWatts"], now["allocatedGpus"]) == (None, None, 8.0)
    assert harness.data("/api/clusters/overview")["utilization"] == 0
    idle = harness.overview(allocated_gpus=2, measured_gpus=2, power_watts=0.0)
    harness.publish("moon", overview=idle)
    shown = _page(harness, "overview")
    assert (shown["total"]["utilization"], shown["total"]["powerWatts"]) == (0, 0)
    assert [each["now"]["utilization"] for each in shown["clusters"]] == [None, 0]


def test_every_node_is_counted_also_without_gpus(harness: MonitoringHarness) -> None:
    harness.publish(overview=harness.overview(nodes=2, faulty_nodes=1, cpu_nodes=3, faulty_cpu_nodes=1))
    total = _page(harness, "overview")["total"]
    assert (total["nodes"], total["healthyNodes"], total["faultyNodes"]) == (6, 4, 2)
    assert [total[f"{kind}Nodes"] for kind in ("idle", "partial", "busy", "cpu")] == [1, 0, 0, 3]
    assert harness.data("/api/clusters/overview")["totalNodes"] == 2


def test_consumers_say_since_when_they_have_been_idle(harness: MonitoringHarness) -> None:
    harness.publish(consumers=[consumer("a", 0.5, None, memory=None, power_watts=None), consumer("b", 8, 0.123456)])
    busy, idle = _page(harness, "consumers")["items"]
    assert (busy["workloadId"], busy["gpus"], busy["utilization"]) == ("slug-b", 8.0, 0.1235)
    assert (idle["gpus"], idle["utilization"], idle["idleSince"]) == (0.5, None, None)


NODES = (
    node_now("a-1", allocated_milli=8000, utilization=0.9, pool="fast"),
    node_now("a-2", allocated_milli=500, utilization=0.2, power_watts=100.0, labels={"rack": "r1"}),
    node_now("a-3"),
    node_now("b-1", ready=False),
    node_now("b-2", fault="XID 79", utilization=0.5, cordoned=True),
)


@pytest.fixture
def grid(harness: MonitoringHarness) -> MonitoringHarness:
    harness.add_cluster("moon", "simulated")
    harness.publish(nodes=NODES)
    harness.publish("moon", nodes=[node_now("m-1", utilization=1.0)])
    harness.publish(
        gpus=gpu_columns(
            {"device": 0, "utilization": 0.9, "allocated_milli": 1000, "workload": "train-b2c4d", "power_watts": 300.0},
            {"device": 1, "utilization": 0.1, "memory_used_bytes": 2**36, "uuid": "GPU-1"},
            {"device": 2, "fault": "ECC", "allocated_milli": 500, "workload": "serve-f5g7h"},
            {"node": "node-002", "model": "NVIDIA H100", "memory_used_bytes": 2**35},
        )
    )
    harness.publish("moon", gpus=gpu_columns({"node": "m-1", "utilization": 0.5, "model": "NVIDIA H200"}))
    return harness


def test_nodes_are_filtered_and_sorted(grid: MonitoringHarness) -> None:
    assert _names(grid, "nodes") == ["a-1", "a-2", "a-3", "b-1", "b-2", "m-1"]
    assert _names(grid, "nodes", order="desc") == ["m-1", "b-2", "b-1", "a-3", "a-2", "a-1"]
    assert _names(grid, "nodes", cluster="moon") == ["m-1"]
    assert _names(grid, "nodes", name="A-") == ["a-1", "a-2", "a-3"]
    assert _names(grid, "nodes", pool="fast") == ["a-1"]
    assert _names(grid, "nodes", state="busy") == ["a-1"]
    assert _names(grid, "nodes", state="partial") == ["a-2"]
    assert _names(grid, "nodes", state="idle") == ["a-3", "m-1"]
    assert _names(grid, "nodes", state="faulty") == ["b-1", "b-2"]
    assert _names(grid, "nodes", sort="utilization", order="desc") == ["m-1", "a-1", "b-2", "a-2", "a-3", "b-1"]
    assert _names(grid, "nodes", sort="utilization") == ["a-2", "b-2", "a-1", "m-1", "a-3", "b-1"]
    shown = _page(grid, "nodes", name="a-2")["items"][0]
    assert (shown["allocatedGpus"], shown["labels"], shown["models"]) == (0.5, {"rack": "r1"}, [MODEL])


def test_gpus_are_filtered_and_sorted(grid: MonitoringHarness) -> None:
    everyone = ["node-001:0", "node-001:1", "node-001:2", "node-002:0", "m-1:0"]
    assert _names(grid, "gpus") == everyone
    assert _names(grid, "gpus", cluster="local") == everyone[:4]
    assert _names(grid, "gpus", node="node-002") == ["node-002:0"]
    assert [gpu["uuid"] for gpu in _page(grid, "gpus", node="node-001")["items"]] == ["", "GPU-1", ""]
    assert _names(grid, "gpus", node="node") == []
    assert _names(grid, "gpus", model="nvidia") == ["node-002:0", "m-1:0"]
    assert _names(grid, "gpus", workload="TRAIN-") == ["node-001:0"]
    assert _names(grid, "gpus", state="allocated") == ["node-001:0"]
    assert _names(grid, "gpus", state="faulty") == ["node-001:2"]
    assert _names(grid, "gpus", state="idle", model="h200") == ["m-1:0"]
    assert _names(grid, "gpus", sort="utilization", order="desc")[:3] == ["node-001:0", "m-1:0", "node-001:1"]
    assert _names(grid, "gpus", sort="memory", order="desc")[:2] == ["node-001:1", "node-002:0"]
    assert _names(grid, "gpus", sort="memory")[:2] == ["node-002:0", "node-001:1"]
    page = _page(grid, "gpus", limit=2, offset=1)
    assert ([item["device"] for item in page["items"]], page["total"], page["next"]) == ([1, 2], 5, 3)


def test_a_grid_follows_what_is_published(grid: MonitoringHarness) -> None:
    assert len(_names(grid, "gpus")) == 5
    grid.publish("moon", gpus=gpu_columns())
    assert len(_names(grid, "gpus")) == 4


def test_while_a_large_picture_is_made_the_one_before_is_shown(
    grid: MonitoringHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(_names(grid, "gpus")) == 5
    store, made, read = grid.installation.store, asyncio.Event(), grid.installation.store.read

    async def slow(query: TransactionFn[T]) -> T:
        await made.wait()
        return await read(query)

    monkeypatch.setattr(store, "read", slow)
    monkeypatch.setattr("stoker.services.fleet.live.STALE_WAIT_SECONDS", 0.0)
    grid.publish("moon", gpus=gpu_columns())
    assert len(_names(grid, "gpus")) == 5
    made.set()
    monkeypatch.setattr("stoker.services.fleet.live.STALE_WAIT_SECONDS", 20.0)
    assert len(_names(grid, "gpus")) == 4


def test_a_picture_that_is_long_past_is_not_shown(grid: MonitoringHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_names(grid, "gpus")) == 5
    monkeypatch.setattr("stoker.services.fleet.live.STALE_WAIT_SECONDS", 0.0)
    for _ in range(2):
        grid.publish("moon", gpus=gpu_columns())
    assert len(_names(grid, "gpus")) == 4


@pytest.mark.parametrize("what", ["overview", "consumers", "nodes", "gpus"])
def test_they_are_open_to_those_who_may_monitor(harness: MonitoringHarness, what: str) -> None:
    assert harness.get(f"{V1}/{what}").status_code == 200
    assert harness.get(f"{V1}/{what}", peer=FAR).status_code == 401
    assert harness.get(f"{V1}/{what}?cluster=unheard-of").status_code == 404


@pytest.mark.parametrize("query", ["limit=1001", "limit=0", "state=broken", "sort=uid", "order=up", "offset=-1"])
def test_a_bad_value_is_refused(harness: MonitoringHarness, query: str) -> None:
    for what in ("nodes", "gpus"):
        answer = harness.get(f"{V1}/{what}?{query}")
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, query.partition("=")[0])


def test_nodes_and_gpus_are_listed_in_natural_order_page_by_page(harness: MonitoringHarness) -> None:
    names = [f"gpu-node-{number}" for number in (10, 1, 100, 2, 20)]
    natural = [f"gpu-node-{number}" for number in (1, 2, 10, 20, 100)]
    harness.publish(nodes=[node_now(name) for name in names])
    harness.publish(gpus=gpu_columns(*({"node": name, "device": device} for name in names for device in (0, 1))))
    assert _names(harness, "nodes") == natural
    assert _names(harness, "nodes", order="desc") == natural[::-1]
    assert [_names(harness, "nodes", limit=2, offset=offset) for offset in (0, 2, 4)] == [
        natural[:2],
        natural[2:4],
        natural[4:],
    ]
    assert _names(harness, "nodes", sort="allocated") == natural  # equal ones are in the order of names
    by_gpu = [f"{name}:{device}" for name in natural for device in (0, 1)]
    assert _names(harness, "gpus") == by_gpu
    assert _names(harness, "gpus", sort="power", order="desc") == by_gpu
    assert _names(harness, "gpus", limit=3, offset=3) == by_gpu[3:6]
