"""Overview, consumers and heatmap: what the controllers published, added up."""

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.monitoring.harness import MonitoringHarness, consumer

from stoker.domain.cluster.live_view import CollectorStatus, TopGpu
from stoker.domain.cluster.samples import GpuMetric

TERA = 10**12
EMPTY = {
    "totalNodes": 0,
    "healthyNodes": 0,
    "faultyNodes": 0,
    "fullyIdleNodes": 0,
    "partiallyIdleNodes": 0,
    "busyNodes": 0,
    "allocationRate": 0.0,
    "utilization": 0.0,
    "storageStat": {
        "totalCapacity": "0TB",
        "usedCapacity": "0TB",
        "availableCapacity": "0TB",
        "utilizationRate": 0.0,
    },
    "rdmaClusterStat": {"totalPorts": 0, "activePorts": 0, "bandwidth": "0Gbps"},
}
PATHS = ("/api/clusters/overview", "/api/clusters/consumers", "/api/clusters/gpuHeatmap")


def test_before_anything_was_published_everything_is_nothing(harness: MonitoringHarness) -> None:
    assert harness.data("/api/clusters/overview") == EMPTY
    assert harness.data("/api/clusters/consumers") == {"data": [], "total": 0}
    heat = harness.data("/api/clusters/gpuHeatmap")
    assert [heat[name]["data"] for name in ("power", "temperature", "utilization")] == [[], [], []]
    assert all("X-Stoker-Stale" not in harness.get(path).headers for path in PATHS)


def test_clusters_are_added_up(any_harness: MonitoringHarness) -> None:
    any_harness.add_cluster("moon", "simulated")
    any_harness.publish(
        overview=any_harness.overview(
            nodes=4,
            healthy_nodes=3,
            faulty_nodes=1,
            idle_nodes=1,
            partial_nodes=1,
            busy_nodes=1,
            gpus=32,
            healthy_gpus=24,
            allocated_milli=14_000,
            healthy_allocated_milli=12_000,
            allocated_gpus=14,
            measured_gpus=10,
            utilization_sum=8.0,
            storage_total_bytes=600 * TERA,
            storage_used_bytes=400 * TERA,
            rdma_ports=40,
            rdma_active_ports=36,
            rdma_bits_per_second=200 * 10**9,
        )
    )
    any_harness.publish(
        "moon",
        overview=any_harness.overview(
            gpus=8,
            healthy_gpus=8,
            allocated_milli=4_500,
            healthy_allocated_milli=4_500,
            allocated_gpus=5,
            measured_gpus=5,
            utilization_sum=1.0,
            idle_nodes=0,
            partial_nodes=1,
            storage_total_bytes=400 * TERA,
            storage_used_bytes=50 * TERA,
            rdma_ports=40,
            rdma_active_ports=40,
            rdma_bits_per_second=400 * 10**9,
        ),
    )
    assert any_harness.data("/api/clusters/overview") == {
        "totalNodes": 5,
        "healthyNodes": 4,
        "faultyNodes": 1,
        "fullyIdleNodes": 1,
        "partiallyIdleNodes": 2,
        "busyNodes": 1,
        "allocationRate": 0.5156,
        "utilization": 0.6,
        "storageStat": {
            "totalCapacity": "1000TB",
            "usedCapacity": "450TB",
            "availableCapacity": "550TB",
            "utilizationRate": 0.45,
        },
        "rdmaClusterStat": {"totalPorts": 80, "activePorts": 76, "bandwidth": "400Gbps"},
    }
    moon = any_harness.data("/api/clusters/overview", cluster="moon")
    assert (moon["totalNodes"], moon["allocationRate"], moon["utilization"]) == (1, 0.5625, 0.2)


def test_a_new_version_is_seen_at_once(harness: MonitoringHarness) -> None:
    for number in (1, 2, 3):
        harness.publish(overview=harness.overview(nodes=number))
        assert harness.data("/api/clusters/overview")["totalNodes"] == number


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0TB"), (500 * 10**9, "0.5TB"), (1_234 * 10**9, "1.234TB"), (10**15, "1000TB")]
)
def test_capacities_have_no_digits_that_say_nothing(harness: MonitoringHarness, size: int, shown: str) -> None:
    harness.publish(overview=harness.overview(storage_total_bytes=size))
    assert harness.data("/api/clusters/overview")["storageStat"]["totalCapacity"] == shown


def test_capacities_add_up_as_they_are_shown(harness: MonitoringHarness) -> None:
    harness.publish(
        overview=harness.overview(storage_total_bytes=1_200_270_600_000_000, storage_used_bytes=653_898_300_000_000)
    )
    stat = harness.data("/api/clusters/overview")["storageStat"]
    assert (stat["totalCapacity"], stat["usedCapacity"], stat["availableCapacity"]) == (
        "1200.271TB",
        "653.898TB",
        "546.373TB",
    )


def test_consumers_come_with_most_gpus_first(any_harness: MonitoringHarness) -> None:
    any_harness.add_cluster("moon", "kubernetes")
    any_harness.publish(consumers=[consumer("b", 8, 0.85), consumer("a", 8, None), consumer("d", 0.5)])
    any_harness.publish("moon", consumers=[consumer("c", 64, 1.0, kind="Job", namespace="far")])
    page = any_harness.data("/api/clusters/consumers")
    assert page["data"][0] == {
        "kind": "Job",
        "name": "name-c",
        "namespace": "far",
        "uid": "c",
        "stat": {"gpuRequest": 64, "gpuUtilization": 1.0},
        "pods": None,
        "source": "k8s",
    }
    shown = [(row["uid"], row["stat"]["gpuRequest"], row["stat"]["gpuUtilization"]) for row in page["data"][1:]]
    assert (shown, page["total"]) == ([("a", 8, 0.0), ("b", 8, 0.85), ("d", 1, 0.5)], 4)
    one = any_harness.data("/api/clusters/consumers", cluster="moon")
    assert ([row["uid"] for row in one["data"]], one["total"]) == (["c"], 1)


def test_a_workload_is_no_consumer_from_the_moment_it_is_deleted(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit()
    any_harness.start(ref)
    uid = any_harness.only()["uid"]
    any_harness.publish(consumers=[consumer(uid, 8), consumer("other", 4)])
    assert any_harness.data("/api/clusters/consumers")["total"] == 2
    assert any_harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="admin").status_code == 204
    page = any_harness.data("/api/clusters/consumers")
    assert ([row["uid"] for row in page["data"]], page["total"]) == (["other"], 1)


def test_consumers_come_in_pages(harness: MonitoringHarness) -> None:
    harness.publish(consumers=[consumer(f"{number:02}", 8) for number in range(25)])
    assert len(harness.data("/api/clusters/consumers")["data"]) == 10
    pages = [harness.data("/api/clusters/consumers", pageNum=number, pageSize=7) for number in range(1, 6)]
    assert [row["uid"] for page in pages for row in page["data"]] == [f"{number:02}" for number in range(25)]
    assert {page["total"] for page in pages} == {25}


def _hot(*values: float, node: str = "node-001") -> list[TopGpu]:
    return [TopGpu(node, device, "AMD MI300X", value) for device, value in enumerate(values)]


def test_the_heatmap_has_the_hottest_of_all_clusters(harness: MonitoringHarness) -> None:
    harness.add_cluster("moon", "simulated")
    here = {
        GpuMetric.POWER: _hot(750.5, 300.0),
        GpuMetric.TEMPERATURE: _hot(82.5),
        GpuMetric.UTILIZATION: _hot(0.985, 0.2),
    }
    there = {GpuMetric.POWER: _hot(732.3, 700, 690, 10, node="far"), GpuMetric.UTILIZATION: _hot(0.952, node="far")}
    harness.publish(overview=harness.overview(hottest=here))
    harness.publish("moon", overview=harness.overview(hottest=there))
    heat = harness.data("/api/clusters/gpuHeatmap")
    assert [point["value"] for point in heat["power"]["data"]] == [750.5, 732.3, 700.0, 690.0, 300.0]
    assert heat["power"]["data"][1] == {"nodeName": "far", "deviceId": 0, "value": 732.3, "gpuModel": "AMD MI300X"}
    assert [point["value"] for point in heat["utilization"]["data"]] == [98.5, 95.2, 20.0]
    frames = {name: {key: heat[name][key] for key in ("serial", "unit", "yAxisMax", "yAxisMin")} for name in heat}
    assert frames == {
        "power": {"serial": 2, "unit": "W", "yAxisMax": 850, "yAxisMin": 0},
        "temperature": {"serial": 3, "unit": "℃", "yAxisMax": 110, "yAxisMin": 20},
        "utilization": {"serial": 1, "unit": "%", "yAxisMax": 100, "yAxisMin": 0},
    }
    assert len(harness.data("/api/clusters/gpuHeatmap", topK=2)["power"]["data"]) == 2
    assert len(harness.data("/api/clusters/gpuHeatmap", top_k=100)["power"]["data"]) == 6
    assert len(harness.data("/api/clusters/gpuHeatmap", cluster="moon")["power"]["data"]) == 4


@pytest.mark.parametrize(
    ("value", "top"), [(0, 850), (850, 850), (850.5, 900), (899.9, 900), (1199, 1200), (1200, 1250)]
)
def test_an_axis_that_is_too_short_grows_to_the_next_fifty(harness: MonitoringHarness, value: float, top: int) -> None:
    harness.publish(overview=harness.overview(hottest={GpuMetric.POWER: _hot(value)}))
    assert harness.data("/api/clusters/gpuHeatmap")["power"]["yAxisMax"] == top


@pytest.mark.parametrize("value", ["0", "101", "-1", "x", ""])
def test_a_bad_number_of_gpus_is_refused(harness: MonitoringHarness, value: str) -> None:
    answer = harness.get(f"/api/clusters/gpuHeatmap?topK={value}")
    assert (answer.status_code, answer.json()["message"][:6]) == (400, "topK: ")


def test_old_readings_are_marked_with_their_age_and_stay(harness: MonitoringHarness) -> None:
    read_at = harness.clock.now()
    harness.clock.advance(seconds=40)
    source = CollectorStatus("prometheus", read_at, stale=True, message="it does not answer")
    harness.publish(overview=harness.overview(nodes=7, source=source), consumers=[consumer("a", 8)])
    for path in PATHS:
        answer = harness.get(path)
        assert (answer.status_code, answer.headers["X-Stoker-Stale"]) == (200, "40")
    assert harness.data("/api/clusters/overview")["totalNodes"] == 7
    harness.publish(overview=harness.overview(nodes=7))
    assert all("X-Stoker-Stale" not in harness.get(path).headers for path in PATHS)


def test_readings_that_never_came_are_as_old_as_the_wish_for_them(harness: MonitoringHarness) -> None:
    source = CollectorStatus("prometheus", None, stale=True, message="it does not answer", asked_at=harness.clock.now())
    for seconds in (7, 20):
        harness.clock.advance(seconds=seconds)
        harness.publish(overview=harness.overview(nodes=7, source=source))
        age = (harness.clock.now() - (source.asked_at or 0)) // 1000
        assert harness.get("/api/clusters/overview").headers["X-Stoker-Stale"] == str(age)


def test_a_controller_that_went_silent_makes_its_view_old(harness: MonitoringHarness) -> None:
    harness.publish(overview=harness.overview())
    harness.clock.advance(seconds=60)
    assert "X-Stoker-Stale" not in harness.get("/api/clusters/overview").headers
    harness.clock.advance(seconds=60)
    assert harness.get("/api/clusters/overview").headers["X-Stoker-Stale"] == "120"
