"""No list looks at every row of a table: each statement of each list is explained, and uses an index."""

import re
from collections.abc import Callable

import httpx
import pytest
from tests.contract.runai.crowd import DATES, FIELDS, OPERATORS, sample, settle
from tests.contract.runai.lab import RunaiLab

from stoker.store import inventory_asked
from stoker.store.base import Params, Transaction
from stoker.store.sqlite_file import SqliteTransaction

LARGE = ("workload", "pod", "condition", "allocation", "phase_interval", "change")
SCAN = re.compile(rf"SCAN ({'|'.join(LARGE)})\Z")
POD_FILTERS = (
    "nodeName==node-002",
    "createdAt>=2026-01-15T10:30:00Z",
    "completedAt<=2026-01-15T10:30:00Z",
    "workloadId==x",
)
POD_SORTS = ("createdAt", "nodeName", "workloadId")


def test_every_filter_order_and_search_uses_an_index(
    lab: RunaiLab, monkeypatch: pytest.MonkeyPatch, statements: dict[str, Params]
) -> None:
    settle(lab)
    rows = lab.rows()
    for few in (0, 12):
        monkeypatch.setattr(inventory_asked, "GATHERED", few)
        monkeypatch.setattr(inventory_asked, "MOST_GATHERED", few)
        for field in FIELDS:
            operators = OPERATORS[:4] if field in DATES else OPERATORS
            filters = [f"{field}{operator}{sample(rows, field, operator)[0]}" for operator in operators]
            for asked in filters:
                lab.runai(sortBy=field, limit=5, filterBy=asked)
            for order in ("asc", "desc"):
                lab.runai(sortBy=field, limit=5, sortOrder=order)
        lab.runai(search="resnet")
        lab.runai("/count", search="resnet")
    for query in ({"workloadId": "e"}, {"description": "e"}, {"userName": "e"}, {"since": "2026-01-15T10:30:00Z"}):
        for sort in ("create_time", "start_time", "end_time", "priority", "display_name", "phase", "runtime", "gpu"):
            lab.get(f"/api/custom/workloads?{httpx.QueryParams({**query, 'sortBy': sort})}", as_="admin")
    for query in ({"name": "e"}, {"kind": "Job", "orderBy": "end_at"}, {"status": "Running"}):
        lab.data("/api/workloads", **query)
    explained = _explained(lab, statements)
    assert len(explained) > 300
    assert [(sql, plan) for sql, plan in explained if any(SCAN.search(line) for line in plan)] == []


def test_pods_are_walked_along_an_index_of_what_they_are_sorted_by(
    lab: RunaiLab, statements: dict[str, Params]
) -> None:
    settle(lab)
    statements.clear()
    lab.runai("/pods")
    for sort in POD_SORTS:
        lab.runai("/pods", sortBy=sort)
    walked = _explained(lab, statements)
    assert not [plan for _, plan in walked if any("TEMP B-TREE FOR ORDER BY" in line for line in plan)]
    for asked in POD_FILTERS:
        lab.runai("/pods", filterBy=asked, sortBy="createdAt")
    found = [plan for sql, plan in _explained(lab, statements) if "FROM pod" in sql]
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

    monkeypatch.setattr(SqliteTransaction, "all", noting(SqliteTransaction.all))
    monkeypatch.setattr(SqliteTransaction, "one", noting(SqliteTransaction.one))
    return seen


def _explained(lab: RunaiLab, statements: dict[str, Params]) -> list[tuple[str, list[str]]]:
    def explain(transaction: Transaction) -> list[tuple[str, list[str]]]:
        return [
            (sql, [row[3] for row in transaction.all(f"EXPLAIN QUERY PLAN {sql}", params)])
            for sql, params in list(statements.items())
        ]

    return lab.run(lab.installation.store.read(explain))
