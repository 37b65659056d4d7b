"""What is ruled of closed hours: ranges, pages, orders, filters, clusters, errors and long answers."""

import json
from typing import Any

import pytest
from tests.api.harness import FAR
from tests.contract.aggregation.harness import (
    BASE,
    UsageHarness,
    at,
    cluster_hour,
    dimension_hour,
    namespace_hour,
    workload_hour,
)

from stoker.domain.usage.hours import HourRollups
from stoker.domain.usage.ledger import GPU_HOUR, HOUR_MS
from stoker.services.usage import hours as usage

HOUR = at("2025-11-05T00:00:00Z")
DAY = {"start_time": "2025-11-05T00:00:00Z", "end_time": "2025-11-05T23:59:59Z"}
TEAM = {"dimension_type": "label", "dimension_key": "team"}
LEVELS = [("/cluster/hourly-stats", {}), ("/namespaces/hourly-stats", {}), ("/labels/hourly-stats", TEAM)]
EVERY = [*LEVELS, ("/workloads/hourly-stats", {})]
RANGED = [*EVERY, ("/clusters", {}), ("/namespaces", {}), ("/dimension-keys", {}), ("/snapshots", {})]
Query = dict[str, Any]


@pytest.fixture(scope="module")
def filled(shared_harness: UsageHarness) -> UsageHarness:
    """Four hours; in each, workloads a, b and c of two namespaces and kinds. One hour of another cluster."""
    shared_harness.add_cluster("alpha", "simulated")
    shared_harness.write_down(HOUR, HourRollups(cluster_hour(HOUR, allocated=GPU_HOUR), (), (), ()), cluster="other")
    for number in range(4):
        hour = HOUR + number * HOUR_MS
        rows = (
            workload_hour(hour, "a", utilization=5000 + number),
            workload_hour(hour, "b", utilization=9000, name="twin", namespace="web", kind="Deployment"),
            workload_hour(hour, "c", utilization=1000 * number, name="twin"),
        )
        shared_harness.write_down(
            hour,
            HourRollups(
                cluster_hour(hour),
                (namespace_hour(hour, "ml"), namespace_hour(hour, "web")),
                (
                    dimension_hour(hour, "annotation", "cost", "c1"),
                    dimension_hour(hour, "label", "app", "chat"),
                    dimension_hour(hour, "label", "team", "nlp"),
                    dimension_hour(hour, "label", "team", f"team-{number}"),
                ),
                rows,
            ),
        )
    return shared_harness


def hours(rows: list[Query]) -> list[str]:
    return [row["stat_hour"][11:13] for row in rows]


class TestRanges:
    def test_both_ends_belong_to_it(self, filled: UsageHarness) -> None:
        rows = filled.data(
            "/cluster/hourly-stats", start_time="2025-11-05T01:00:00Z", end_time="2025-11-05T02:00:00.000Z"
        )
        assert hours(rows) == ["01", "02"]

    def test_an_hour_counts_by_its_beginning(self, filled: UsageHarness) -> None:
        rows = filled.data("/cluster/hourly-stats", start_time="2025-11-05T00:00:01Z", end_time="2025-11-05T02:59:59Z")
        assert hours(rows) == ["01", "02"]

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            ("2025-11-05T09:00:00%2B08:00", "2025-11-05T10:00:00%2B08:00"),
            ("2025-11-05T09:00:00+08:00", "2025-11-05T10:00:00+08:00"),
            ("2025-11-04T20:00:00-05:00", "2025-11-05T02:00:00z"),
            ("2025-11-05t00:59:60Z", "2025-11-05T02:00:00.999999999Z"),
        ],
    )
    def test_any_offset_is_taken_even_a_plus_that_was_not_encoded(
        self, filled: UsageHarness, start: str, end: str
    ) -> None:
        found = filled.get(f"{BASE}/cluster/hourly-stats?start_time={start}&end_time={end}").json()
        assert hours(found["data"]) == ["01", "02"]

    def test_the_beginning_of_time_is_a_time(self, filled: UsageHarness) -> None:
        query = {"start_time": "0001-01-01T00:00:00Z", "end_time": "9999-12-31T23:59:59Z"}
        assert len(filled.data("/cluster/hourly-stats", **query)) == 4

    def test_a_range_of_one_moment_is_one(self, filled: UsageHarness) -> None:
        query = dict.fromkeys(("start_time", "end_time"), "2025-11-05T01:00:00Z")
        assert hours(filled.data("/cluster/hourly-stats", **query)) == ["01"]

    def test_where_there_is_nothing_there_is_an_empty_array(self, filled: UsageHarness) -> None:
        query = {"start_time": "2024-01-01T00:00:00Z", "end_time": "2024-01-02T00:00:00Z"}
        for path, more in LEVELS:
            assert filled.data(path, **query, **more) == []
        empty = {"total": 0, "page": 1, "page_size": 20, "total_pages": 0, "data": []}
        assert filled.data("/workloads/hourly-stats", **query) == empty


class TestErrors:
    @pytest.mark.parametrize(("path", "more"), RANGED)
    @pytest.mark.parametrize("field", ["start_time", "end_time"])
    @pytest.mark.parametrize(
        "value",
        [
            *("", "yesterday", "1762300800", "2025-11-05", "2025-11-05T00:00:00", "2025-11-05 00:00:00Z"),
            *("2025-02-30T00:00:00Z", "2025-13-01T00:00:00Z", "2025-11-05T24:00:00Z", "2025-11-05T00:00:00+25:00"),
        ],
    )
    def test_what_is_no_rfc_3339_time_is_named(
        self, shared_harness: UsageHarness, path: str, more: Query, field: str, value: str
    ) -> None:
        assert shared_harness.refusal(path, **{**DAY, **more, field: value}).startswith(f"{field}: ")

    @pytest.mark.parametrize(("path", "more"), EVERY)
    @pytest.mark.parametrize("field", ["start_time", "end_time"])
    def test_both_times_are_required(self, shared_harness: UsageHarness, path: str, more: Query, field: str) -> None:
        query = {**DAY, **more}
        del query[field]
        assert shared_harness.refusal(path, **query).startswith(f"{field}: it is required.")

    @pytest.mark.parametrize(("path", "more"), RANGED)
    def test_a_start_after_the_end_is_refused(self, shared_harness: UsageHarness, path: str, more: Query) -> None:
        query = {"start_time": "2025-11-05T00:00:01Z", "end_time": "2025-11-05T00:00:00Z"}
        assert shared_harness.refusal(path, **query, **more).startswith("start_time: it is after end_time.")

    @pytest.mark.parametrize(("path", "more"), EVERY)
    @pytest.mark.parametrize(
        ("field", "value"),
        [("page", 0), ("page", -1), ("page", "x"), ("page_size", 0), ("page_size", 1001), ("page_size", "1.5")],
    )
    def test_a_bad_page_is_named(
        self, shared_harness: UsageHarness, path: str, more: Query, field: str, value: Any
    ) -> None:
        assert shared_harness.refusal(path, **{**DAY, **more, field: value}).startswith(f"{field}: ")

    @pytest.mark.parametrize(("field", "value"), [("order_by", "name"), ("order_direction", "up")])
    def test_an_unknown_order_says_which_there_are(self, shared_harness: UsageHarness, field: str, value: str) -> None:
        known = {"order_by": "time or utilization", "order_direction": "asc or desc"}[field]
        assert shared_harness.refusal("/workloads/hourly-stats", **DAY, **{field: value}).endswith(f"Use {known}.")

    @pytest.mark.parametrize("field", ["dimension_type", "dimension_key"])
    @pytest.mark.parametrize("value", [None, ""])
    def test_labels_need_a_type_and_a_key(self, shared_harness: UsageHarness, field: str, value: str | None) -> None:
        query = {**DAY, **TEAM, field: value}
        given = {name: each for name, each in query.items() if each is not None}
        assert shared_harness.refusal("/labels/hourly-stats", **given).startswith(f"{field}: ")

    @pytest.mark.parametrize("path", ["/labels/hourly-stats", "/dimension-keys", "/dimension-values"])
    def test_a_dimension_is_a_label_or_an_annotation(self, shared_harness: UsageHarness, path: str) -> None:
        error = shared_harness.refusal(path, **{**DAY, **TEAM, "dimension_type": "team"})
        assert error == 'dimension_type: "team" is not allowed. Use annotation or label.'

    def test_the_values_of_no_key_are_refused(self, shared_harness: UsageHarness) -> None:
        assert shared_harness.refusal("/dimension-values").startswith("dimension_key: it is required.")

    @pytest.mark.parametrize(
        ("path", "more"),
        [
            *EVERY,
            ("/namespaces", {}),
            ("/dimension-keys", {}),
            ("/dimension-values", {"dimension_key": "team"}),
            ("/snapshots/latest", {}),
            ("/snapshots", {}),
        ],
    )
    def test_an_unknown_cluster_is_not_found(self, shared_harness: UsageHarness, path: str, more: Query) -> None:
        query = "&".join(f"{name}={value}" for name, value in {**DAY, **more, "cluster": "moon"}.items())
        answer = shared_harness.get(f"{BASE}{path}?{query}")
        assert answer.status_code == 404
        message = 'There is no cluster "moon", or you may not see it.'
        assert answer.json() == {"code": 404, "message": message, "error": "not_found"}

    def test_unknown_parameters_are_ignored(self, filled: UsageHarness) -> None:
        assert filled.data("/namespaces", colour="red") == ["ml", "web"]

    def test_from_another_machine_it_needs_a_credential(self, shared_harness: UsageHarness) -> None:
        answer = shared_harness.get(f"{BASE}/clusters", peer=FAR)
        assert (answer.status_code, answer.json()["code"]) == (401, 401)
        assert shared_harness.get(f"{BASE}/clusters", peer=FAR, as_="admin").status_code == 200


class TestPages:
    @pytest.mark.parametrize(("path", "more"), LEVELS)
    def test_an_array_becomes_a_page_when_one_is_asked_for(self, filled: UsageHarness, path: str, more: Query) -> None:
        everything = filled.data(path, **DAY, **more)
        total = len(everything)
        first = filled.data(path, **DAY, **more, page=1)
        assert first == {"total": total, "page": 1, "page_size": 20, "total_pages": 1, "data": everything}
        pages = [filled.data(path, **DAY, **more, page=number, page_size=3) for number in (1, 2, 3)]
        assert [row for page in pages for row in page["data"]] == everything
        assert {(page["total"], page["total_pages"], page["page_size"]) for page in pages} == {
            (total, -(-total // 3), 3)
        }
        assert filled.data(path, **DAY, **more, page_size=1)["data"] == everything[:1]

    @pytest.mark.parametrize("order", [{}, {"order_by": "utilization"}, {"namespace": "ml"}, {"workload_name": "twin"}])
    @pytest.mark.parametrize("way", ["asc", "desc"])
    def test_pages_of_workloads_neither_overlap_nor_leave_anything_out(
        self, filled: UsageHarness, order: Query, way: str
    ) -> None:
        query = {**DAY, **order, "order_direction": way}
        whole = filled.data("/workloads/hourly-stats", **query)
        pages = [filled.data("/workloads/hourly-stats", **query, page=number, page_size=5) for number in (1, 2, 3)]
        assert [row for page in pages for row in page["data"]] == whole["data"]
        assert {page["total"] for page in pages} == {len(whole["data"])}

    def test_a_page_behind_the_last_is_empty(self, filled: UsageHarness) -> None:
        found = filled.data("/workloads/hourly-stats", **DAY, page=9, page_size=1000)
        assert (found["total"], found["total_pages"], found["data"]) == (12, 1, [])

    def test_a_whole_thousand_fits_on_a_page(self, filled: UsageHarness) -> None:
        assert filled.data("/workloads/hourly-stats", **DAY, page_size=1000)["page_size"] == 1000


class TestOrder:
    def order(self, harness: UsageHarness, **query: Any) -> list[tuple[str, str]]:
        rows = harness.data("/workloads/hourly-stats", **DAY, **query)["data"]
        return list(zip(hours(rows), [row["owner_uid"] for row in rows], strict=True))

    def test_it_is_time_then_uid_unless_asked(self, filled: UsageHarness) -> None:
        expected = [(f"{hour:02d}", uid) for hour in range(4) for uid in "abc"]
        assert self.order(filled) == self.order(filled, order_by="time", order_direction="asc") == expected
        assert self.order(filled, order_direction="desc") == expected[::-1]

    def test_it_is_utilization_then_time_and_uid_when_asked(self, filled: UsageHarness) -> None:
        by_use = [(f"{hour:02d}", "c") for hour in range(4)] + [(f"{hour:02d}", "a") for hour in range(4)]
        expected = by_use + [(f"{hour:02d}", "b") for hour in range(4)]
        assert self.order(filled, order_by="utilization") == expected
        assert self.order(filled, order_by="utilization", order_direction="desc") == expected[::-1]

    def test_arrays_come_by_time_then_name(self, filled: UsageHarness) -> None:
        rows = filled.data("/namespaces/hourly-stats", **DAY)
        expected = [(f"{hour:02d}", name) for hour in range(4) for name in ("ml", "web")]
        assert list(zip(hours(rows), [row["namespace"] for row in rows], strict=True)) == expected
        rows = filled.data("/labels/hourly-stats", **DAY, **TEAM)
        assert [row["dimension_value"] for row in rows[:4]] == ["nlp", "team-0", "nlp", "team-1"]


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "uids"),
        [
            ({"namespace": "ml"}, "ac"),
            ({"workload_type": "Deployment"}, "b"),
            ({"workload_name": "twin"}, "bc"),
            ({"workload_name": "twin", "namespace": "ml"}, "c"),
            ({"namespace": "ml", "workload_type": "Job"}, "ac"),
            ({"namespace": "web", "workload_type": "Job"}, ""),
            ({"workload_name": "twi"}, ""),
            ({"workload_type": "DaemonSet"}, ""),
            ({"namespace": "", "workload_name": "", "workload_type": "", "cluster": ""}, "abc"),
        ],
    )
    @pytest.mark.parametrize("order", ["time", "utilization"])
    def test_of_workloads(self, filled: UsageHarness, query: Query, uids: str, order: str) -> None:
        found = filled.data("/workloads/hourly-stats", **DAY, **query, order_by=order)
        assert sorted(row["owner_uid"] for row in found["data"]) == sorted(uids * 4)
        assert found["total"] == len(uids) * 4

    def test_of_namespaces_and_labels(self, filled: UsageHarness) -> None:
        assert {row["namespace"] for row in filled.data("/namespaces/hourly-stats", **DAY, namespace="web")} == {"web"}
        assert len(filled.data("/labels/hourly-stats", **DAY, **TEAM, dimension_value="nlp")) == 4
        query = {"dimension_type": "annotation", "dimension_key": "cost"}
        assert [row["dimension_value"] for row in filled.data("/labels/hourly-stats", **DAY, **query)] == ["c1"] * 4

    def test_a_cluster_shows_its_own_hours_and_takes_its_id_too(self, filled: UsageHarness) -> None:
        [row] = filled.data("/cluster/hourly-stats", **DAY, cluster="other")
        assert (row["cluster_name"], row["allocated_gpu_count"]) == ("other", 1.0)
        assert filled.data("/cluster/hourly-stats", **DAY, cluster=filled.cluster_id("other")) == [row]
        assert {each["cluster_name"] for each in filled.data("/cluster/hourly-stats", **DAY)} == {"local"}


class TestNames:
    def test_they_are_sorted_and_each_is_there_once(self, filled: UsageHarness) -> None:
        assert filled.data("/namespaces") == ["ml", "web"]
        assert (
            filled.data("/dimension-keys") == filled.data("/dimension-keys", dimension_type="label") == ["app", "team"]
        )
        assert filled.data("/dimension-keys", dimension_type="annotation") == ["cost"]
        values = ["nlp", "team-0", "team-1", "team-2", "team-3"]
        assert filled.data("/dimension-values", dimension_key="team") == values
        assert filled.data("/dimension-values", dimension_type="annotation", dimension_key="cost") == ["c1"]
        assert filled.data("/dimension-values", dimension_key="none") == []

    def test_a_range_leaves_what_has_hours_in_it(self, filled: UsageHarness) -> None:
        last = {"start_time": "2025-11-05T03:00:00Z"}
        assert filled.data("/dimension-values", dimension_key="team", **last) == ["nlp", "team-3"]
        first = {"end_time": "2025-11-05T00:00:00Z"}
        assert filled.data("/dimension-values", dimension_key="team", **first) == ["nlp", "team-0"]
        never = {"start_time": "2030-01-01T00:00:00Z"}
        assert filled.data("/namespaces", **never) == filled.data("/dimension-keys", **never) == []

    def test_clusters_are_all_of_them_or_those_that_have_hours(self, filled: UsageHarness) -> None:
        assert filled.data("/clusters") == ["alpha", "local", "other"]
        assert filled.data("/clusters", **DAY) == ["local", "other"]
        assert filled.data("/clusters", start_time="2025-11-05T01:00:00Z") == ["local"]
        assert filled.data("/clusters", cluster="alpha") == ["alpha"]
        assert filled.data("/clusters", cluster="alpha", **DAY) == []
        assert filled.get(f"{BASE}/clusters?cluster=nowhere").status_code == 404


@pytest.mark.parametrize(("path", "more"), LEVELS)
def test_a_long_range_is_written_while_it_is_read(
    filled: UsageHarness, path: str, more: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "&".join(f"{name}={value}" for name, value in {**DAY, **more}.items())
    at_once = filled.get(f"{BASE}{path}?{query}")
    assert at_once.headers["content-length"] == str(len(at_once.content))
    for size in (1, 2, 3):
        monkeypatch.setattr(usage, "HOURS_BATCH_SIZE", size)
        streamed = filled.get(f"{BASE}{path}?{query}")
        assert "content-length" not in streamed.headers
        assert streamed.headers["content-type"] == "application/json"
        assert streamed.content == at_once.content
        json.loads(streamed.content)
