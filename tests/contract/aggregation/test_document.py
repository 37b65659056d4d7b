"""The document's own examples, field by field and number by number; every request that it sends; its five scenarios."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.contract.aggregation.document import DAY, EXAMPLES, PATHS, fill
from tests.contract.aggregation.harness import BASE, UsageHarness, cluster_hour, dimension_hour, namespace_hour

from stoker.domain.usage.hours import HourRollups
from stoker.domain.usage.ledger import HOUR_MS

RANGE = {"start_time": "2025-11-05T14:00:00Z", "end_time": "2025-11-05T14:00:00Z", "cluster": "cluster-1"}


@pytest.fixture(scope="module")
def filled(shared_harness: UsageHarness) -> UsageHarness:
    fill(shared_harness)
    return shared_harness


def shape(value: Any) -> Any:
    """Names in their order, and JSON types."""
    if isinstance(value, dict):
        return [(name, shape(each)) for name, each in value.items()]
    return [shape(each) for each in value[:1]] if isinstance(value, list) else type(value).__name__


def written(row: dict[str, Any]) -> str:
    """A row as JSON, so that 8 is not 8.0; which number it has is not compared."""
    return json.dumps({**row, "id": 0}, sort_keys=True)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/cluster/hourly-stats", RANGE),
        ("/namespaces/hourly-stats", RANGE),
        ("/labels/hourly-stats", {**RANGE, "dimension_type": "label", "dimension_key": "team"}),
    ],
)
def test_hours_are_those_of_the_example_to_the_letter(filled: UsageHarness, path: str, query: dict[str, str]) -> None:
    found, expected = filled.data(path, **query), EXAMPLES[BASE + path]["data"]
    assert [list(row) for row in found] == [list(row) for row in expected]
    assert sorted(map(written, found)) == sorted(map(written, expected))  # ours come by name


def test_workloads_are_those_of_the_example_to_the_letter(filled: UsageHarness) -> None:
    expected = EXAMPLES[f"{BASE}/workloads/hourly-stats"]["data"]
    found = filled.data("/workloads/hourly-stats", **RANGE)
    assert list(map(written, found["data"])) == list(map(written, expected["data"]))
    assert [list(row) for row in found["data"]] == [list(row) for row in expected["data"]]
    assert list(found) == list(expected)
    assert (found["total"], found["page"], found["page_size"], found["total_pages"]) == (2, 1, 20, 1)


def test_the_latest_snapshot_has_the_shape_of_the_example(filled: UsageHarness) -> None:
    expected = EXAMPLES[f"{BASE}/snapshots/latest"]["data"]
    found = filled.data("/snapshots/latest", cluster="cluster-1")
    frame = ("dimension_type", "dimension_key", "dimension_value", "total_gpu_capacity", "allocated_gpu_count")
    assert {name: found[name] for name in frame} == {name: expected[name] for name in frame}
    assert (found["snapshot_time"], found["created_at"]) == ("2025-11-05T14:05:00Z", "2025-11-05T14:05:01Z")
    mine = found["allocation_details"]["namespaces"]["ml-training"]
    theirs = expected["allocation_details"]["namespaces"]["ml-training"]
    assert shape(mine) == shape(theirs)
    assert list(found["allocation_details"]) == list(expected["allocation_details"])
    assert shape({**found, "allocation_details": {}}) == shape({**expected, "allocation_details": {}})


def test_snapshots_have_the_shape_of_the_example(filled: UsageHarness) -> None:
    expected = EXAMPLES[f"{BASE}/snapshots"]["data"]
    query = {"start_time": "2025-11-05T00:00:00Z", "end_time": "2025-11-05T23:59:59Z", "cluster": "cluster-1"}
    found = filled.data("/snapshots", **query)
    assert shape(found) == shape(expected)
    assert [row["snapshot_time"] for row in found] == [row["snapshot_time"] for row in expected]
    assert [row["allocation_details"] for row in found] == [{}, {}]


def test_an_error_has_the_shape_of_the_example(filled: UsageHarness) -> None:
    answer = filled.get(f"{BASE}/cluster/hourly-stats?start_time=yesterday&end_time=2025-11-05T00:00:00Z")
    expected = EXAMPLES["error"]
    assert answer.status_code == 400
    assert shape(answer.json()) == shape(expected)
    assert {name: answer.json()[name] for name in ("code", "message")} == {"code": 400, "message": expected["message"]}
    assert answer.json()["error"].startswith("start_time: ")


@pytest.mark.parametrize("path", PATHS)
def test_every_request_of_the_document_is_answered(filled: UsageHarness, path: str) -> None:
    answer = filled.get(path)
    assert answer.status_code == 200
    assert {"code": 200, "message": "success"}.items() <= answer.json().items()
    if not ("production" in path or "2025-11-04" in path or path.endswith("/snapshots?")):
        assert answer.json()["data"]  # of the rest the examples show nothing


def test_both_databases_give_the_same_bytes(harness: UsageHarness, tmp_path: Any, postgres_url: str) -> None:
    with UsageHarness(tmp_path / "other", postgres_url) as other:
        for each in (harness, other):
            fill(each)
            each.photograph()
        for path in PATHS:
            assert harness.get(path).content == other.get(path).content


class TestScenarios:
    """As they are written: times are made of today by the shell."""

    @pytest.fixture
    def today(self, harness: UsageHarness) -> datetime:
        fill(harness)
        now = datetime.fromtimestamp(harness.clock.now() / 1000, UTC)
        hour = int(now.replace(minute=0, second=0, microsecond=0).timestamp() * 1000) - HOUR_MS
        harness.write_down(
            hour,
            HourRollups(
                cluster_hour(hour),
                (namespace_hour(hour, "ml-training"),),
                (dimension_hour(hour, "label", "team", "nlp"),),
                (),
            ),
        )
        return now

    def test_the_trend_of_a_cluster(self, harness: UsageHarness, today: datetime) -> None:
        start, end = f"{today - timedelta(days=7):%Y-%m-%dT00:00:00Z}", f"{today:%Y-%m-%dT23:59:59Z}"
        [row] = harness.data("/cluster/hourly-stats", start_time=start, end_time=end)
        assert row["avg_utilization"] == 50.0

    def test_teams_beside_each_other(self, harness: UsageHarness, today: datetime) -> None:
        between = {"start_time": f"{today:%Y-%m-%dT00:00:00Z}", "end_time": f"{today:%Y-%m-%dT23:59:59Z}"}
        rows = harness.data("/labels/hourly-stats", dimension_type="label", dimension_key="team", **between)
        assert [row["dimension_value"] for row in rows] == ["nlp"]

    def test_one_namespace_now(self, harness: UsageHarness, today: datetime) -> None:
        latest = harness.get(f"{BASE}/snapshots/latest").json()
        mine = latest["data"]["allocation_details"]["namespaces"]["ml-training"]  # the path that jq is given
        assert (mine["allocated_gpu"], mine["utilization"], mine["workload_count"]) == (8, 85.3, 1)

    def test_a_report_of_the_month(self, harness: UsageHarness, today: datetime) -> None:
        start, end = f"{today:%Y-%m-01T00:00:00Z}", f"{today:%Y-%m-%dT23:59:59Z}"
        report = harness.get(f"{BASE}/namespaces/hourly-stats?start_time={start}&end_time={end}").json()
        assert [row["namespace"] for row in report["data"]] == ["ml-training"]

    def test_workloads_that_waste_gpus(self, harness: UsageHarness, today: datetime) -> None:
        found = harness.get(
            f"{BASE}/workloads/hourly-stats?{DAY}&order_by=utilization&order_direction=asc&page_size=10"
        )
        rows = found.json()["data"]["data"]
        assert [row["workload_name"] for row in rows] == ["inference-server", "bert-training-job"]
