"""No list looks at every row of a table: each statement of each list is explained, and uses an index."""

import re
from collections.abc import Callable

import httpx
import pytest
from tests.contract.runai.harness import RunaiHarness
from tests.contract.runai.many_workloads import DATES, FIELDS, OPERATORS, sample, settle

from stoker.store.db.base import Params, Transaction
from stoker.store.db.sqlite.connection import SqliteTransaction
from stoker.store.workloads.query import candidates

LARGE = ("workload", "pod", "workload_condition", "allocation", "phase_interval", "workload_event")
SCAN = re.compile(rf"SCAN ({'|'.join(LARGE)})\Z")
POD_FILTERS = (
    "nodeName==node-002",
    "createdAt>=2026-01-15T10:30:00Z",
    "completedAt<=2026-01-15T10:30:00Z",
    "workloadId==x",
)
POD_SORTS = ("createdAt", "nodeName", "workloadId")


def test_every_filter_order_and_search_uses_an_index(
    harness: RunaiHarness, monkeypatch: pytest.MonkeyPatch, statements: dict[str, Params]
) -> None:
    settle(harness)
    rows = harness.rows()
    for few in (0, 12):
        monkeypatch.setattr(candidates, "MIN_CANDIDATE_LIMIT", few)
        monkeypatch.setattr(candidates, "MAX_CANDIDATE_LIMIT", few)
        for field in FIELDS:
            operators = OPERATORS[:4] if field in DATES else OPERATORS
            filters = [f"{field}{operator}{sample(rows, field, operator)[0]}" for operator in operators]
            for asked in filters:
                harness.runai(sortBy=field, limit=5, filterBy=asked)
            for order in ("asc", "desc"):
                harness.runai(sortBy=field, limit=5, sortOrder=order)
        harness.runai(search="resnet")
        harness.runai("/count", search="resnet")
    for query in ({"workloadId": "e"}, {"description": "e"}, {"userName": "e"}, {"since": "2026-01-15T10:30:00Z"}):
        for sort in ("create_time", "start_time", "end_time", "priority", "display_name", "phase", "runtime", "gpu"):
            harness.get(f"/api/custom/workloads?{httpx.QueryParams({**query, 'sortBy': sort})}", as_="admin")
    for query in ({"name": "e"}, {"kind": "Job", "orderBy": "end_at"}, {"status": "Running"}):
        harness.data("/api/workloads", **query)
    explained = _explained(harness, statements)
    assert len(explained) > 300
    assert [(sql, plan) for sql, plan in explained if any(SCAN.search(line) for line in plan)] == []


def test_pods_are_walked_along_an_index_of_what_they_are_sorted_by(
    harness: RunaiHarness, statements: dict[str, Params]
) -> None:
    settle(harness)
    statements.clear()
    harness.runai("/pods")
    for sort in POD_SORTS:
        harness.runai("/pods", sortBy=sort)
    walked = _explained(harness, statements)
    assert not [plan for _, plan in walked if any("TEMP B-TREE FOR ORDER BY" in line for line in plan)]
    for asked in POD_FILTERS:
        harness.runai("/pods", filterBy=asked, sortBy="createdAt")
    found = [plan for sql, plan in _explained(harness, statements) if "FROM pod" in sql]
    assert len(found) >= len(POD_SORTS) + len(POD_FILTERS)
    assert [plan for plan in found if any(SCAN.search(line) for line in plan)] == []


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> dict[str, Params]:
    """Every query that is made, with the parameters of the first time."""
    seen: dict[str, Params] = {}

    def noting(query: Callable[[SqliteTransaction, str, Params], object]) -> Callable[..., object]:
        def noted(self: SqliteTransaction, sql: str, params: Params = {}) -> object:  # noqa: B006 - never changed
            if sql.lstrip().startswith("SELECT"):
                seen.setdefault(sql, params)
            return query(self, sql, params)

        return noted

    monkeypatch.setattr(SqliteTransaction, "fetch_all", noting(SqliteTransaction.fetch_all))
    monkeypatch.setattr(SqliteTransaction, "fetch_one", noting(SqliteTransaction.fetch_one))
    return seen


def _explained(harness: RunaiHarness, statements: dict[str, Params]) -> list[tuple[str, list[str]]]:
    def explain(transaction: Transaction) -> list[tuple[str, list[str]]]:
        return [
            (sql, [row[3] for row in transaction.fetch_all(f"EXPLAIN QUERY PLAN {sql}", params)])
            for sql, params in list(statements.items())
        ]

    return harness.run(harness.installation.store.read(explain))
