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
from tests.api.lab import V1
from tests.contract.aggregation.lab import UsageLab

from stoker.domain.clock import HOUR_MS, rfc3339
from stoker.domain.usage import GPU_HOUR, Account, Entry, HourUse, MemoryStats, Replicas, Stats, Use
from stoker.services import reports
from stoker.store import usage, usage_facts
from stoker.store.base import Transaction
from stoker.store.usage import ClosedHour
from stoker.usage.levels import levels

MODELS = ("H100", "MI300X", "A100")
HOURS = 45
"""One day of UTC is whole."""
FIRST = 1_768_300_000_000 // HOUR_MS * HOUR_MS
HELD = (Account.FAULTY, Account.STARTING, Account.UNMEASURED, Account.BUSY, Account.IDLE)
EVERY = ("cluster", "workspace", "namespace", "user", "workload", "model", "label")


class Fact(Struct, frozen=True):
    """An entry of the ledger, with all that a report may be by."""

    cluster: str
    hour: int
    entry: Entry
    workspace: str = ""
    user: str = ""
    team: str = ""


class Filled(Struct, frozen=True):
    lab: UsageLab
    facts: list[Fact]

    def report(self, by: str, first: int, last: int, as_: str = "admin", **more: Any) -> dict[str, Any]:
        since, until = (rfc3339(FIRST + hour * HOUR_MS) for hour in (first, last))
        query = {"by": by, "since": since, "until": until, "limit": 1000, **more}
        query |= {"label": "team"} if by == "label" else {}
        answer = self.lab.get(f"{V1}/usage?{httpx.QueryParams(query)}", as_=as_)
        assert answer.status_code == 200, answer.text
        self.lab.contract.check("GET", f"{V1}/usage", answer)
        return answer.json()

    def expected(self, first: int, last: int) -> list[Fact]:
        return [fact for fact in self.facts if first <= fact.hour < last]


@pytest.fixture(scope="module")
def filled(shared_lab: UsageLab) -> Filled:
    """Hours of two clusters in which workloads of two workspaces held something, or nobody did."""
    lab, dice = shared_lab, random.Random(7)
    lab.add_user("ada")
    lab.add_user("bob")
    for workspace, member in (("vision", "ada"), ("speech", "bob")):
        lab.add_workspace(workspace, member=member)
    work = [
        (workspace, user, team, lab.add_workload(workspace, as_=user, customerLabels={"team": team} if team else {}))
        for workspace, user, teams in (("vision", "ada", ("red", "=1+1", "")), ("speech", "bob", ("red", "blue")))
        for team in teams
    ]
    uids = {slug: lab.run(_uid(lab, slug)) for *_, slug in work}
    facts: list[Fact] = []
    for name in ("local", "far"):
        cluster_id = lab.cluster_id(name)
        for hour in range(HOURS):
            entries = [Entry("", model, free, dice.randrange(GPU_HOUR)) for model in MODELS for free in _free(dice)]
            facts += [Fact(name, hour, entry) for entry in entries]
            for workspace, user, team, slug in dice.sample(work, dice.randrange(len(work))):
                model = dice.choice(MODELS)
                mine = [
                    Entry(uids[slug], model, each, dice.randrange(GPU_HOUR)) for each in HELD if dice.random() < 0.6
                ]
                facts += [Fact(name, hour, entry, workspace, user, team) for entry in mine]
                entries += mine
            _close(lab, cluster_id, FIRST + hour * HOUR_MS, entries)
    return Filled(lab, facts)


def _free(dice: random.Random) -> list[Account]:
    return [account for account in (Account.FREE, Account.FAULTY) if dice.random() < 0.7]


async def _uid(lab: UsageLab, slug: str) -> str:
    row = await lab.installation.store.read(lambda tx: tx.one("SELECT uid FROM workload WHERE slug = :s", {"s": slug}))
    assert row is not None
    return row[0]


def _close(lab: UsageLab, cluster_id: str, at: int, entries: list[Entry]) -> None:
    """Write the hour down as the controller does, from entries that are given."""
    held: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        held[entry.payer] += entry.amount
    held.pop("", None)
    uses = tuple(Use(uid, amount, 1000, Stats(), MemoryStats(), Replicas()) for uid, amount in sorted(held.items()))
    use = HourUse(at, 8, sum(entry.amount for entry in entries), tuple(entries), uses, Stats())

    def change(transaction: Transaction) -> None:
        payers = usage_facts.workloads(transaction, held).at(at + HOUR_MS, held)
        usage.need_close(transaction, cluster_id, [at])
        usage.put_hours(transaction, cluster_id, [ClosedHour(levels(use, payers, {}), entries, payers)], at + HOUR_MS)
        [due] = usage.due(transaction, cluster_id, at + HOUR_MS)
        usage.closed(transaction, cluster_id, due, at + HOUR_MS)

    lab.run(lab.installation.store.write(change))


async def _allocated(lab: UsageLab, table: str, first: int, last: int) -> int:
    """The sum over the rows of which the aggregation family tells."""
    sql = f"SELECT SUM(allocated) FROM {table} WHERE hour_at >= :first AND hour_at < :last"  # noqa: S608
    hours = {"first": FIRST + first * HOUR_MS, "last": FIRST + last * HOUR_MS}
    row = await lab.installation.store.read(lambda tx: tx.one(sql, hours))
    return int(row[0]) if row else 0


def amount(hours: float) -> int:
    """GPU-hours as the milli-GPU-milliseconds that they are."""
    return round(hours * GPU_HOUR)


RANGES = [(0, HOURS), (3, 4), (0, 1), (7, 23), (HOURS - 1, HOURS), (11, 40), (14, 38), (15, 38), (14, 37)]


@pytest.mark.parametrize(("first", "last"), RANGES)
def test_every_way_of_adding_up_gives_the_same_to_the_milli_gpu_millisecond(
    filled: Filled, first: int, last: int
) -> None:
    facts = filled.expected(first, last)
    allocated = sum(fact.entry.amount for fact in facts if fact.entry.payer)
    for by in EVERY:
        report = filled.report(by, first, last)
        assert report["total"] == len(report["items"])
        assert amount(report["totals"]["allocatedGpuHours"]) == allocated
        assert sum(amount(item["allocatedGpuHours"]) for item in report["items"]) == allocated
        for account in Account:
            if account in {Account.FREE, Account.FAULTY}:
                continue
            wanted = sum(fact.entry.amount for fact in facts if fact.entry.account is account)
            assert sum(amount(item[f"{account}GpuHours"]) for item in report["items"]) == wanted
    for table in ("cluster_hour", "namespace_hour", "workload_hour"):
        assert filled.lab.run(_allocated(filled.lab, table, first, last)) == allocated
    begin, end = (rfc3339(FIRST + hour * HOUR_MS) for hour in (first, last - 1))
    told = [
        hour
        for cluster in ("local", "far")
        for hour in filled.lab.data("/cluster/hourly-stats", start_time=begin, end_time=end, cluster=cluster)
    ]
    assert sum(hour["allocated_gpu_count"] for hour in told) == pytest.approx(
        allocated / GPU_HOUR, abs=1e-6 * len(told)
    )


@pytest.mark.parametrize("by", ["cluster", "model"])
def test_rows_of_whole_gpus_add_up_to_the_capacity(filled: Filled, by: str) -> None:
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
def test_a_row_is_what_its_own_had(filled: Filled, by: str, field: str) -> None:
    wanted: defaultdict[str, int] = defaultdict(int)
    for fact in filled.expected(5, 20):
        if fact.entry.payer:
            wanted[getattr(fact, field)] += fact.entry.amount
    found = {item["name"]: amount(item["allocatedGpuHours"]) for item in filled.report(by, 5, 20)["items"]}
    assert found == {name: value for name, value in wanted.items() if value}


def test_values_of_a_label_are_those_of_the_labels_hours(filled: Filled) -> None:
    sql = """
        SELECT value, CAST(SUM(allocated) AS BIGINT)
        FROM dimension_hour
        WHERE kind = 'label' AND key = 'team'
        GROUP BY value
    """
    told = dict(filled.lab.run(filled.lab.installation.store.read(lambda tx: tx.all(sql))))
    found = {item["name"]: amount(item["allocatedGpuHours"]) for item in filled.report("label", 0, HOURS)["items"]}
    assert found.pop("") > 0
    assert found == told


def test_rows_are_sorted_as_asked_and_pages_neither_overlap_nor_miss(filled: Filled) -> None:
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


def test_others_than_admins_see_what_their_workspaces_held(filled: Filled) -> None:
    for by in EVERY:
        mine = filled.report(by, 0, HOURS, as_="ada")
        wanted = sum(f.entry.amount for f in filled.facts if f.workspace == "vision")
        assert amount(mine["totals"]["allocatedGpuHours"]) == wanted
        assert sum(amount(item["allocatedGpuHours"]) for item in mine["items"]) == wanted
        assert {item["freeGpuHours"] for item in [*mine["items"], mine["totals"]]} == {None}
    assert [item["name"] for item in filled.report("workspace", 0, HOURS, as_="ada")["items"]] == ["vision"]
    lab = filled.lab
    assert lab.get(f"{V1}/usage?workspace=speech", as_="ada").status_code == 404
    nobody = lab.add_user()
    assert filled.report("cluster", 0, HOURS, as_=nobody)["items"] == []


def test_a_report_can_be_of_one_cluster_or_of_one_workspace(filled: Filled) -> None:
    far = sum(fact.entry.amount for fact in filled.facts if fact.cluster == "far" and fact.entry.payer)
    assert amount(filled.report("user", 0, HOURS, cluster="far")["totals"]["allocatedGpuHours"]) == far
    speech = sum(fact.entry.amount for fact in filled.facts if fact.workspace == "speech")
    assert amount(filled.report("model", 0, HOURS, workspace="speech")["totals"]["allocatedGpuHours"]) == speech


def test_it_says_up_to_which_hour_it_reaches(filled: Filled) -> None:
    closed = rfc3339(FIRST + HOURS * HOUR_MS)
    report = filled.report("cluster", 0, HOURS + 5)
    assert report["through"] == closed
    assert report["until"] == rfc3339(FIRST + (HOURS + 5) * HOUR_MS)
    assert {each["name"]: each["through"] for each in report["clusters"]} == {"local": closed, "far": closed}
    assert filled.report("cluster", 3, 9)["through"] == rfc3339(FIRST + 9 * HOUR_MS)
    later = filled.report("cluster", HOURS + 1, HOURS + 5)
    assert (later["through"], later["items"]) == (rfc3339(FIRST + (HOURS + 1) * HOUR_MS), [])


def test_an_hour_that_is_only_partly_asked_for_is_in_it(filled: Filled) -> None:
    inside = rfc3339(FIRST + 3 * HOUR_MS + 1), rfc3339(FIRST + 4 * HOUR_MS + 1)
    report = filled.report("cluster", 0, 0, since=inside[0], until=inside[1])
    assert (report["since"], report["until"]) == (rfc3339(FIRST + 3 * HOUR_MS), rfc3339(FIRST + 5 * HOUR_MS))
    assert report["totals"] == filled.report("cluster", 3, 5)["totals"]


def test_a_report_may_reach_to_the_end_of_time(filled: Filled) -> None:
    ever = {"since": "1970-01-01T00:00:00.000Z", "until": "9999-12-31T23:59:59.999Z"}
    report = filled.report("cluster", 0, 0, **ever)
    assert {name: report[name] for name in ever} == ever
    assert report["totals"] == filled.report("cluster", 0, HOURS)["totals"]


def test_without_a_range_it_is_the_last_seven_days(filled: Filled) -> None:
    report = filled.lab.get(f"{V1}/usage", as_="admin").json()
    assert report["by"] == "workspace"
    assert (report["since"], report["until"]) == ("2026-01-08T10:00:00.000Z", "2026-01-15T11:00:00.000Z")


def test_csv_has_every_row_and_nothing_that_a_spreadsheet_would_compute(filled: Filled) -> None:
    query = httpx.QueryParams({"label": "team", "since": rfc3339(FIRST), "until": rfc3339(FIRST + HOURS * HOUR_MS)})
    answer = filled.lab.get(f"{V1}/usage?{query}", as_="admin", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    shown = filled.report("label", 0, HOURS)["items"]
    assert [row["name"] for row in rows] == [{"=1+1": "'=1+1"}.get(item["name"], item["name"]) for item in shown]
    assert "'=1+1" in {row["key"] for row in rows}
    assert [float(row["busyGpuHours"]) for row in rows] == [item["busyGpuHours"] for item in shown]
    assert {row["freeGpuHours"] for row in rows} == {""}
    same = filled.lab.get(f"{V1}/usage?{query}&format=csv&limit=1", as_="admin")
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
def test_what_cannot_be_asked_is_named(filled: Filled, query: dict[str, str], field: str) -> None:
    answer = filled.lab.get(f"{V1}/usage?{httpx.QueryParams(query)}", as_="admin")
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["field"] == field


def test_what_is_not_there_is_404(filled: Filled) -> None:
    assert filled.lab.get(f"{V1}/usage?cluster=moon", as_="admin").status_code == 404
    assert filled.lab.get(f"{V1}/usage?workspace=moon", as_="admin").status_code == 404


def test_parquet_holds_the_same_rows_with_their_types(filled: Filled) -> None:
    query = httpx.QueryParams({"by": "workload", "since": rfc3339(FIRST), "until": rfc3339(FIRST + HOURS * HOUR_MS)})
    answer = filled.lab.get(f"{V1}/usage?{query}&format=parquet", as_="admin")
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert answer.headers["content-disposition"] == 'attachment; filename="usage.parquet"'
    table = pyarrow.parquet.read_table(io.BytesIO(answer.content))
    assert table.to_pylist() == filled.report("workload", 0, HOURS)["items"]
    assert {str(table.schema.field(name).type) for name in ("name", "user")} == {"string"}
    assert {str(table.schema.field(name).type) for name in ("busyGpuHours", "cost")} == {"double"}
    asked = {"Accept": "application/vnd.apache.parquet"}
    assert filled.lab.get(f"{V1}/usage?{query}", as_="admin", headers=asked).content == answer.content


def test_a_long_report_is_written_in_parts(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    query = httpx.QueryParams({"by": "workload", "since": rfc3339(FIRST), "until": rfc3339(FIRST + HOURS * HOUR_MS)})

    def both() -> tuple[str, list[Any]]:
        answers = [filled.lab.get(f"{V1}/usage?{query}&format={form}", as_="admin") for form in ("csv", "parquet")]
        return answers[0].text, pyarrow.parquet.read_table(io.BytesIO(answers[1].content)).to_pylist()

    whole = both()
    monkeypatch.setattr(reports, "AT_ONCE", 2)
    assert both() == whole


def test_without_the_extra_parquet_says_which_one_is_missing(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = filled.lab.get(f"{V1}/usage?format=parquet", as_="admin")
    assert answer.status_code == 400
    assert "pip install 'stoker[parquet]'" in answer.json()["error"]["hint"]
