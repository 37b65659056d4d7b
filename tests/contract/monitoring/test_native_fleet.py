"""The native views of the fleet: overview with its sources, consumers, and the grids of nodes and GPUs."""

import asyncio
from typing import Any, TypeVar

import httpx
import pytest
from tests.api.lab import FAR, STARTED, V1
from tests.contract.lens.lab import MODEL, LensLab, consumer, gpu_columns, node_now

from stoker.domain.live import SourceState
from stoker.store.base import Change

T = TypeVar("T")


def _page(lab: LensLab, what: str, **query: Any) -> dict[str, Any]:
    answer = lab.get(f"{V1}/{what}?{httpx.QueryParams(query)}")
    assert answer.status_code == 200, answer.text
    lab.contract.check("GET", f"{V1}/{what}", answer)
    return answer.json()


def _names(lab: LensLab, what: str, **query: Any) -> list[str]:
    shown = _page(lab, what, **query)["items"]
    return [item["name"] if what == "nodes" else f"{item['node']}:{item['device']}" for item in shown]


def test_the_overview_says_where_each_cluster_is_read_and_how_old_that_is(any_lab: LensLab) -> None:
    any_lab.add_cluster("moon", "simulated")
    read_at = any_lab.clock.now()
    any_lab.clock.advance(seconds=50)
    source = SourceState("prometheus", read_at, stale=True, message="It does not answer.")
    any_lab.publish(overview=any_lab.overview(source=source, gpus=8, allocated_milli=2500, power_watts=512.34))
    shown = _page(any_lab, "overview")
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
    assert moon["source"]["message"] == "Nothing has been published of this cluster yet."
    assert (shown["total"]["allocatedGpus"], shown["total"]["powerWatts"]) == (2.5, 512.3)
    assert [each["name"] for each in _page(any_lab, "overview", cluster="moon")["clusters"]] == ["moon"]
    assert any_lab.get(f"{V1}/overview").headers["X-Stoker-Stale"] == "50"


def test_what_nobody_has_read_is_unknown_and_not_zero(lab: LensLab) -> None:
    lab.publish(overview=lab.overview(allocated_milli=8000, allocated_gpus=8))
    lab.add_cluster("moon", "simulated")
    now = _page(lab, "overview")["clusters"][0]["now"]
    assert (now["utilization"], now["powerWatts"], now["allocatedGpus"]) == (None, None, 8.0)
    assert lab.data("/api/clusters/overview")["utilization"] == 0
    idle = lab.overview(allocated_gpus=2, measured_gpus=2, power_watts=0.0)
    lab.publish("moon", overview=idle)
    shown = _page(lab, "overview")
    assert (shown["total"]["utilization"], shown["total"]["powerWatts"]) == (0, 0)
    assert [each["now"]["utilization"] for each in shown["clusters"]] == [None, 0]


def test_every_node_is_counted_also_without_gpus(lab: LensLab) -> None:
    lab.publish(overview=lab.overview(nodes=2, faulty_nodes=1, cpu_nodes=3, faulty_cpu_nodes=1))
    total = _page(lab, "overview")["total"]
    assert (total["nodes"], total["healthyNodes"], total["faultyNodes"]) == (6, 4, 2)
    assert [total[f"{kind}Nodes"] for kind in ("idle", "partial", "busy", "cpu")] == [1, 0, 0, 3]
    assert lab.data("/api/clusters/overview")["totalNodes"] == 2


def test_consumers_say_since_when_they_have_been_idle(lab: LensLab) -> None:
    lab.publish(consumers=[consumer("a", 0.5, None, memory=None, power_watts=None), consumer("b", 8, 0.123456)])
    busy, idle = _page(lab, "consumers")["items"]
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
def grid(lab: LensLab) -> LensLab:
    lab.add_cluster("moon", "simulated")
    lab.publish(nodes=NODES)
    lab.publish("moon", nodes=[node_now("m-1", utilization=1.0)])
    lab.publish(
        gpus=gpu_columns(
            {"device": 0, "utilization": 0.9, "allocated_milli": 1000, "workload": "train-b2c4d", "power_watts": 300.0},
            {"device": 1, "utilization": 0.1, "memory_used_bytes": 2**36},
            {"device": 2, "fault": "ECC", "allocated_milli": 500, "workload": "serve-f5g7h"},
            {"node": "node-002", "model": "NVIDIA H100", "memory_used_bytes": 2**35},
        )
    )
    lab.publish("moon", gpus=gpu_columns({"node": "m-1", "utilization": 0.5, "model": "NVIDIA H200"}))
    return lab


def test_nodes_are_filtered_and_sorted(grid: LensLab) -> None:
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


def test_gpus_are_filtered_and_sorted(grid: LensLab) -> None:
    everyone = ["node-001:0", "node-001:1", "node-001:2", "node-002:0", "m-1:0"]
    assert _names(grid, "gpus") == everyone
    assert _names(grid, "gpus", cluster="local") == everyone[:4]
    assert _names(grid, "gpus", node="node-002") == ["node-002:0"]
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


def test_a_grid_follows_what_is_published(grid: LensLab) -> None:
    assert len(_names(grid, "gpus")) == 5
    grid.publish("moon", gpus=gpu_columns())
    assert len(_names(grid, "gpus")) == 4


def test_while_a_large_picture_is_made_the_one_before_is_shown(grid: LensLab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_names(grid, "gpus")) == 5
    store, made, read = grid.installation.store, asyncio.Event(), grid.installation.store.read

    async def slow(query: Change[T]) -> T:
        await made.wait()
        return await read(query)

    monkeypatch.setattr(store, "read", slow)
    monkeypatch.setattr("stoker.services.live.PATIENCE_SECONDS", 0.0)
    grid.publish("moon", gpus=gpu_columns())
    assert len(_names(grid, "gpus")) == 5
    made.set()
    monkeypatch.setattr("stoker.services.live.PATIENCE_SECONDS", 20.0)
    assert len(_names(grid, "gpus")) == 4


def test_a_picture_that_is_long_past_is_not_shown(grid: LensLab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_names(grid, "gpus")) == 5
    monkeypatch.setattr("stoker.services.live.PATIENCE_SECONDS", 0.0)
    for _ in range(2):
        grid.publish("moon", gpus=gpu_columns())
    assert len(_names(grid, "gpus")) == 4


@pytest.mark.parametrize("what", ["overview", "consumers", "nodes", "gpus"])
def test_they_are_open_to_those_who_may_monitor(lab: LensLab, what: str) -> None:
    assert lab.get(f"{V1}/{what}").status_code == 200
    assert lab.get(f"{V1}/{what}", peer=FAR).status_code == 401
    assert lab.get(f"{V1}/{what}?cluster=unheard-of").status_code == 404


@pytest.mark.parametrize("query", ["limit=1001", "limit=0", "state=broken", "sort=uid", "order=up", "offset=-1"])
def test_a_bad_value_is_refused(lab: LensLab, query: str) -> None:
    for what in ("nodes", "gpus"):
        answer = lab.get(f"{V1}/{what}?{query}")
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, query.partition("=")[0])
