"""The documents' own examples: every answer has their fields, in their nesting, with their JSON types."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.monitoring.harness import MonitoringHarness, consumer

from stoker.domain.cluster.live_view import TopGpu
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.training import TrainingSample

SAID = {GpuMetric.UTILIZATION: 0.85, GpuMetric.MEMORY_USED: 92.0 * 2**30, GpuMetric.POWER: 650.5}
EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))


def shape(value: Any) -> Any:
    """Names and JSON types; of a list the shape of its items, which must be one, of a point those of both its parts."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        shapes = [shape(each) for each in value]
        if shapes == ["float", "int"]:
            return shapes
        assert all(each == shapes[0] for each in shapes), shapes
        return shapes[:1]
    return type(value).__name__


@pytest.fixture
def filled(harness: MonitoringHarness) -> tuple[MonitoringHarness, str]:
    """A running workload on two nodes, and a view of the cluster."""
    ref = harness.submit(gpu="8", replica=2)
    harness.start(ref, {"node-001": range(8)}, {"node-002": range(8)})
    harness.sample(harness.clock.now(), {"node-001": [SAID] * 8, "node-002": [SAID] * 8})
    harness.train(
        ref, TrainingSample(harness.clock.now(), 1, {"loss": 0.0125, "tflops": 450.5, "samples_per_second": 1250.5})
    )
    hottest = {metric: [TopGpu("node-001", 0, "AMD MI300X", 0.75)] for metric in GpuMetric}
    harness.publish(overview=harness.overview(hottest=hottest), consumers=[consumer("a", 8), consumer("b", 4)])
    return harness, ref


def answer(filled: tuple[MonitoringHarness, str], path: str) -> Any:
    harness, ref = filled
    now = harness.clock.now()
    ranges = {"metrics": f"?start={now // 1000}&end={now // 1000 + 60}&step=1"}
    ranges["trainingPerformance"] = f"?start={now}&end={now}"
    found = harness.get(path.replace(":uid", ref) + ranges.get(path.rpartition("/")[2], ""))
    assert found.status_code == 200, found.text
    return found.json()


@pytest.mark.parametrize(
    "path",
    [
        "/api/workloadMetadata",
        "/api/clusters/overview",
        "/api/clusters/consumers",
        "/api/clusters/gpuHeatmap",
        "/api/workloads",
        "/api/workloads/:uid",
        "/api/workloads/:uid/metrics",
    ],
)
def test_an_answer_has_the_shape_of_its_example(filled: tuple[MonitoringHarness, str], path: str) -> None:
    expected, found = EXAMPLES[path], answer(filled, path)
    if path in ("/api/workloads", "/api/workloads/:uid"):  # the example's model is the one that is here
        assert list(_models(found)) == list(_models(expected)) == ["AMD_Instinct_MI300X_OAM"]
    assert shape(found) == shape(expected)
    assert list(found) == list(expected)
    assert list(_first(found["data"])) == list(_first(expected["data"]))


def test_training_performance_has_the_shape_of_its_example_and_a_trace_id(
    filled: tuple[MonitoringHarness, str],
) -> None:
    expected = EXAMPLES["/api/workloads/:uid/trainingPerformance"]
    found = answer(filled, "/api/workloads/:uid/trainingPerformance")
    assert shape(found) == shape(expected) | {"traceId": "str"}


def test_the_hierarchy_has_the_shape_of_its_example_at_every_level(filled: tuple[MonitoringHarness, str]) -> None:
    def check(node: Any) -> None:
        assert list(node) == ["kind", "name", "namespace", "uid", "children"]
        assert all(isinstance(node[name], str) for name in ("kind", "name", "namespace", "uid"))
        for child in node["children"]:
            check(child)

    check(EXAMPLES["/api/workloads/:uid/hierarchy"]["data"])
    found = answer(filled, "/api/workloads/:uid/hierarchy")["data"]
    check(found)
    assert [child["kind"] for child in found["children"]] == ["Pod", "Pod"]


def test_the_frames_of_the_heatmap_are_those_of_the_example(filled: tuple[MonitoringHarness, str]) -> None:
    expected, found = EXAMPLES["/api/clusters/gpuHeatmap"]["data"], answer(filled, "/api/clusters/gpuHeatmap")["data"]
    for name in ("power", "temperature", "utilization"):
        frame = {key: value for key, value in expected[name].items() if key != "data"}
        assert {key: found[name][key] for key in frame} == frame


def _first(data: Any) -> Any:
    rows = data.get("data", data)
    return rows[0] if isinstance(rows, list) else data


def _models(body: Any) -> Any:
    return _first(body["data"])["gpuAllocation"]
