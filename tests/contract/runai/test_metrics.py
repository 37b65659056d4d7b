"""Metrics of a workload: samples over a range, from readings and from what was written when it changed."""

from typing import Any, get_args
from unittest import mock

import pytest
from tests.contract.management.harness import big_node
from tests.contract.runai.harness import WORKLOADS, RunaiHarness

from stoker.api.compat.runai.metrics.endpoints import MetricType, PodMetricType
from stoker.api.compat.runai.metrics.metric_mapping import HISTOGRAM_BY_TYPE
from stoker.domain.clock import format_rfc3339
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import ErrorCode, StokerError
from stoker.telemetry.query.local import LocalBackend

MINUTE = 60_000


def metrics(harness: RunaiHarness, ref: str, kinds: str, start: int, end: int, **query: Any) -> dict[str, Any]:
    asked = {"metricType": kinds, "start": format_rfc3339(start), "end": format_rfc3339(end), **query}
    return harness.runai(f"/{harness.uid(ref)}/metrics", **asked)


def values(answer: dict[str, Any], kind: str) -> list[str]:
    [found] = [each for each in answer["measurements"] if each["type"] == kind]
    return [each["value"] for each in found["values"]]


def test_every_type_is_answered_and_what_does_not_apply_is_empty(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit(gpu="1")
    any_harness.start(ref, {"node-001": [0]})
    now = any_harness.clock.now()
    kinds = get_args(MetricType)
    answer = metrics(any_harness, ref, ",".join(kinds), now - MINUTE, now)
    assert [each["type"] for each in answer["measurements"]] == [
        kind for kind in kinds if kind not in HISTOGRAM_BY_TYPE
    ]
    assert answer["histogram"] == [{"type": kind, "values": []} for kind in kinds if kind in HISTOGRAM_BY_TYPE]
    assert values(answer, "NVLINK_BANDWIDTH_TOTAL") == values(answer, "NIM_NUM_REQUESTS_RUNNING") == []
    assert "errors" not in answer


def test_what_gpus_showed_is_averaged_and_what_they_held_is_added_up(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit(gpu="2")
    any_harness.add_nodes(Node("node-001", 1, 1, tuple(Device(number, "", "m", 100 * 2**30) for number in range(2))))
    any_harness.start(ref, {"node-001": [0, 1]})
    begun = any_harness.clock.now()
    any_harness.clock.advance(seconds=120)
    for minute, used in ((1, 0.5), (2, 0.9)):
        gpus = [{GpuMetric.UTILIZATION: used, GpuMetric.MEMORY_USED: 25 * 2**30}, {GpuMetric.UTILIZATION: 0.1}]
        any_harness.sample(begun + minute * MINUTE, {"node-001": gpus})
    answer = metrics(
        any_harness,
        ref,
        "GPU_UTILIZATION,GPU_MEMORY_USAGE_BYTES,GPU_ALLOCATION",
        begun,
        begun + 2 * MINUTE,
        numberOfSamples=2,
    )
    assert values(answer, "GPU_UTILIZATION") == ["30", "50"]
    assert values(answer, "GPU_MEMORY_USAGE_BYTES") == [str(25 * 2**30)] * 2
    assert values(answer, "GPU_ALLOCATION") == ["2", "2"]
    [found] = [each for each in answer["measurements"] if each["type"] == "GPU_UTILIZATION"]
    assert [each["timestamp"] for each in found["values"]] == [
        format_rfc3339(begun + MINUTE),
        format_rfc3339(begun + 2 * MINUTE),
    ]


def test_no_sample_lies_outside_of_a_range_that_is_shorter_than_its_samples(harness: RunaiHarness) -> None:
    ref = harness.submit()
    harness.clock.advance(seconds=60)
    end = harness.clock.now() - 1000
    answer = metrics(harness, ref, "POD_COUNT", end - 5, end, numberOfSamples=20)
    [found] = answer["measurements"]
    assert [each["timestamp"] for each in found["values"]] == [
        format_rfc3339(end - before) for before in (4, 3, 2, 1, 0)
    ]


def test_bytes_are_whole(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit(gpu="1")
    any_harness.add_nodes(Node("node-001", 1, 1, (Device(0, "", "m", 100 * 2**30),)))
    any_harness.start(ref, {"node-001": [0]})
    begun = any_harness.clock.now()
    any_harness.clock.advance(seconds=120)
    for second, used in ((30, 61 * 10**9), (60, 59 * 10**9 + 1)):
        any_harness.sample(begun + second * 1000, {"node-001": [{GpuMetric.MEMORY_USED: used}]})
    answer = metrics(any_harness, ref, "GPU_MEMORY_USAGE_BYTES", begun, begun + MINUTE, numberOfSamples=1)
    [value] = values(answer, "GPU_MEMORY_USAGE_BYTES")
    assert abs(int(value) - 60 * 10**9) < 10**8


def test_counts_and_requests_follow_the_pods(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit(gpu="1", replica=2)
    submitted = any_harness.clock.now()
    any_harness.start(ref, {"node-001": [0]}, {"node-002": [0]}, seconds=30)
    any_harness.end(ref, seconds=60)
    any_harness.clock.advance(seconds=30)
    kinds = "POD_COUNT,RUNNING_POD_COUNT,CPU_REQUEST_CORES,CPU_MEMORY_LIMIT_BYTES,GPU_ALLOCATION"
    answer = metrics(any_harness, ref, kinds, submitted - MINUTE, submitted + 3 * MINUTE, numberOfSamples=12)
    assert values(answer, "POD_COUNT") == ["0", "0", "2", "2", "2", "0", "0"]
    assert values(answer, "RUNNING_POD_COUNT") == ["0", "0", "2", "2", "2", "0", "0"]
    assert values(answer, "CPU_REQUEST_CORES") == ["0", "0", "0.2", "0.2", "0.2", "0", "0"]
    assert values(answer, "CPU_MEMORY_LIMIT_BYTES")[2] == str(2 * 2**20)
    assert values(answer, "GPU_ALLOCATION") == ["0", "0", "2", "2", "2", "0", "0"]


def test_what_pods_take_of_their_nodes_is_added_up(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit(replica=2)
    any_harness.start(ref, {"node-001": []}, {"node-002": []})
    begun = any_harness.clock.now()
    any_harness.clock.advance(seconds=120)
    first, second = any_harness.pods(ref)
    for second_of, milli in ((15, 500), (30, 1500), (90, 250)):
        any_harness.measure(first.uid, begun + second_of * 1000, cpu_milli=milli, memory_bytes=2**30)
    any_harness.measure(second.uid, begun + 20_000, cpu_milli=2000, memory_bytes=2**20)
    kinds = "CPU_USAGE_CORES,CPU_MEMORY_USAGE_BYTES"
    answer = metrics(any_harness, ref, kinds, begun, begun + 2 * MINUTE, numberOfSamples=2)
    assert values(answer, "CPU_USAGE_CORES") == ["3", "0.25"]
    assert values(answer, "CPU_MEMORY_USAGE_BYTES") == [str(2**30 + 2**20), str(2**30)]


def test_a_range_of_too_many_hours_of_pods_is_refused_with_the_number(harness: RunaiHarness) -> None:
    ref = harness.submit(replica=2)
    harness.start(ref, {"node-001": []}, {"node-002": []})
    begun = harness.clock.now()
    harness.clock.advance(seconds=10 * 3600)
    with mock.patch("stoker.services.metrics.workload_metrics.MAX_POD_HOURS", 20):
        asked = {"start": format_rfc3339(begun), "end": format_rfc3339(begun + 10 * 3_600_000)}
        path = f"/{harness.uid(ref)}/metrics"
        assert harness.refused(path, metricType="CPU_USAGE_CORES", **asked).startswith("start: its pods ran 22 hours")
        assert harness.runai(path, metricType="POD_COUNT", **asked)["measurements"]


def test_no_samples_are_no_values_and_types_may_be_repeated(harness: RunaiHarness) -> None:
    ref = harness.submit()
    now = harness.clock.now()
    assert values(metrics(harness, ref, "POD_COUNT", now - MINUTE, now, numberOfSamples=0), "POD_COUNT") == []
    path = f"{WORKLOADS}/{harness.uid(ref)}/metrics?metricType=POD_COUNT&metricType=GPU_ALLOCATION"
    naive = format_rfc3339(now).removesuffix("Z")
    answer = harness.get(f"{path}&start={naive.replace('T', '%20')}&end=2999-01-01T00:00:00+00:00", as_="admin").json()
    assert [each["type"] for each in answer["measurements"]] == ["POD_COUNT", "GPU_ALLOCATION"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"metricType": None}, "metricType"),
        ({"metricType": "ALLOCATED_GPU"}, "metricType"),
        ({"metricType": "POD_COUNT,ALLOCATION_RATIO"}, "metricType"),
        ({"start": None}, "start"),
        ({"end": None}, "end"),
        ({"start": "soon"}, "start"),
        ({"end": "2026-01-01T00:00:00Z"}, "end"),
        ({"end": "2025-12-31T00:00:00Z"}, "end"),
        ({"numberOfSamples": 1001}, "numberOfSamples"),
        ({"numberOfSamples": -1}, "numberOfSamples"),
    ],
)
def test_a_bad_parameter_is_refused_by_its_name(harness: RunaiHarness, query: dict[str, Any], field: str) -> None:
    uid = harness.uid(harness.submit())
    good = {"metricType": "POD_COUNT", "start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    asked = {name: value for name, value in {**good, **query}.items() if value is not None}
    assert harness.refused(f"/{uid}/metrics", **asked).startswith(f"{field}: ")


def test_a_pod_has_a_line_for_each_of_its_gpus_and_of_no_other(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit(gpu="2", replica=2)
    any_harness.add_nodes(Node("node-001", 1, 1, tuple(Device(number, "", "m", 100 * 2**30) for number in range(4))))
    any_harness.start(ref, {"node-001": [0, 1]}, {"node-001": [2, 3]})
    begun = any_harness.clock.now()
    any_harness.clock.advance(seconds=60)
    shown = [{GpuMetric.UTILIZATION: number / 10, GpuMetric.MEMORY_USED: number * 2**30} for number in range(4)]
    any_harness.sample(begun + MINUTE, {"node-001": shown})
    pod = any_harness.pods(ref)[1]
    any_harness.measure(pod.uid, begun + MINUTE, cpu_milli=250)
    kinds = get_args(PodMetricType)
    asked = {"metricType": ",".join(kinds), "start": format_rfc3339(begun), "end": format_rfc3339(begun + MINUTE)}
    path = f"/{any_harness.uid(ref)}/pods/{pod.uid}/metrics"
    answer = any_harness.runai(path, numberOfSamples=1, **asked)
    at = format_rfc3339(begun + MINUTE)
    full = [each for each in answer["measurements"] if each["values"]]
    assert full == [
        {"type": "GPU_UTILIZATION_PER_GPU", "values": [{"value": "20", "timestamp": at}], "labels": {"gpu": "2"}},
        {"type": "GPU_UTILIZATION_PER_GPU", "values": [{"value": "30", "timestamp": at}], "labels": {"gpu": "3"}},
        {"type": "GPU_UTILIZATION", "values": [{"value": "25", "timestamp": at}]},
        *(
            {
                "type": "GPU_MEMORY_USAGE_BYTES_PER_GPU",
                "values": [{"value": str(number * 2**30), "timestamp": at}],
                "labels": {"gpu": str(number)},
            }
            for number in (2, 3)
        ),
        {"type": "GPU_MEMORY_USAGE_BYTES", "values": [{"value": str(5 * 2**30), "timestamp": at}]},
        {"type": "CPU_USAGE_CORES", "values": [{"value": "0.25", "timestamp": at}]},
    ]
    assert {each["type"] for each in answer["measurements"]} | {each["type"] for each in answer["histogram"]} == set(
        kinds
    )
    text = any_harness.get(
        f"{WORKLOADS}{path}?start={format_rfc3339(begun)}&end={at}&numberOfSamples=1&metricType=GPU_UTILIZATION_PER_GPU",
        as_="viewer",
        headers={"Accept": "text/csv"},
    ).text
    assert text.splitlines()[1:] == [
        f"GPU_UTILIZATION_PER_GPU,{at},20,2",
        f"GPU_UTILIZATION_PER_GPU,{at},30,3",
    ]


def test_metrics_of_pods_are_for_those_who_see_the_workload_it_belongs_to(harness: RunaiHarness) -> None:
    ref, other = harness.submit(gpu="1"), harness.submit()
    harness.start(ref, {"node-001": [0]})
    [pod] = harness.pods(ref)
    now = harness.clock.now()
    harness.clock.advance(seconds=60)
    query = f"start={format_rfc3339(now)}&end={format_rfc3339(now + MINUTE)}"
    path = f"{WORKLOADS}/{harness.uid(ref)}/pods/{pod.uid}/metrics?{query}&metricType=GPU_UTILIZATION"
    assert harness.get(path, as_="outsider").status_code == 404
    assert harness.get(path.replace(harness.uid(ref), harness.uid(other)), as_="admin").status_code == 404
    assert harness.get(path.replace("GPU_UTILIZATION", "POD_COUNT"), as_="admin").status_code == 400
    down = StokerError(ErrorCode.UNAVAILABLE, "Prometheus does not answer.")
    with mock.patch.object(LocalBackend, "query_range", side_effect=down):
        some = harness.get(f"{path},CPU_USAGE_CORES,GPU_UTILIZATION_PER_GPU", as_="admin")
        none = harness.get(path, as_="admin")
    assert (some.status_code, none.status_code) == (207, 503)
    assert [each["type"] for each in some.json()["errors"]] == ["GPU_UTILIZATION", "GPU_UTILIZATION_PER_GPU"]


def test_an_inference_workload_has_throughput_and_latency(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit(kind="Deployment", service={"port": 80})
    any_harness.start(ref, {"node-001": []})
    begun = any_harness.clock.now()
    any_harness.clock.advance(seconds=120)
    [pod] = any_harness.pods(ref)
    for minute, (done, seconds) in enumerate(((60, 30.0), (180, 270.0)), 1):
        counts = {"latency_seconds <= inf": done, "latency_sum": seconds}
        any_harness.measure(pod.uid, begun + minute * MINUTE, **counts)
    asked = {
        "metricType": "THROUGHPUT,LATENCY",
        "start": format_rfc3339(begun),
        "end": format_rfc3339(begun + 2 * MINUTE),
    }
    for path in ("", f"/pods/{pod.uid}"):
        answer = any_harness.runai(f"/inferences/{any_harness.uid(ref)}{path}/metrics", numberOfSamples=2, **asked)
        assert values(answer, "THROUGHPUT") == ["1", "2"]
        assert values(answer, "LATENCY") == ["500", "2000"]
    job = any_harness.uid(any_harness.submit())
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    assert any_harness.get(f"{WORKLOADS}/inferences/{job}/metrics?{query}", as_="admin").status_code == 404


def test_what_could_not_be_read_is_named_beside_what_could(harness: RunaiHarness) -> None:
    ref = harness.submit(gpu="1")
    harness.add_nodes(big_node("node-001"))
    harness.start(ref, {"node-001": [0]})
    now = harness.clock.now()
    harness.clock.advance(seconds=60)
    down = StokerError(ErrorCode.UNAVAILABLE, "Prometheus does not answer.")
    query = f"start={format_rfc3339(now)}&end={format_rfc3339(now + MINUTE)}"
    path = f"{WORKLOADS}/{harness.uid(ref)}/metrics?{query}&metricType=GPU_UTILIZATION"
    with mock.patch.object(LocalBackend, "query_range", side_effect=down):
        some = harness.get(f"{path},POD_COUNT", as_="admin")
        none = harness.get(path, as_="admin")
    assert some.status_code == 207
    assert [each["type"] for each in some.json()["measurements"]] == ["POD_COUNT"]
    assert some.json()["errors"] == [{"type": "GPU_UTILIZATION", "code": 503, "message": "Prometheus does not answer."}]
    assert (none.status_code, none.json()["code"]) == (503, 503)


def test_metrics_are_for_those_who_see_the_workload_and_come_as_csv_too(harness: RunaiHarness) -> None:
    uid = harness.uid(harness.submit())
    now = harness.clock.now()
    query = f"metricType=POD_COUNT&start={format_rfc3339(now - MINUTE)}&end={format_rfc3339(now)}&numberOfSamples=1"
    path = f"{WORKLOADS}/{uid}/metrics?{query}"
    assert harness.get(path, as_="outsider").status_code == 404
    assert harness.get(path).status_code == 401
    text = harness.get(path, as_="viewer", headers={"Accept": "text/csv"}).text
    assert text.splitlines() == ["metricType,timestamp,value,label", f"POD_COUNT,{format_rfc3339(now)},0,"]
