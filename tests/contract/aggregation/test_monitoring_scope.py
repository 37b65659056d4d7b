"""With `monitoring_scope = workspaces` a caller who is no admin sees there what its workspaces hold, and no more."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.contract.aggregation.harness import BASE, UsageHarness
from tests.contract.monitoring.harness import consumer, gpu_columns, node_now
from tests.postgres import TEMPLATE, PostgresServer

from stoker.api.http.families import AGGREGATION, MONITORING
from stoker.api.routes import ENDPOINTS
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.cluster.live_view import TopGpu
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.training import TrainingSample
from stoker.domain.settings.schema import MonitoringScope

V1 = "/api/stoker/v1"
OURS, THEIRS = "our-research", "their-research"
"""In the name and the labels of the workloads of `vision` and of `audio`."""


class ScopeHarness:
    """A node of 8 GPUs: a workload of `vision` holds two of them, one of `audio` holds four."""

    def __init__(self, harness: UsageHarness) -> None:
        self.harness = harness
        harness.add_staff()
        self.hour = harness.to_the_hour()
        harness.appear()
        self.ours = self._start("member", OURS, range(2))
        self.theirs = self._start("outsider", THEIRS, range(2, 6), workspaceId="audio")
        harness.train(self.ours, TrainingSample(harness.clock.now(), None, {"loss": 1.0}))
        harness.train(self.theirs, TrainingSample(harness.clock.now(), None, {"loss": 2.0}))
        harness.take_snapshot()
        harness.read_gpus([0.2, 0.4, 0.9, 0.9, 0.9, 0.9, 0.0, 0.0], range(60), self.hour)
        assert harness.close_hours() == 1
        self._publish()

    def _start(self, who: str, name: str, gpus: range, **fields: Any) -> str:
        labels = {"customerLabels": {name: name}, "annotations": {f"{name}-note": name}}
        ref = self.harness.submit(who, gpu=str(len(gpus)), displayName=name, **labels, **fields)
        self.harness.start(ref, {"node-001": gpus})
        return ref

    def _publish(self) -> None:
        ours, theirs = self.harness.inside(self.ours), self.harness.inside(self.theirs)
        uses = [0.2, 0.4, 0.9, 0.9, 0.9, 0.9, None, None]
        holders = [ours.slug] * 2 + [theirs.slug] * 4 + [None] * 2
        gpus = [
            {
                "device": device,
                "workload": slug,
                "allocated_milli": 1000 if slug else 0,
                "utilization": use,
                "power_watts": 100.0 * (device + 1),
                "temperature": 40.0 + device,
            }
            for device, (slug, use) in enumerate(zip(holders, uses, strict=True))
        ]
        hot = [TopGpu("node-001", device, "MI300X", 0.9) for device in range(2, 6)]
        self.harness.publish(
            overview=self.harness.overview(
                idle_nodes=0,
                partial_nodes=1,
                allocated_milli=6000,
                allocated_gpus=6,
                measured_gpus=6,
                utilization_sum=4.2,
                power_watts=3600.0,
                storage_total_bytes=2**50,
                rdma_ports=8,
                hottest={GpuMetric.UTILIZATION: hot, GpuMetric.POWER: hot, GpuMetric.TEMPERATURE: hot},
            ),
            consumers=[
                consumer(ours.uid, 2, slug=ours.slug, name=ours.name),
                consumer(theirs.uid, 4, slug=theirs.slug, name=theirs.name, namespace="audio"),
            ],
            nodes=[node_now("node-001", allocated_milli=6000)],
            gpus=gpu_columns(*gpus),
        )

    def path(self, path: str, of: str) -> str:
        """A request to an endpoint of monitoring, about one of the workloads where it is about one."""
        uid, start = self.harness.inside(of).uid, self.hour // 1000
        between = f"start_time={format_rfc3339(self.hour)}&end_time={format_rfc3339(self.hour)}"
        queries = {
            "/api/workloads/{uid}/metrics": f"start={start}&end={start + 3600}&step=60",
            "/api/workloads/{uid}/trainingPerformance": f"start={self.hour}&end={self.hour + 3_600_000}",
            f"{BASE}/dimension-values": f"dimension_key={OURS if of == self.ours else THEIRS}",
            f"{BASE}/cluster/hourly-stats": between,
            f"{BASE}/namespaces/hourly-stats": between,
            f"{BASE}/labels/hourly-stats": (
                f"{between}&dimension_type=label&dimension_key={OURS if of == self.ours else THEIRS}"
            ),
            f"{BASE}/workloads/hourly-stats": between,
            f"{BASE}/snapshots": f"start_time={format_rfc3339(self.hour)}&details=true",
        }
        return path.replace("{uid}", uid) + "?" + queries.get(path, "")

    def data(self, path: str, as_: str, of: str = "") -> Any:
        answer = self.harness.get(self.path(path, of or self.ours), as_=as_)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def traces(self, text: str) -> tuple[bool, bool]:
        """Whether an answer tells of the workload of `vision`, and of the one of `audio`."""
        found = []
        for ref, name, namespace in ((self.ours, OURS, "vision"), (self.theirs, THEIRS, "audio")):
            words = (name, self.harness.inside(ref).uid, f'"{namespace}"')
            found.append(any(word in text for word in words))
        return found[0], found[1]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScopeHarness]:
    folder: Path = tmp_path_factory.mktemp("scope")
    with ExitStack() as stack:
        url = ""
        if request.param == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            url = stack.enter_context(server.database(TEMPLATE))
        harness = UsageHarness(folder / "data", url, monitoring_scope=MonitoringScope.WORKSPACES)
        yield ScopeHarness(stack.enter_context(harness))


PATHS = sorted(each.path for each in ENDPOINTS if each.family in (MONITORING, AGGREGATION))
TELLING = {
    # The paths whose answers tell which workloads there are.
    *("/api/workloads", "/api/workloadMetadata", "/api/clusters/consumers"),
    *(f"{BASE}/namespaces", f"{BASE}/dimension-keys", f"{BASE}/namespaces/hourly-stats"),
    *(f"{BASE}/workloads/hourly-stats", f"{BASE}/snapshots/latest", f"{BASE}/snapshots"),
}


def test_the_rule_of_every_endpoint_is_that_of_monitoring() -> None:
    assert {each.action for each in ENDPOINTS if each.path in PATHS} == {Action.MONITOR}
    assert set(PATHS) >= TELLING


@pytest.mark.parametrize("path", PATHS)
def test_nothing_of_another_workspace_is_in_any_answer(fleet: ScopeHarness, path: str) -> None:
    answer = fleet.harness.get(fleet.path(path, fleet.ours), as_="member")
    assert answer.status_code == 200, answer.text
    assert not fleet.traces(answer.text)[1]
    assert fleet.traces(answer.text)[0] or path not in TELLING
    for caller in ("nobody", "member"):
        answer = fleet.harness.get(fleet.path(path, fleet.theirs), as_=caller)
        assert answer.status_code == (404 if "{uid}" in path else 200)
        if "{uid}" not in path:
            assert not fleet.traces(answer.text)[1]


@pytest.mark.parametrize("path", PATHS)
def test_an_admin_and_whoever_needs_no_credential_see_the_fleet(fleet: ScopeHarness, path: str) -> None:
    asked = fleet.path(path, fleet.theirs)
    for answer in (fleet.harness.get(asked, as_="admin"), fleet.harness.get(asked)):
        assert answer.status_code == 200
        if path in TELLING:
            assert fleet.traces(answer.text) == (True, True)


@pytest.mark.parametrize("path", PATHS)
def test_a_pod_has_no_part_in_it(fleet: ScopeHarness, path: str) -> None:
    answer = fleet.harness.get(fleet.path(path, fleet.ours), bearer="rt-stoker-nonsense")
    assert answer.status_code == 401


def test_the_overview_is_of_the_nodes_and_gpus_that_are_held(fleet: ScopeHarness) -> None:
    shown = fleet.data("/api/clusters/overview", "member")
    nodes = {name: shown[name] for name in shown if name.endswith("Nodes")}
    assert nodes == {
        "totalNodes": 1,
        "healthyNodes": 1,
        "faultyNodes": 0,
        "fullyIdleNodes": 0,
        "partiallyIdleNodes": 1,
        "busyNodes": 0,
    }
    assert (shown["allocationRate"], shown["utilization"]) == (1.0, 0.3)
    assert shown["storageStat"]["totalCapacity"] == "0TB"
    assert shown["rdmaClusterStat"]["totalPorts"] == 0
    nothing = fleet.data("/api/clusters/overview", "nobody")
    assert (nothing["totalNodes"], nothing["allocationRate"], nothing["utilization"]) == (0, 0.0, 0.0)


def test_the_heatmap_is_of_the_gpus_that_are_held(fleet: ScopeHarness) -> None:
    shown = fleet.data("/api/clusters/gpuHeatmap", "member")
    assert {name: [(each["deviceId"], each["value"]) for each in shown[name]["data"]] for name in shown} == {
        "power": [(1, 200.0), (0, 100.0)],
        "temperature": [(1, 41.0), (0, 40.0)],
        "utilization": [(1, 40.0), (0, 20.0)],
    }
    nothing = fleet.data("/api/clusters/gpuHeatmap", "nobody")
    assert [nothing[name]["data"] for name in nothing] == [[], [], []]


def test_the_hours_are_those_of_the_workloads_that_are_seen(fleet: ScopeHarness) -> None:
    [work] = fleet.data(f"{BASE}/workloads/hourly-stats", "member")["data"]
    [cluster] = fleet.data(f"{BASE}/cluster/hourly-stats", "member")
    [namespace] = fleet.data(f"{BASE}/namespaces/hourly-stats", "member")
    [label] = fleet.data(f"{BASE}/labels/hourly-stats", "member")
    shared = ("allocated_gpu_count", "avg_utilization", "max_utilization", "min_utilization")
    expected = [work[name] for name in shared]
    assert expected == [2.0, 30.0, 40.0, 20.0]
    for row in (cluster, namespace, label):
        assert [row[name] for name in shared] == expected
    assert cluster["sample_count"] == work["sample_count"]
    assert (namespace["namespace"], label["dimension_value"]) == ("vision", OURS)
    assert (namespace["active_workload_count"], label["active_workload_count"]) == (1, 1)


def test_hours_in_which_nothing_was_held_are_hours_of_nothing(fleet: ScopeHarness) -> None:
    [row] = fleet.data(f"{BASE}/cluster/hourly-stats", "nobody")
    assert (row["allocated_gpu_count"], row["sample_count"], row["total_gpu_capacity"]) == (0.0, 0, 0)
    assert fleet.data(f"{BASE}/namespaces/hourly-stats", "nobody") == []
    assert fleet.data(f"{BASE}/workloads/hourly-stats", "nobody")["total"] == 0


@pytest.mark.parametrize("level", ["cluster", "namespaces", "labels"])
def test_pages_of_hours_are_counted_over_what_is_seen(fleet: ScopeHarness, level: str) -> None:
    path = fleet.path(f"{BASE}/{level}/hourly-stats", fleet.ours)
    page = fleet.harness.get(f"{path}&page=1&page_size=1", as_="member").json()["data"]
    assert (page["total"], len(page["data"])) == (1, 1)
    assert fleet.harness.get(f"{path}&page=2&page_size=1", as_="member").json()["data"]["data"] == []


def test_snapshots_hold_what_the_workspaces_held(fleet: ScopeHarness) -> None:
    latest = fleet.data(f"{BASE}/snapshots/latest", "member")
    assert latest["allocated_gpu_count"] == 2
    assert list(latest["allocation_details"]["namespaces"]) == ["vision"]
    assert list(latest["allocation_details"]["annotations"]) == [f"{OURS}-note"]
    [listed] = fleet.data(f"{BASE}/snapshots", "member")
    assert listed["allocated_gpu_count"] == 2
    plain = fleet.harness.get(f"{BASE}/snapshots?start_time={format_rfc3339(fleet.hour)}", as_="member").json()["data"]
    assert [(each["allocated_gpu_count"], each["allocation_details"]) for each in plain] == [(2, {})]


def test_a_page_of_workloads_is_counted_over_what_is_seen(fleet: ScopeHarness) -> None:
    assert fleet.data("/api/workloads", "member")["total"] == 1
    assert fleet.data("/api/workloads", "nobody")["total"] == 0
    assert fleet.data("/api/clusters/consumers", "member")["total"] == 1


def test_the_native_views_of_the_fleet_do_not_tell_what_these_hide(fleet: ScopeHarness) -> None:
    for path in ("overview", "consumers", "gpus"):
        assert not fleet.traces(fleet.harness.get(f"{V1}/{path}", as_="member").text)[1]
    assert fleet.harness.get(f"{V1}/gpus", as_="member").json()["total"] == 2
    assert fleet.harness.get(f"{V1}/gpus", as_="admin").json()["total"] == 8
    assert fleet.harness.inside(fleet.theirs).slug not in fleet.harness.get("/metrics", as_="member").text
    assert fleet.harness.inside(fleet.theirs).slug in fleet.harness.get("/metrics", as_="admin").text


def test_without_the_setting_everyone_sees_the_fleet(tmp_path: Path) -> None:
    with UsageHarness(tmp_path / "data") as harness:
        fleet = ScopeHarness(harness)
        for path in TELLING:
            assert fleet.traces(harness.get(fleet.path(path, fleet.ours), as_="nobody").text) == (True, True)
