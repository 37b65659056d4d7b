"""The report of usage: whatever it is by, and whatever the range, it adds up to what the hours say, exactly."""

import csv
import io
import random
import sys
from collections import defaultdict
from typing import Any

import httpx
import pyarrow.parquet
import pytest
from msgspec import Struct
from tests.api.harness import V1
from tests.contract.aggregation.harness import UsageHarness

from stoker.domain.clock import DAY_MS, HOUR_MS, format_rfc3339
from stoker.domain.usage.ledger import (
    GPU_HOUR,
    HourUsage,
    LedgerEntry,
    MemoryStats,
    ReplicaStats,
    UsageCategory,
    UtilizationStats,
    WorkloadUsage,
)
from stoker.services.usage import reports
from stoker.store.db.base import Transaction
from stoker.store.usage import closed_hours, hour_facts
from stoker.store.usage.closed_hours import ClosedHour
from stoker.usage.rollups import build_rollups

MODELS = ("H100", "MI300X", "A100")
HOURS = 45
"""One day of UTC is whole."""
FIRST = 1_768_300_000_000 // HOUR_MS * HOUR_MS
HELD = (UsageCategory.FAULTY, UsageCategory.STARTING, UsageCategory.UNMEASURED, UsageCategory.BUSY, UsageCategory.IDLE)
EVERY = ("cluster", "workspace", "namespace", "user", "workload", "model", "label")


class LedgerFact(Struct, frozen=True):
    """An entry of the ledger, with all that a report may be by."""

    cluster: str
    hour: int
    entry: LedgerEntry
    workspace: str = ""
    user: str = ""
    team: str = ""


class FilledLedger(Struct, frozen=True):
    harness: UsageHarness
    facts: list[LedgerFact]

    def report(self, by: str, first: int, last: int, as_: str = "admin", **more: Any) -> dict[str, Any]:
        since, until = (format_rfc3339(FIRST + hour * HOUR_MS) for hour in (first, last))
        query = {"by": by, "since": since, "until": until, "limit": 1000, **more}
        query |= {"label": "team"} if by == "label" else {}
        answer = self.harness.get(f"{V1}/usage?{httpx.QueryParams(query)}", as_=as_)
        assert answer.status_code == 200, answer.text
        self.harness.contract.check("GET", f"{V1}/usage", answer)
        return answer.json()

    def expected(self, first: int, last: int) -> list[LedgerFact]:
        return [fact for fact in self.facts if first <= fact.hour < last]


@pytest.fixture(scope="module")
def filled(shared_harness: UsageHarness) -> FilledLedger:
    """Hours of two clusters in which workloads of two workspaces held something, or nobody did."""
    harness, dice = shared_harness, random.Random(7)
    harness.add_user("ada")
    harness.add_user("bob")
    for workspace, member in (("vision", "ada"), ("speech", "bob")):
        harness.add_workspace(workspace, member=member)
    work = [
        (
            workspace,
            user,
            team,
            harness.add_workload(workspace, as_=user, customerLabels={"team": team} if team else {}),
        )
        for workspace, user, teams in (("vision", "ada", ("red", "=1+1", "")), ("speech", "bob", ("red", "blue")))
        for team in teams
    ]
    uids = {slug: harness.run(_uid(harness, slug)) for *_, slug in work}
    facts: list[LedgerFact] = []
    for name in ("local", "far"):
        cluster_id = harness.cluster_id(name)
        for hour in range(HOURS):
            entries = [
                LedgerEntry("", model, free, dice.randrange(GPU_HOUR)) for model in MODELS for free in _free(dice)
            ]
            facts += [LedgerFact(name, hour, entry) for entry in entries]
            for workspace, user, team, slug in dice.sample(work, dice.randrange(len(work))):
                model = dice.choice(MODELS)
                mine = [
                    LedgerEntry(uids[slug], model, each, dice.randrange(GPU_HOUR))
                    for each in HELD
                    if dice.random() < 0.6
                ]
                facts += [LedgerFact(name, hour, entry, workspace, user, team) for entry in mine]
                entries += mine
            _close(harness, cluster_id, FIRST + hour * HOUR_MS, entries)
    return FilledLedger(harness, facts)


def _free(dice: random.Random) -> list[UsageCategory]:
    return [account for account in (UsageCategory.FREE, UsageCategory.FAULTY) if dice.random() < 0.7]


async def _uid(harness: UsageHarness, slug: str) -> str:
    row = await harness.installation.store.read(
        lambda tx: tx.fetch_one("SELECT uid FROM workload WHERE slug = :s", {"s": slug})
    )
    assert row is not None
    return row[0]


def _close(harness: UsageHarness, cluster_id: str, at: int, entries: list[LedgerEntry]) -> None:
    """Write the hour down as the controller does, from entries that are given."""
    held: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        held[entry.workload_uid] += entry.amount
    held.pop("", None)
    uses = tuple(
        WorkloadUsage(uid, amount, 1000, UtilizationStats(), MemoryStats(), ReplicaStats())
        for uid, amount in sorted(held.items())
    )
    use = HourUsage(at, 8, sum(entry.amount for entry in entries), tuple(entries), uses, UtilizationStats())

    def change(transaction: Transaction) -> None:
        payers = hour_facts.read_workload_facts(transaction, held).cost_owners_of_hour(at, held)
        closed_hours.mark_due(transaction, cluster_id, [at])
        closed_hours.write_hours(
            transaction, cluster_id, [ClosedHour(build_rollups(use, payers, {}), entries, payers)], at + HOUR_MS
        )
        [due] = closed_hours.due_hours(transaction, cluster_id, at + HOUR_MS)
        closed_hours.mark_closed(transaction, cluster_id, due, at + HOUR_MS)

    harness.run(harness.installation.store.write(change))


async def _allocated(harness: UsageHarness, table: str, first: int, last: int) -> int:
    """The sum over the rows of which the aggregation family tells."""
    sql = f"SELECT SUM(allocated) FROM {table} WHERE hour_at >= :first AND hour_at < :last"  # noqa: S608
    hours = {"first": FIRST + first * HOUR_MS, "last": FIRST + last * HOUR_MS}
    row = await harness.installation.store.read(lambda tx: tx.fetch_one(sql, hours))
    return int(row[0]) if row else 0


def amount(hours: float) -> int:
    """GPU-hours as the milli-GPU-milliseconds that they are."""
    return round(hours * GPU_HOUR)


RANGES = [(0, HOURS), (3, 4), (0, 1), (7, 23), (HOURS - 1, HOURS), (11, 40), (14, 38), (15, 38), (14, 37)]


@pytest.mark.parametrize(("first", "last"), RANGES)
def test_every_way_of_adding_up_gives_the_same_to_the_milli_gpu_millisecond(
    filled: FilledLedger, first: int, last: int
) -> None:
    facts = filled.expected(first, last)
    allocated = sum(fact.entry.amount for fact in facts if fact.entry.workload_uid)
    for by in EVERY:
        report = filled.report(by, first, last)
        assert report["total"] == len(report["items"])
        assert amount(report["totals"]["allocatedGpuHours"]) == allocated
        assert sum(amount(item["allocatedGpuHours"]) for item in report["items"]) == allocated
        for account in UsageCategory:
            if account in {UsageCategory.FREE, UsageCategory.FAULTY}:
                continue
            wanted = sum(fact.entry.amount for fact in facts if fact.entry.category is account)
            assert sum(amount(item[f"{account}GpuHours"]) for item in report["items"]) == wanted
    for table in ("cluster_hour", "namespace_hour", "workload_hour"):
        assert filled.harness.run(_allocated(filled.harness, table, first, last)) == allocated
    begin, end = (format_rfc3339(FIRST + hour * HOUR_MS) for hour in (first, last - 1))
    told = [
        hour
        for cluster in ("local", "far")
        for hour in filled.harness.data("/cluster/hourly-stats", start_time=begin, end_time=end, cluster=cluster)
    ]
    assert sum(hour["allocated_gpu_count"] for hour in told) == pytest.approx(
        allocated / GPU_HOUR, abs=1e-6 * len(told)
    )


@pytest.mark.parametrize("by", ["cluster", "model"])
def test_rows_of_whole_gpus_add_up_to_the_capacity(filled: FilledLedger, by: str) -> None:
    facts = filled.expected(0, HOURS)
    report = filled.report(by, 0, HOURS)
    for item in report["items"]:
        of_it = [fact for fact in facts if item["name"] in (fact.cluster, fact.entry.model)]
        assert amount(item["capacityGpuHours"]) == sum(fact.entry.amount for fact in of_it)
        parts = ("busy", "idle", "starting", "unmeasured", "free", "faulty")
        assert sum(amount(item[f"{part}GpuHours"]) for part in parts) == amount(item["capacityGpuHours"])
        held = ("busy", "idle", "starting", "unmeasured", "lost")
        assert sum(amount(item[f"{part}GpuHours"]) for part in held) == amount(item["allocatedGpuHours"])


@pytest.mark.parametrize(("by", "field"), [("workspace", "workspace"), ("user", "user"), ("label", "team")])
def test_a_row_is_what_its_own_had(filled: FilledLedger, by: str, field: str) -> None:
    wanted: defaultdict[str, int] = defaultdict(int)
    for fact in filled.expected(5, 20):
        if fact.entry.workload_uid:
            wanted[getattr(fact, field)] += fact.entry.amount
    found = {item["name"]: amount(item["allocatedGpuHours"]) for item in filled.report(by, 5, 20)["items"]}
    assert found == {name: value for name, value in wanted.items() if value}


def test_values_of_a_label_are_those_of_the_labels_hours(filled: FilledLedger) -> None:
    sql = """
        SELECT value, CAST(SUM(allocated) AS BIGINT)
        FROM dimension_hour
        WHERE kind = 'label' AND key = 'team'
        GROUP BY value
    """
    told = dict(filled.harness.run(filled.harness.installation.store.read(lambda tx: tx.fetch_all(sql))))
    found = {item["name"]: amount(item["allocatedGpuHours"]) for item in filled.report("label", 0, HOURS)["items"]}
    assert found.pop("") > 0
    assert found == told


def test_rows_are_sorted_as_asked_and_pages_neither_overlap_nor_miss(filled: FilledLedger) -> None:
    for sort in ("allocated", "busy", "idle"):
        for order in ("asc", "desc"):
            whole = filled.report("workload", 0, HOURS, sort=sort, order=order)
            values = [item[f"{sort}GpuHours"] for item in whole["items"]]
            assert values == sorted(values, reverse=order == "desc")
            pages, offset = [], 0
            while offset is not None:
                page = filled.report("workload", 0, HOURS, sort=sort, order=order, limit=2, offset=offset)
                assert page["totals"] == whole["totals"]
                assert page["total"] == len(values)
                pages += page["items"]
                offset = page["next"]
            assert pages == whole["items"]
    beyond = filled.report("workload", 0, HOURS, offset=1000)
    assert (beyond["items"], beyond["total"], beyond["next"]) == ([], len(values), None)


def test_others_than_admins_see_what_their_workspaces_held(filled: FilledLedger) -> None:
    for by in EVERY:
        mine = filled.report(by, 0, HOURS, as_="ada")
        wanted = sum(f.entry.amount for f in filled.facts if f.workspace == "vision")
        assert amount(mine["totals"]["allocatedGpuHours"]) == wanted
        assert sum(amount(item["allocatedGpuHours"]) for item in mine["items"]) == wanted
        assert {item["freeGpuHours"] for item in [*mine["items"], mine["totals"]]} == {None}
    assert [item["name"] for item in filled.report("workspace", 0, HOURS, as_="ada")["items"]] == ["vision"]
    harness = filled.harness
    assert harness.get(f"{V1}/usage?workspace=speech", as_="ada").status_code == 404
    nobody = harness.add_user()
    assert filled.report("cluster", 0, HOURS, as_=nobody)["items"] == []


def test_a_report_can_be_of_one_cluster_or_of_one_workspace(filled: FilledLedger) -> None:
    far = sum(fact.entry.amount for fact in filled.facts if fact.cluster == "far" and fact.entry.workload_uid)
    assert amount(filled.report("user", 0, HOURS, cluster="far")["totals"]["allocatedGpuHours"]) == far
    speech = sum(fact.entry.amount for fact in filled.facts if fact.workspace == "speech")
    assert amount(filled.report("model", 0, HOURS, workspace="speech")["totals"]["allocatedGpuHours"]) == speech


def test_it_says_up_to_which_hour_it_reaches(filled: FilledLedger) -> None:
    closed = format_rfc3339(FIRST + HOURS * HOUR_MS)
    report = filled.report("cluster", 0, HOURS + 5)
    assert report["through"] == closed
    assert report["until"] == format_rfc3339(FIRST + (HOURS + 5) * HOUR_MS)
    assert {each["name"]: each["through"] for each in report["clusters"]} == {"local": closed, "far": closed}
    assert filled.report("cluster", 3, 9)["through"] == format_rfc3339(FIRST + 9 * HOUR_MS)
    later = filled.report("cluster", HOURS + 1, HOURS + 5)
    assert (later["through"], later["items"]) == (format_rfc3339(FIRST + (HOURS + 1) * HOUR_MS), [])


def test_an_hour_that_is_only_partly_asked_for_is_in_it(filled: FilledLedger) -> None:
    inside = format_rfc3339(FIRST + 3 * HOUR_MS + 1), format_rfc3339(FIRST + 4 * HOUR_MS + 1)
    report = filled.report("cluster", 0, 0, since=inside[0], until=inside[1])
    assert (report["since"], report["until"]) == (
        format_rfc3339(FIRST + 3 * HOUR_MS),
        format_rfc3339(FIRST + 5 * HOUR_MS),
    )
    assert report["totals"] == filled.report("cluster", 3, 5)["totals"]


def test_a_report_may_reach_to_the_end_of_time(filled: FilledLedger) -> None:
    ever = {"since": "1970-01-01T00:00:00.000Z", "until": "9999-12-31T23:59:59.999Z"}
    report = filled.report("cluster", 0, 0, **ever)
    assert {name: report[name] for name in ever} == ever
    assert report["totals"] == filled.report("cluster", 0, HOURS)["totals"]


def test_a_report_that_begins_before_usage_is_kept_says_from_when_on_it_is(any_harness: UsageHarness) -> None:
    harness = any_harness
    day = format_rfc3339(FIRST // DAY_MS * DAY_MS)
    harness.run(
        harness.installation.store.write(lambda tx: closed_hours.set_retained_from(tx, FIRST // DAY_MS * DAY_MS))
    )
    report = harness.get(f"{V1}/usage?since=2020-01-01T00:00:00Z", as_="admin").json()
    assert (report["since"], report["keptFrom"]) == ("2020-01-01T00:00:00.000Z", day)
    assert harness.get(f"{V1}/usage?since={day}", as_="admin").json()["keptFrom"] is None


class OpenHourHarness:
    """A harness in which `ref` has held two GPUs since a quarter past, and nothing is closed yet."""

    def __init__(self, harness: UsageHarness) -> None:
        self.harness = harness
        self.hour = harness.to_the_hour()
        harness.appear()
        harness.add_user("ada")
        harness.add_workspace("vision", member="ada")
        harness.add_user("bob")
        harness.add_workspace("speech", member="bob")
        resource = {"cpu": "1", "memory": "1Gi", "gpu": "2", "replica": 1}
        self.ref = harness.add_workload("vision", as_="ada", customerLabels={"team": "red"}, resource=resource)
        harness.clock.advance(seconds=15 * 60)
        harness.start(self.ref, {"node-001": range(2)})
        harness.clock.advance(seconds=30 * 60)

    def report(self, by: str = "workload", as_: str = "admin", **query: str) -> dict[str, Any]:
        query |= {"by": by} | ({"label": "team"} if by == "label" else {})
        answer = self.harness.get(f"{V1}/usage?{httpx.QueryParams(query)}", as_=as_)
        self.harness.contract.check("GET", f"{V1}/usage", answer)
        return answer.json()


@pytest.fixture
def held(any_harness: UsageHarness) -> OpenHourHarness:
    return OpenHourHarness(any_harness)


@pytest.mark.parametrize("by", EVERY)
def test_the_hour_under_way_shows_what_is_held_so_far(held: OpenHourHarness, by: str) -> None:
    report = held.report(by)
    [item] = report["items"]
    assert (item["allocatedGpuHours"], item["openGpuHours"], item["busyGpuHours"]) == (1.0, 1.0, 0.0)
    assert report["totals"]["openGpuHours"] == 1.0
    assert (report["openUntil"], report["closingHours"]) == (format_rfc3339(held.harness.clock.now()), 0)
    assert held.report(by, as_="ada")["totals"]["openGpuHours"] == 1.0
    assert held.report(by, as_="bob")["totals"]["openGpuHours"] == 0.0
    assert held.report(by, workspace="speech")["items"] == []


def test_what_was_released_in_the_hour_under_way_stays_in_it(held: OpenHourHarness) -> None:
    held.harness.end(held.ref)
    held.harness.clock.advance(seconds=10 * 60)
    assert held.report()["totals"]["openGpuHours"] == 1.0


def test_hours_that_are_over_and_not_closed_are_counted_and_held_time_is_never_lost_or_doubled(
    held: OpenHourHarness,
) -> None:
    harness = held.harness
    harness.clock.advance(hours=2)
    report = held.report()
    assert (report["closingHours"], report["clusters"][0]["closingHours"]) == (2, 2)
    assert report["totals"]["openGpuHours"] == 5.0
    assert harness.close_hours() == 3
    report = held.report()
    assert (report["closingHours"], report["through"]) == (0, format_rfc3339(held.hour + 3 * HOUR_MS))
    since = (harness.clock.now() - held.hour - 3 * HOUR_MS) / HOUR_MS
    assert report["totals"]["unmeasuredGpuHours"] == 5.5
    assert report["totals"]["openGpuHours"] == pytest.approx(2 * since)
    assert report["totals"]["allocatedGpuHours"] == pytest.approx(5.5 + 2 * since)


def test_a_range_of_closed_hours_has_nothing_open(held: OpenHourHarness) -> None:
    held.harness.close_hours()
    report = held.report(since=format_rfc3339(held.hour), until=format_rfc3339(held.hour + HOUR_MS))
    assert (report["openUntil"], report["closingHours"], report["totals"]["openGpuHours"]) == (None, 0, 0.0)
    assert report["totals"]["allocatedGpuHours"] == 1.5


def test_a_file_has_the_hour_under_way_too(held: OpenHourHarness) -> None:
    text = held.harness.get(f"{V1}/usage?by=workload&format=csv", as_="admin").text
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["name"], float(row["openGpuHours"])) == (held.ref, 1.0)


def test_without_a_range_it_is_the_last_seven_days(filled: FilledLedger) -> None:
    report = filled.harness.get(f"{V1}/usage", as_="admin").json()
    assert report["by"] == "workspace"
    assert (report["since"], report["until"]) == ("2026-01-08T10:00:00.000Z", "2026-01-15T11:00:00.000Z")


def test_csv_has_every_row_and_nothing_that_a_spreadsheet_would_compute(filled: FilledLedger) -> None:
    query = httpx.QueryParams(
        {"label": "team", "since": format_rfc3339(FIRST), "until": format_rfc3339(FIRST + HOURS * HOUR_MS)}
    )
    answer = filled.harness.get(f"{V1}/usage?{query}", as_="admin", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    shown = filled.report("label", 0, HOURS)["items"]
    assert [row["name"] for row in rows] == [{"=1+1": "'=1+1"}.get(item["name"], item["name"]) for item in shown]
    assert "'=1+1" in {row["key"] for row in rows}
    assert [float(row["busyGpuHours"]) for row in rows] == [item["busyGpuHours"] for item in shown]
    assert {row["freeGpuHours"] for row in rows} == {""}
    same = filled.harness.get(f"{V1}/usage?{query}&format=csv&limit=1", as_="admin")
    assert same.text == answer.text


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"by": "label"}, "label"),
        ({"by": "user", "label": "team"}, "label"),
        ({"by": "colour"}, "by"),
        ({"since": "yesterday"}, "since"),
        ({"until": "1600000000"}, "until"),
        ({"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "since"),
        ({"sort": "cost"}, "sort"),
        ({"limit": "1001"}, "limit"),
        ({"format": "xml"}, "format"),
    ],
)
def test_what_cannot_be_asked_is_named(filled: FilledLedger, query: dict[str, str], field: str) -> None:
    answer = filled.harness.get(f"{V1}/usage?{httpx.QueryParams(query)}", as_="admin")
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["field"] == field


def test_what_is_not_there_is_404(filled: FilledLedger) -> None:
    assert filled.harness.get(f"{V1}/usage?cluster=moon", as_="admin").status_code == 404
    assert filled.harness.get(f"{V1}/usage?workspace=moon", as_="admin").status_code == 404


def test_parquet_holds_the_same_rows_with_their_types(filled: FilledLedger) -> None:
    query = httpx.QueryParams(
        {"by": "workload", "since": format_rfc3339(FIRST), "until": format_rfc3339(FIRST + HOURS * HOUR_MS)}
    )
    answer = filled.harness.get(f"{V1}/usage?{query}&format=parquet", as_="admin")
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert answer.headers["content-disposition"] == 'attachment; filename="usage.parquet"'
    table = pyarrow.parquet.read_table(io.BytesIO(answer.content))
    assert table.to_pylist() == filled.report("workload", 0, HOURS)["items"]
    assert {str(table.schema.field(name).type) for name in ("name", "user")} == {"string"}
    assert {str(table.schema.field(name).type) for name in ("busyGpuHours", "cost")} == {"double"}
    asked = {"Accept": "application/vnd.apache.parquet"}
    assert filled.harness.get(f"{V1}/usage?{query}", as_="admin", headers=asked).content == answer.content


def test_a_long_report_is_written_in_parts(filled: FilledLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    query = httpx.QueryParams(
        {"by": "workload", "since": format_rfc3339(FIRST), "until": format_rfc3339(FIRST + HOURS * HOUR_MS)}
    )

    def both() -> tuple[str, list[Any]]:
        answers = [filled.harness.get(f"{V1}/usage?{query}&format={form}", as_="admin") for form in ("csv", "parquet")]
        return answers[0].text, pyarrow.parquet.read_table(io.BytesIO(answers[1].content)).to_pylist()

    whole = both()
    monkeypatch.setattr(reports, "ROWS_BATCH_SIZE", 2)
    assert both() == whole


def test_without_the_extra_parquet_says_which_one_is_missing(
    filled: FilledLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = filled.harness.get(f"{V1}/usage?format=parquet", as_="admin")
    assert answer.status_code == 400
    assert "pip install 'stoker[parquet]'" in answer.json()["error"]["hint"]
