"""Metrics and training performance: which points there are, what they are called, and what is refused."""

from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.lab import V1
from tests.contract.lens.lab import LensLab

from stoker.domain.live import SourceState
from stoker.domain.points import Points
from stoker.domain.readings import Metric
from stoker.domain.series import Point, Range
from stoker.domain.training import Measured
from stoker.services import measurements
from stoker.services.measurements import on_grid

GRAPHS = ("GPU Utilization", "GPU Memory Utilization", "GPU Power", "TrainingPerformance")
UNITS = ("%", "%", "W", "TFLOPS")


def _said(utilization: float, watts: float = 100.0) -> dict[Metric, float]:
    return {Metric.UTILIZATION: utilization, Metric.MEMORY_USED: 50.0 * 2**30, Metric.POWER: watts}


def _metrics(lab: LensLab, ref: str, start: int, end: int, step: int = 60, **query: Any) -> Any:
    return lab.data(f"/api/workloads/{ref}/metrics", start=start, end=end, step=step, **query)


def _running(lab: LensLab, *placed: dict[str, Any]) -> tuple[str, int]:
    """A workload on these GPUs, and the second in which it began."""
    lab.clock.advance(seconds=-(lab.clock.now() // 1000 % 60))
    ref = lab.submit(gpu="2", replica=len(placed))
    lab.start(ref, *placed)
    return ref, lab.clock.now() // 1000


def test_a_point_is_the_mean_of_the_step_before_it(any_lab: LensLab) -> None:
    ref, begin = _running(any_lab, {"node-001": [0, 1]})
    for second, value in ((15, 0.2), (30, 0.4), (60, 0.6), (61, 1.0), (180, 0.1)):
        any_lab.sample((begin + second) * 1000, {"node-001": [_said(value, 650.5), _said(value / 2)]})
    graphs = _metrics(any_lab, ref, begin, begin + 240)
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


def test_nobody_sees_what_a_gpu_did_for_another(any_lab: LensLab) -> None:
    any_lab.sample(any_lab.clock.now() // 60_000 * 60_000 - 15_000, {"node-001": [_said(0.9), _said(0.9)]})
    ref, begin = _running(any_lab, {"node-001": [0, 1]})
    any_lab.sample((begin + 30) * 1000, {"node-001": [_said(0.3), _said(0.3)]})
    any_lab.end(ref, seconds=45)
    any_lab.sample((begin + 50) * 1000, {"node-001": [_said(0.8), _said(0.8)]})
    for line in _metrics(any_lab, ref, begin - 120, begin + 120, 10)["GPU Utilization"]["series"]:
        assert line["points"] == [[0.3, (begin + 30) * 1000]]


def test_over_several_nodes_a_gpu_is_named_with_its_node(lab: LensLab) -> None:
    ref, begin = _running(lab, {"node-001": [0, 1]}, {"node-002": [0, 1]})
    lab.sample((begin + 15) * 1000, {"node-001": [_said(0.1)] * 2, "node-002": [_said(0.2)] * 2})
    names = [line["name"] for line in _metrics(lab, ref, begin, begin + 60)["GPU Power"]["series"]]
    assert names == ["node-001/GPU-0", "node-001/GPU-1", "node-002/GPU-0", "node-002/GPU-1"]


def test_all_four_graphs_are_there_when_there_is_nothing(lab: LensLab) -> None:
    graphs = _metrics(lab, lab.submit(), 1, 2)
    assert {name: graphs[name]["series"] for name in graphs} == {name: [] for name in GRAPHS}


def test_tflops_come_from_the_training_code(any_lab: LensLab) -> None:
    ref, begin = _running(any_lab, {"node-001": [0, 1]})
    said = [
        Measured((begin + at) * 1000, at, {"tflops": value, "loss": 1.0})
        for at, value in ((10, 400), (60, 500), (61, 9))
    ]
    any_lab.train(ref, *said)
    graph = _metrics(any_lab, ref, begin, begin + 120)["TrainingPerformance"]
    points = [[450.0, (begin + 60) * 1000], [9.0, (begin + 120) * 1000]]
    assert graph["series"] == [{"name": "TFLOPS", "points": points}]


def test_a_large_answer_is_streamed_and_is_the_same(lab: LensLab, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, begin = _running(lab, {"node-001": [0, 1]}, {"node-002": [0, 1]})
    for second in range(0, 120, 15):
        lab.sample((begin + second) * 1000, {"node-001": [_said(0.1)] * 2, "node-002": [_said(0.2)] * 2})
    lab.train(ref, *(Measured((begin + at) * 1000, at, {"tflops": 400.0}) for at in range(100)))
    whole = _metrics(lab, ref, begin, begin + 120, 15)
    assert len(whole["GPU Power"]["series"]) == 4
    monkeypatch.setattr(measurements, "AT_ONCE", 20)
    answer = lab.get(f"/api/workloads/{ref}/metrics?start={begin}&end={begin + 120}&step=15")
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
def test_a_bad_range_is_refused_by_name(lab: LensLab, query: str, field: str) -> None:
    answer = lab.get(f"/api/workloads/{lab.submit()}/metrics?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert answer.json()["message"].startswith(f"{field}: ")


def test_eleven_thousand_points_are_the_most(lab: LensLab) -> None:
    ref = lab.submit()
    assert lab.get(f"/api/workloads/{ref}/metrics?start=0&end=10999&step=1").status_code == 200
    refused = lab.get(f"/api/workloads/{ref}/metrics?start=0&end=2000000&step=60").json()["message"]
    assert refused == (
        "step: a series of this range would have 33334 points, and 11000 are the most. "
        "Use a step of at least 182, or a shorter range."
    )
    assert lab.get(f"/api/workloads/{ref}/metrics?start=0&end=2000000&step=182").status_code == 200
    assert lab.get(f"/api/workloads/{ref}/metrics?start=0&end=2000000&step=181").status_code == 400


def test_metrics_of_a_cluster_that_is_not_read_any_more_are_marked(lab: LensLab) -> None:
    source = SourceState("nvml", lab.clock.now() - 61_000, stale=True)
    lab.publish(overview=lab.overview(source=source))
    answer = lab.get(f"/api/workloads/{lab.submit()}/metrics?start=1&end=2")
    assert answer.headers["X-Stoker-Stale"] == "61"


def test_training_performance_is_by_metric_then_time(any_lab: LensLab) -> None:
    ref, begin = _running(any_lab, {"node-001": [0, 1]})
    at = begin * 1000
    any_lab.train(ref, *(Measured(at + n, n, {"loss": 3.0 - n, "accuracy": n / 2, "tps": 7.0}) for n in range(3)))
    data = any_lab.data(f"/api/workloads/{ref}/trainingPerformance", start=at, end=at + 1)
    assert data == [
        {"metric": "accuracy", "value": 0.0, "timestamp": at},
        {"metric": "accuracy", "value": 0.5, "timestamp": at + 1},
        {"metric": "loss", "value": 3.0, "timestamp": at},
        {"metric": "loss", "value": 2.0, "timestamp": at + 1},
        {"metric": "tps", "value": 7.0, "timestamp": at},
        {"metric": "tps", "value": 7.0, "timestamp": at + 1},
    ]
    assert len(any_lab.data(f"/api/workloads/{ref}/trainingPerformance", start=at + 2, end=at + 2)) == 3
    assert any_lab.data(f"/api/workloads/{ref}/trainingPerformance", start=0, end=1) == []


def test_a_long_training_is_streamed_whole(lab: LensLab) -> None:
    ref, begin = _running(lab, {"node-001": [0, 1]})
    lab.train(ref, *(Measured(begin * 1000 + n, n, {"loss": float(n)}) for n in range(12_345)))
    answer = lab.get(f"/api/workloads/{ref}/trainingPerformance?start=0&end={2**53}")
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
def test_a_bad_range_of_training_is_refused_by_name(lab: LensLab, query: str, field: str) -> None:
    answer = lab.get(f"/api/workloads/{lab.submit()}/trainingPerformance?{query}")
    assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (400, field)


@given(
    points=st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(-200, 1200))),
    start=st.integers(0, 100),
    length=st.integers(1, 1000),
    step=st.integers(1, 300),
)
def test_the_grid_is_the_mean_of_every_step(points: list[Point], start: int, length: int, step: int) -> None:
    span = Range(start, start + length, step)
    expected = []
    for at in range(start, start + length + 1, step):
        inside = [value for value, moment in points if at - step < moment <= at]
        if inside:
            expected.append((pytest.approx(sum(inside) / len(inside), abs=1e-6), at))
    values, ats = (list(column) for column in zip(*points, strict=True)) if points else ([], [])
    none = np.zeros(len(points), np.int64)
    assert on_grid(Points(("tflops",), none, np.array(ats, np.int64), none, np.array(values)), span) == expected


def test_members_read_the_metrics_of_their_workloads_natively(any_lab: LensLab) -> None:
    ref, begin = _running(any_lab, {"node-001": [0, 1]})
    any_lab.sample((begin + 30) * 1000, {"node-001": [{**_said(0.5), Metric.TEMPERATURE: 70.0}, _said(0.25)]})
    any_lab.clock.advance(seconds=60)
    answer = any_lab.get(f"{V1}/workloads/{ref}/metrics", as_="viewer")
    assert answer.status_code == 200, answer.text
    any_lab.contract.check("GET", f"{V1}/workloads/{ref}/metrics", answer)
    shown = answer.json()
    assert (shown["workloadId"], shown["stepSeconds"]) == (ref, 30)
    assert shown["utilization"] == [
        {"node": "node-001", "device": 0, "points": [[0.5, (begin + 30) * 1000]]},
        {"node": "node-001", "device": 1, "points": [[0.25, (begin + 30) * 1000]]},
    ]
    assert [line["points"][0][0] for line in shown["temperature"]] == [70.0]
    assert any_lab.get(f"{V1}/workloads/{ref}/metrics", as_="outsider").status_code == 404


@pytest.mark.parametrize(
    "query", ["start=yesterday", "end=x", "step=0", "start=2026-01-15T10:30:00Z&end=2026-01-15T10:30:00Z"]
)
def test_a_bad_native_range_is_refused(lab: LensLab, query: str) -> None:
    answer = lab.get(f"{V1}/workloads/{lab.submit()}/metrics?{query}", as_="admin")
    assert answer.status_code == 400


def test_a_workload_of_many_gpus_gets_a_step_that_fits(lab: LensLab, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, _ = _running(lab, {"node-001": range(8)})
    monkeypatch.setattr(measurements, "AT_ONCE", 1000)
    monkeypatch.setattr("stoker.api.native.measurements.AT_ONCE", 1000)
    assert lab.get(f"{V1}/workloads/{ref}/metrics", as_="admin").json()["stepSeconds"] == 120
    monkeypatch.setattr("stoker.api.native.measurements.MOST_VALUES", 1000)
    answer: httpx.Response = lab.get(f"{V1}/workloads/{ref}/metrics?step=30", as_="admin")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "step")
