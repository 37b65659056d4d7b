"""Reports over so many GPU-hours that their milli-GPU-milliseconds do not fit into 64 bits."""

import pytest
from tests.conftest import LoopRun

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.queries.pages import PageRequest
from stoker.domain.usage.report import UsageGroupBy, UsageQuery
from stoker.store.db.base import Store, Transaction
from stoker.store.usage import reports

HUGE = (1 << 62) - 12_345
"""Of one row: three of them are more than 64 bits hold."""
FIRST = 20_000 * DAY_MS
DAYS = 5
ADD_DAY = """
INSERT INTO usage_day (cluster_id, day_at, workspace_id, namespace, user_id, model, busy, idle, starting, unmeasured,
                       lost, free, faulty)
VALUES ('c1', :day_at, :number, :name, :name, 'H100', :busy, 1, 0, 0, 0, :busy, 0)
"""
ADD_WORKLOAD_DAY = """
INSERT INTO workload_day (cluster_id, day_at, workload_uid, model, workspace_id, busy, idle, starting, unmeasured, lost,
                          free, faulty)
VALUES ('c1', :day_at, :name, 'H100', :number, :busy, 1, 0, 0, 0, :busy, 0)
"""
ADD_HOUR = """
INSERT INTO ledger (cluster_id, hour_at, workload_uid, model, workspace_id, namespace, user_id, busy, idle, starting,
                    unmeasured, faulty, free)
VALUES ('c1', :day_at, :name, 'H100', :number, :name, :name, :busy, 1, 0, 0, 0, :busy)
"""


def fill(transaction: Transaction) -> None:
    """Two that held as good as the same for five days, and one hour of each before and after."""
    for number, name, more in ((1, "one", 0), (2, "two", 1)):
        row = {"number": number, "name": name}
        for day in range(DAYS):
            params = {**row, "day_at": FIRST + day * DAY_MS, "busy": HUGE + (more if day == 2 else 0)}
            transaction.execute(ADD_DAY, params)
            transaction.execute(ADD_WORKLOAD_DAY, params)
        for hour in (FIRST - HOUR_MS, FIRST + DAYS * DAY_MS):
            transaction.fetch_one("SELECT create_month_partitions(:at)", {"at": hour})
            transaction.execute(ADD_HOUR, {**row, "day_at": hour, "busy": HUGE})


def query(by: UsageGroupBy, **fields: object) -> UsageQuery:
    known = {"from_at": FIRST - HOUR_MS, "to_at": FIRST + DAYS * DAY_MS + HOUR_MS, "cluster_ids": ("c1",)}
    return UsageQuery(group_by=by, label="team" if by is UsageGroupBy.LABEL else "", **{**known, **fields})  # type: ignore[arg-type]


@pytest.fixture
def filled(store: Store, loop_run: LoopRun) -> Store:
    loop_run(store.write(fill))
    return store


@pytest.mark.parametrize("by", list(UsageGroupBy))
def test_amounts_beyond_64_bits_add_up_exactly_whatever_a_report_is_by(
    filled: Store, loop_run: LoopRun, by: UsageGroupBy
) -> None:
    found = loop_run(filled.read(lambda tx: reports.list_groups(tx, query(by), PageRequest(0, 10))))
    whole = 2 * (DAYS + 2) * HUGE + 1
    assert whole > 1 << 63
    assert sum(group.total.busy for group in found.items) == whole
    assert sum(group.total.idle for group in found.items) == 2 * (DAYS + 2)
    assert sum(group.total.free for group in found.items) == whole
    totals = loop_run(filled.read(lambda tx: reports.totals_by_model(tx, query(by))))
    assert (totals["H100"].busy, totals["H100"].allocated) == (whole, whole + 2 * (DAYS + 2))


@pytest.mark.parametrize("sort", ["allocated", "busy"])
@pytest.mark.parametrize("by", [UsageGroupBy.WORKSPACE, UsageGroupBy.USER, UsageGroupBy.WORKLOAD])
def test_rows_that_differ_by_one_milli_gpu_millisecond_are_in_order(
    filled: Store, loop_run: LoopRun, by: UsageGroupBy, sort: str
) -> None:
    def keys(*, descending: bool) -> list[str]:
        asked = query(by, sort=sort, descending=descending)
        return [
            group.key
            for group in loop_run(filled.read(lambda tx: reports.list_groups(tx, asked, PageRequest(0, 10)))).items
        ]

    more, less = ("2", "1") if by is UsageGroupBy.WORKSPACE else ("two", "one")
    assert keys(descending=True) == [more, less]
    assert keys(descending=False) == [less, more]
