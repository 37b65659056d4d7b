"""The documents' own examples: every answer has their fields, in their nesting, with their JSON types."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.lens.lab import LensLab, consumer

from stoker.domain.live import HotGpu
from stoker.domain.readings import Metric
from stoker.domain.training import Measured

SAID = {Metric.UTILIZATION: 0.85, Metric.MEMORY_USED: 92.0 * 2**30, Metric.POWER: 650.5}
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
def filled(lab: LensLab) -> tuple[LensLab, str]:
    """A running workload on two nodes, and a view of the cluster."""
    ref = lab.submit(gpu="8", replica=2)
    lab.start(ref, {"node-001": range(8)}, {"node-002": range(8)})
    lab.sample(lab.clock.now(), {"node-001": [SAID] * 8, "node-002": [SAID] * 8})
    lab.train(ref, Measured(lab.clock.now(), 1, {"loss": 0.0125, "tflops": 450.5, "samples_per_second": 1250.5}))
    hottest = {metric: [HotGpu("node-001", 0, "AMD MI300X", 0.75)] for metric in Metric}
    lab.publish(overview=lab.overview(hottest=hottest), consumers=[consumer("a", 8), consumer("b", 4)])
    return lab, ref


def answer(filled: tuple[LensLab, str], path: str) -> Any:
    lab, ref = filled
    now = lab.clock.now()
    ranges = {"metrics": f"?start={now // 1000}&end={now // 1000 + 60}&step=1"}
    ranges["trainingPerformance"] = f"?start={now}&end={now}"
    found = lab.get(path.replace(":uid", ref) + ranges.get(path.rpartition("/")[2], ""))
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
def test_an_answer_has_the_shape_of_its_example(filled: tuple[LensLab, str], path: str) -> None:
    expected, found = EXAMPLES[path], answer(filled, path)
    if path in ("/api/workloads", "/api/workloads/:uid"):  # the example's model is the one that is here
        assert list(_models(found)) == list(_models(expected)) == ["AMD_Instinct_MI300X_OAM"]
    assert shape(found) == shape(expected)
    assert list(found) == list(expected)
    assert list(_first(found["data"])) == list(_first(expected["data"]))


def test_training_performance_has_the_shape_of_its_example_and_a_trace_id(filled: tuple[LensLab, str]) -> None:
    expected = EXAMPLES["/api/workloads/:uid/trainingPerformance"]
    found = answer(filled, "/api/workloads/:uid/trainingPerformance")
    assert shape(found) == shape(expected) | {"traceId": "str"}


def test_the_hierarchy_has_the_shape_of_its_example_at_every_level(filled: tuple[LensLab, str]) -> None:
    def check(node: Any) -> None:
        assert list(node) == ["kind", "name", "namespace", "uid", "children"]
        assert all(isinstance(node[name], str) for name in ("kind", "name", "namespace", "uid"))
        for child in node["children"]:
            check(child)

    check(EXAMPLES["/api/workloads/:uid/hierarchy"]["data"])
    found = answer(filled, "/api/workloads/:uid/hierarchy")["data"]
    check(found)
    assert [child["kind"] for child in found["children"]] == ["Pod", "Pod"]


def test_the_frames_of_the_heatmap_are_those_of_the_example(filled: tuple[LensLab, str]) -> None:
    expected, found = EXAMPLES["/api/clusters/gpuHeatmap"]["data"], answer(filled, "/api/clusters/gpuHeatmap")["data"]
    for name in ("power", "temperature", "utilization"):
        frame = {key: value for key, value in expected[name].items() if key != "data"}
        assert {key: found[name][key] for key in frame} == frame


def _first(data: Any) -> Any:
    rows = data.get("data", data)
    return rows[0] if isinstance(rows, list) else data


def _models(body: Any) -> Any:
    return _first(body["data"])["gpuAllocation"]
