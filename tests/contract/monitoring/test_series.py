"""Metrics and training performance: which points there are, what they are called, and what is refused."""

from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.harness import V1
from tests.contract.monitoring.harness import MonitoringHarness

from stoker.domain.cluster.live_view import CollectorStatus
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.points import TrainingPoints
from stoker.domain.metrics.series import SeriesPoint, TimeRange
from stoker.domain.metrics.training import TrainingSample
from stoker.services.metrics import gpu_series
from stoker.services.metrics.gpu_series import average_on_grid

GRAPHS = ("GPU Utilization", "GPU Memory Utilization", "GPU Power", "TrainingPerformance")
UNITS = ("%", "%", "W", "TFLOPS")


def _said(utilization: float, watts: float = 100.0) -> dict[GpuMetric, float]:
    return {GpuMetric.UTILIZATION: utilization, GpuMetric.MEMORY_USED: 50.0 * 2**30, GpuMetric.POWER: watts}


def _metrics(harness: MonitoringHarness, ref: str, start: int, end: int, step: int = 60, **query: Any) -> Any:
    return harness.data(f"/api/workloads/{ref}/metrics", start=start, end=end, step=step, **query)


def _running(harness: MonitoringHarness, *placed: dict[str, Any]) -> tuple[str, int]:
    """A workload on these GPUs, and the second in which it began."""
    harness.clock.advance(seconds=-(harness.clock.now() // 1000 % 60))
    ref = harness.submit(gpu="2", replica=len(placed))
    harness.start(ref, *placed)
    return ref, harness.clock.now() // 1000


def test_a_point_is_the_mean_of_the_step_before_it(any_harness: MonitoringHarness) -> None:
    ref, begin = _running(any_harness, {"node-001": [0, 1]})
    for second, value in ((15, 0.2), (30, 0.4), (60, 0.6), (61, 1.0), (180, 0.1)):
        any_harness.sample((begin + second) * 1000, {"node-001": [_said(value, 650.5), _said(value / 2)]})
    graphs = _metrics(any_harness, ref, begin, begin + 240)
    assert tuple(graphs) == GRAPHS
    assert [graphs[name]["serial"] for name in GRAPHS] == [1, 2, 3, 4]
    assert tuple(graphs[name]["config"]["yAxisUnit"] for name in GRAPHS) == UNITS
    first, second = graphs["GPU Utilization"]["series"]
    minutes = [(begin + 60) * 1000, (begin + 120) * 1000, (begin + 180) * 1000]
    assert first == {"name": "GPU-0", "points": [[0.4, minutes[0]], [1.0, minutes[1]], [0.1, minutes[2]]]}
    assert second == {"name": "GPU-1", "points": [[0.2, minutes[0]], [0.5, minutes[1]], [0.05, minutes[2]]]}
    assert graphs["GPU Memory Utilization"]["series"][0]["points"] == [[0.5, at] for at in minutes]
    assert graphs["GPU Power"]["series"][0]["points"] == [[650.5, at] for at in minutes]
    assert graphs["TrainingPerformance"]["series"] == []


def test_nobody_sees_what_a_gpu_did_for_another(any_harness: MonitoringHarness) -> None:
    any_harness.sample(any_harness.clock.now() // 60_000 * 60_000 - 15_000, {"node-001": [_said(0.9), _said(0.9)]})
    ref, begin = _running(any_harness, {"node-001": [0, 1]})
    any_harness.sample((begin + 30) * 1000, {"node-001": [_said(0.3), _said(0.3)]})
    any_harness.end(ref, seconds=45)
    any_harness.sample((begin + 50) * 1000, {"node-001": [_said(0.8), _said(0.8)]})
    for line in _metrics(any_harness, ref, begin - 120, begin + 120, 10)["GPU Utilization"]["series"]:
        assert line["points"] == [[0.3, (begin + 30) * 1000]]


def test_the_lines_of_several_nodes_are_in_natural_order(any_harness: MonitoringHarness) -> None:
    ref, begin = _running(any_harness, {"node-10": [0]}, {"node-2": [0]}, {"node-1": [0]})
    any_harness.sample((begin + 15) * 1000, {name: [_said(0.1)] for name in ("node-10", "node-2", "node-1")})
    names = [line["name"] for line in _metrics(any_harness, ref, begin, begin + 60)["GPU Power"]["series"]]
    assert names == ["node-1/GPU-0", "node-2/GPU-0", "node-10/GPU-0"]


def test_over_several_nodes_a_gpu_is_named_with_its_node(harness: MonitoringHarness) -> None:
    ref, begin = _running(harness, {"node-001": [0, 1]}, {"node-002": [0, 1]})
    harness.sample((begin + 15) * 1000, {"node-001": [_said(0.1)] * 2, "node-002": [_said(0.2)] * 2})
    names = [line["name"] for line in _metrics(harness, ref, begin, begin + 60)["GPU Power"]["series"]]
    assert names == ["node-001/GPU-0", "node-001/GPU-1", "node-002/GPU-0", "node-002/GPU-1"]


def test_all_four_graphs_are_there_when_there_is_nothing(harness: MonitoringHarness) -> None:
    graphs = _metrics(harness, harness.submit(), 1, 2)
    assert {name: graphs[name]["series"] for name in graphs} == {name: [] for name in GRAPHS}


def test_tflops_come_from_the_training_code(any_harness: MonitoringHarness) -> None:
    ref, begin = _running(any_harness, {"node-001": [0, 1]})
    said = [
        TrainingSample((begin + at) * 1000, at, {"tflops": value, "loss": 1.0})
        for at, value in ((10, 400), (60, 500), (61, 9))
    ]
    any_harness.train(ref, *said)
    graph = _metrics(any_harness, ref, begin, begin + 120)["TrainingPerformance"]
    points = [[450.0, (begin + 60) * 1000], [9.0, (begin + 120) * 1000]]
    assert graph["series"] == [{"name": "TFLOPS", "points": points}]


def test_a_large_answer_is_streamed_and_is_the_same(
    harness: MonitoringHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, begin = _running(harness, {"node-001": [0, 1]}, {"node-002": [0, 1]})
    for second in range(0, 120, 15):
        harness.sample((begin + second) * 1000, {"node-001": [_said(0.1)] * 2, "node-002": [_said(0.2)] * 2})
    harness.train(ref, *(TrainingSample((begin + at) * 1000, at, {"tflops": 400.0}) for at in range(100)))
    whole = _metrics(harness, ref, begin, begin + 120, 15)
    assert len(whole["GPU Power"]["series"]) == 4
    monkeypatch.setattr(gpu_series, "MAX_POINTS_IN_MEMORY", 20)
    answer = harness.get(f"/api/workloads/{ref}/metrics?start={begin}&end={begin + 120}&step=15")
    assert "Content-Length" not in answer.headers
    assert answer.json()["data"] == whole


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("end=2", "start"),
        ("start=1", "end"),
        ("start=x&end=2", "start"),
        ("start=1&end=2.5", "end"),
        ("start=-1&end=2", "start"),
        ("start=2&end=2", "end"),
        ("start=3&end=2", "end"),
        ("start=1&end=2&step=0", "step"),
        ("start=1&end=2&step=-60", "step"),
        ("start=1&end=2&step=x", "step"),
        ("start=0&end=11000&step=1", "step"),
        (f"start=0&end={2**44}", "end"),
    ],
)
def test_a_bad_range_is_refused_by_name(harness: MonitoringHarness, query: str, field: str) -> None:
    answer = harness.get(f"/api/workloads/{harness.submit()}/metrics?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert answer.json()["message"].startswith(f"{field}: ")


def test_eleven_thousand_points_are_the_most(harness: MonitoringHarness) -> None:
    ref = harness.submit()
    assert harness.get(f"/api/workloads/{ref}/metrics?start=0&end=10999&step=1").status_code == 200
    refused = harness.get(f"/api/workloads/{ref}/metrics?start=0&end=2000000&step=60").json()["message"]
    assert refused == (
        "step: a series of this range would have 33334 points, and at most 11000 are possible. "
        "Use a step of at least 182, or a shorter range."
    )
    assert harness.get(f"/api/workloads/{ref}/metrics?start=0&end=2000000&step=182").status_code == 200
    assert harness.get(f"/api/workloads/{ref}/metrics?start=0&end=2000000&step=181").status_code == 400


def test_metrics_of_a_cluster_that_is_not_read_any_more_are_marked(harness: MonitoringHarness) -> None:
    source = CollectorStatus("nvml", harness.clock.now() - 61_000, stale=True)
    harness.publish(overview=harness.overview(source=source))
    answer = harness.get(f"/api/workloads/{harness.submit()}/metrics?start=1&end=2")
    assert answer.headers["X-Stoker-Stale"] == "61"


def test_training_performance_is_by_metric_then_time(any_harness: MonitoringHarness) -> None:
    ref, begin = _running(any_harness, {"node-001": [0, 1]})
    at = begin * 1000
    any_harness.train(
        ref, *(TrainingSample(at + n, n, {"loss": 3.0 - n, "accuracy": n / 2, "tps": 7.0}) for n in range(3))
    )
    data = any_harness.data(f"/api/workloads/{ref}/trainingPerformance", start=at, end=at + 1)
    assert data == [
        {"metric": "accuracy", "value": 0.0, "timestamp": at},
        {"metric": "accuracy", "value": 0.5, "timestamp": at + 1},
        {"metric": "loss", "value": 3.0, "timestamp": at},
        {"metric": "loss", "value": 2.0, "timestamp": at + 1},
        {"metric": "tps", "value": 7.0, "timestamp": at},
        {"metric": "tps", "value": 7.0, "timestamp": at + 1},
    ]
    assert len(any_harness.data(f"/api/workloads/{ref}/trainingPerformance", start=at + 2, end=at + 2)) == 3
    assert any_harness.data(f"/api/workloads/{ref}/trainingPerformance", start=0, end=1) == []


def test_a_long_training_is_streamed_whole(harness: MonitoringHarness) -> None:
    ref, begin = _running(harness, {"node-001": [0, 1]})
    harness.train(ref, *(TrainingSample(begin * 1000 + n, n, {"loss": float(n)}) for n in range(12_345)))
    answer = harness.get(f"/api/workloads/{ref}/trainingPerformance?start=0&end={2**53}")
    assert "Content-Length" not in answer.headers
    assert [row["value"] for row in answer.json()["data"]] == [float(n) for n in range(12_345)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("end=2", "start"),
        ("start=1", "end"),
        ("start=x&end=2", "start"),
        ("start=1&end=y", "end"),
        ("start=3&end=2", "end"),
    ],
)
def test_a_bad_range_of_training_is_refused_by_name(harness: MonitoringHarness, query: str, field: str) -> None:
    answer = harness.get(f"/api/workloads/{harness.submit()}/trainingPerformance?{query}")
    assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, field)


@given(
    points=st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(-200, 1200))),
    start=st.integers(0, 100),
    length=st.integers(1, 1000),
    step=st.integers(1, 300),
)
def test_the_grid_is_the_mean_of_every_step(points: list[SeriesPoint], start: int, length: int, step: int) -> None:
    span = TimeRange(start, start + length, step)
    expected = []
    for at in range(start, start + length + 1, step):
        inside = [value for value, moment in points if at - step < moment <= at]
        if inside:
            expected.append((pytest.approx(sum(inside) / len(inside), abs=1e-6), at))
    values, ats = (list(column) for column in zip(*points, strict=True)) if points else ([], [])
    none = np.zeros(len(points), np.int64)
    assert (
        average_on_grid(TrainingPoints(("tflops",), none, np.array(ats, np.int64), none, np.array(values)), span)
        == expected
    )


def test_members_read_the_metrics_of_their_workloads_natively(any_harness: MonitoringHarness) -> None:
    ref, begin = _running(any_harness, {"node-001": [0, 1]})
    any_harness.sample((begin + 30) * 1000, {"node-001": [{**_said(0.5), GpuMetric.TEMPERATURE: 70.0}, _said(0.25)]})
    any_harness.clock.advance(seconds=60)
    answer = any_harness.get(f"{V1}/workloads/{ref}/metrics", as_="viewer")
    assert answer.status_code == 200, answer.text
    any_harness.contract.check("GET", f"{V1}/workloads/{ref}/metrics", answer)
    shown = answer.json()
    assert (shown["workloadId"], shown["stepSeconds"]) == (ref, 30)
    assert shown["utilization"] == [
        {"node": "node-001", "device": 0, "points": [[0.5, (begin + 30) * 1000]], "uuid": ""},
        {"node": "node-001", "device": 1, "points": [[0.25, (begin + 30) * 1000]], "uuid": ""},
    ]
    assert [line["points"][0][0] for line in shown["temperature"]] == [70.0]
    assert any_harness.get(f"{V1}/workloads/{ref}/metrics", as_="outsider").status_code == 404


@pytest.mark.parametrize(
    "query", ["start=yesterday", "end=x", "step=0", "start=2026-01-15T10:30:00Z&end=2026-01-15T10:30:00Z"]
)
def test_a_bad_native_range_is_refused(harness: MonitoringHarness, query: str) -> None:
    answer = harness.get(f"{V1}/workloads/{harness.submit()}/metrics?{query}", as_="admin")
    assert answer.status_code == 400


def test_a_workload_of_many_gpus_gets_a_step_that_fits(
    harness: MonitoringHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, _ = _running(harness, {"node-001": range(8)})
    monkeypatch.setattr(gpu_series, "MAX_POINTS_IN_MEMORY", 1000)
    monkeypatch.setattr("stoker.services.metrics.series_step.MAX_POINTS_IN_MEMORY", 1000)
    assert harness.get(f"{V1}/workloads/{ref}/metrics", as_="admin").json()["stepSeconds"] == 120
    monkeypatch.setattr("stoker.services.metrics.series_step.MAX_VALUES", 1000)
    answer: httpx.Response = harness.get(f"{V1}/workloads/{ref}/metrics?step=30", as_="admin")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "step")
