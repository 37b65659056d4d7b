"""Every curl of both documents on a simulated cluster that runs: documented shapes, and figures that can be true."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.management.guarantees import current_contract
from tests.contract.management.harness import TIMEOUT_SECONDS, RunningClock
from tests.contract.monitoring.harness import MonitoringHarness
from tests.contract.monitoring.test_document import EXAMPLES, shape

from stoker.domain.settings.schema import Settings
from stoker.server.composition import running_installation

HOUR = 3600
TRAINING = "/api/workloads/abc123/trainingPerformance"
CURLS = {
    "/api/clusters/overview": "/api/clusters/overview",
    "/api/clusters/consumers?pageNum=1&pageSize=20": "/api/clusters/consumers",
    "/api/clusters/consumers?pageNum=2": "/api/clusters/consumers",
    "/api/clusters/gpuHeatmap": "/api/clusters/gpuHeatmap",
    "/api/workloads?pageNum=1&pageSize=20": "/api/workloads",
    "/api/workloads?namespace=default&status=Running": "/api/workloads",
    "/api/workloads?kind=Job&orderBy=start_at": "/api/workloads",
    "/api/workloads?name=training": "/api/workloads",
    "/api/workloads/abc123": "/api/workloads/:uid",
    "/api/workloads/abc123/metrics?start=$START&end=$END&step=300": "/api/workloads/:uid/metrics",
    TRAINING + "?start=${START}000&end=${END}000": "/api/workloads/:uid/trainingPerformance",
    "/api/workloadMetadata": "/api/workloadMetadata",
}
pytestmark = pytest.mark.slow


class DemoHarness(MonitoringHarness):
    """A simulated cluster with a day behind it, on the machine's own clock."""

    def __init__(self, data_dir: Path) -> None:
        folder = str(data_dir)
        self.settings = Settings(data_dir=folder, demo=True, demo_gpus=512, demo_days=1, gpus=0, sample_seconds=1)
        self.clock = RunningClock()
        self.keys = {}
        self._numbers = itertools.count(1)
        self._stack = contextlib.AsyncExitStack()
        self._runner = asyncio.Runner()
        self.installation = self.run(self._stack.enter_async_context(running_installation(self.settings, self.clock)))
        self.app = self.installation.api
        self.keys["admin"] = self.installation.admin_key_file.read_text().strip()
        self.contract = current_contract()

    def trained(self) -> str:
        """A running workload that says how its training goes, once the GPUs have been read and there is one."""
        end = time.monotonic() + 3 * TIMEOUT_SECONDS
        while time.monotonic() < end:
            now = self.clock.now()
            read = self.data("/api/clusters/overview")["utilization"] > 0
            for row in self.data("/api/clusters/consumers", pageSize=100)["data"] if read else []:
                path = f"/api/workloads/{row['uid']}/trainingPerformance"
                said = {point["metric"] for point in self.data(path, start=now - HOUR * 1000, end=now)}
                if "tflops" in said:
                    return row["uid"]
            self.run(asyncio.sleep(0.2))
        raise AssertionError("nothing trains here")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoHarness]:
    with DemoHarness(tmp_path_factory.mktemp("demo") / "data") as harness:
        yield harness


@pytest.fixture(scope="module")
def uid(demo: DemoHarness) -> str:
    return demo.trained()


def _alike(body: Any) -> Any:
    """The shape of an answer, whichever models of GPUs there are in it and however many items."""
    if isinstance(body, dict):
        return {name: "by model" if name == "gpuAllocation" else _alike(each) for name, each in body.items()}
    if isinstance(body, list) and body and isinstance(body[0], dict):
        return [_alike(body[0])]
    return shape(body)


@pytest.mark.parametrize("curl", CURLS)
def test_every_curl_of_the_documents_is_answered_in_its_shape(demo: DemoHarness, uid: str, curl: str) -> None:
    end = int(time.time()) + 300
    times = {"${START}": end - HOUR, "$START": end - HOUR, "${END}": end, "$END": end}
    path = curl.replace("abc123", uid)
    for name, at in times.items():
        path = path.replace(name, str(at))
    answer = demo.get(path)
    assert answer.status_code == 200, answer.text
    expected, found = EXAMPLES[CURLS[curl]] | {"traceId": ""}, answer.json()
    if isinstance(found["data"], dict) and found["data"].get("data") == []:
        found["data"]["data"] = expected["data"]["data"]  # nothing of that name here
    assert _alike(found) == _alike(expected)


def test_the_figures_can_be_true(demo: DemoHarness, uid: str) -> None:
    overview = demo.data("/api/clusters/overview", cluster="demo")
    assert overview["totalNodes"] == overview["healthyNodes"] + overview["faultyNodes"]
    states = ("fullyIdleNodes", "partiallyIdleNodes", "busyNodes")
    assert overview["healthyNodes"] == sum(overview[state] for state in states)
    assert 0 < overview["allocationRate"] <= 1
    assert 0 < overview["utilization"] <= 1
    heat = demo.data("/api/clusters/gpuHeatmap")
    for graph in heat.values():
        values = [point["value"] for point in graph["data"]]
        assert len(values) == 5
        assert values == sorted(values, reverse=True)
        assert graph["yAxisMin"] <= values[-1] <= values[0] <= graph["yAxisMax"]
    now = int(time.time())
    graphs = demo.data(f"/api/workloads/{uid}/metrics", start=now - HOUR, end=now)
    held = sum(demo.data(f"/api/workloads/{uid}")["gpuAllocation"].values())
    assert len(graphs["GPU Utilization"]["series"]) >= held > 0
    for name in ("GPU Utilization", "GPU Memory Utilization"):
        assert all(0 <= value <= 1 for line in graphs[name]["series"] for value, _ in line["points"])


def test_everything_simulated_says_so(demo: DemoHarness) -> None:
    shown = demo.data("/api/workloads", cluster="demo", pageSize=1000)
    assert {row["source"] for row in shown["data"]} == {"simulated"}
    assert {row["source"] for row in demo.data("/api/clusters/consumers")["data"]} == {"simulated"}
    clusters = demo.get("/api/stoker/v1/overview").json()["clusters"]
    assert {each["name"]: each["simulated"] for each in clusters} == {"demo": True, "local": False}
