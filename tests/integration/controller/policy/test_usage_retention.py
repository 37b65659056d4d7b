"""How long usage, snapshots and device indexes are retained, and that a report never shows part of a day."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.concurrency.supervisor import LoopRegistry
from stoker.controller.policy.retention import purge_once
from stoker.controller.reconcile.observe import record_nodes
from stoker.controller.usage.rollup import Rollup
from stoker.domain.access.identity import Cluster, QueuePolicy, Quota, UserKind, Workspace
from stoker.domain.access.permissions import Actor
from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.queries.pages import PageRequest
from stoker.domain.settings.schema import Settings
from stoker.domain.usage.hours import HoursQuery
from stoker.domain.usage.ledger import (
    GPU_HOUR,
    CostOwner,
    HourUsage,
    LedgerEntry,
    MemoryStats,
    ReplicaStats,
    UsageCategory,
    UtilizationStats,
    WorkloadUsage,
)
from stoker.domain.usage.report import UsageGroupBy
from stoker.services.context import Context
from stoker.services.usage.hours import UsageService
from stoker.services.usage.reports import UsageReportRequest, UsageReportService
from stoker.store.cluster import clusters, gpu_availability
from stoker.store.db.base import Store, Transaction, TransactionFn
from stoker.store.db.notify import ChangeNotifier
from stoker.store.retention import USAGE_TABLES
from stoker.store.telemetry import gpu_samples
from stoker.store.usage import closed_hours, snapshots, value_history
from stoker.store.usage.closed_hours import ClosedHour
from stoker.store.usage.value_history import PastRequest
from stoker.telemetry.tsdb.codec import encode_tick
from stoker.usage.rollups import build_rollups

pytestmark = pytest.mark.slow

T = TypeVar("T")
CLUSTER = "c1"
TODAY = 1_770_000_000_000 // DAY_MS * DAY_MS
NOW = TODAY + 5 * HOUR_MS
DAYS = 5
KEPT_DAYS = 2
"""Of five days before today, the setting keeps those from the day before yesterday on."""
OLDEST = TODAY - KEPT_DAYS * DAY_MS
SETTINGS = Settings(usage_days=KEPT_DAYS)
WORKSPACE = Workspace(
    1, "ml", "", 1, "", CLUSTER, "demo", "ml", Quota(gpu_milli=8000), QueuePolicy.FIFO, False, 0, 0, 1
)
ADMIN = Actor("u0", "admin", UserKind.PERSON, True, {})
PAYERS = {
    uid: CostOwner(uid, f"{uid}-x2k4b", uid, "Job", "ml", 1, "u1", "Running", 1000, {"team": uid}, {})
    for uid in ("a", "b")
}


def fill(transaction: Transaction) -> None:
    """A job holds a GPU in every hour of five days, another one in every second hour; nobody holds the third."""
    clusters.add(transaction, Cluster(CLUSTER, "demo", "simulated", "", 0, capabilities=SIMULATED_CAPABILITIES))
    hours = [TODAY - DAYS * DAY_MS + number * HOUR_MS for number in range(DAYS * 24)]
    closed_hours.mark_due(transaction, CLUSTER, hours)
    closed = []
    for number, hour in enumerate(hours):
        held = ["a"] if number % 2 else ["a", "b"]
        entries = (
            LedgerEntry("", "H100", UsageCategory.FREE, GPU_HOUR),
            *(LedgerEntry(u, "H100", UsageCategory.BUSY, GPU_HOUR) for u in held),
        )
        uses = tuple(
            WorkloadUsage(uid, GPU_HOUR, 1000, UtilizationStats(), MemoryStats(), ReplicaStats()) for uid in held
        )
        use = HourUsage(hour, 3, 3 * GPU_HOUR, entries, uses, UtilizationStats())
        closed.append(ClosedHour(build_rollups(use, PAYERS, {}), entries, PAYERS))
    closed_hours.write_hours(transaction, CLUSTER, closed, NOW)
    for due in closed_hours.due_hours(transaction, CLUSTER, NOW, 1000):
        closed_hours.mark_closed(transaction, CLUSTER, due, NOW)
    node = Node("n1", 1, 1, (Device(0, "g0", "H100"),))
    for day in range(DAYS, 0, -1):  # it comes and goes once a day, and is there now
        at = TODAY - day * DAY_MS
        gpu_availability.sync_intervals(transaction, CLUSTER, [node], at)
        gpu_availability.close_node_intervals(transaction, CLUSTER, ["n1"], at + HOUR_MS)
    gpu_availability.sync_intervals(transaction, CLUSTER, [node], TODAY)
    days = [TODAY - day * DAY_MS for day in range(DAYS + 1)]
    value_history.add_past_requests(transaction, [PastRequest("a", day, 1000) for day in days])
    for day in days:
        value_history.add_past_quota(transaction, WORKSPACE, day)


def oldest(transaction: Transaction) -> dict[str, int]:
    """When the oldest row of each table ends, or is of."""
    times = dict.fromkeys(USAGE_TABLES, "hour_at") | {"usage_day": "day_at", "workload_day": "day_at"}
    times |= {"gpu_availability": "to_at", "workload_request_history": "until_at", "quota_history": "until_at"}
    found = {}
    for table, time in times.items():
        row = transaction.fetch_one(f"SELECT MIN({time}) FROM {table}")  # noqa: S608 - the words are the tests' own
        found[table] = row[0] if row else 0
    return found


class ObservedStore:
    """A store that lets somebody look after every write."""

    def __init__(self, store: Store, look: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._look = look

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, change: TransactionFn[T]) -> T:
        done = await self._store.write(change)
        await self._look()
        return done


class UsageReader:
    """Who asks for reports and lists."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = ManualClock(NOW)
        self.context = Context(
            store, self.clock, lambda size: b"0" * size, SETTINGS, "", ChangeNotifier(), LoopRegistry()
        )

    async def forget(self, store: Any = None) -> int:
        work = asyncio.create_task(purge_once(store or self.store, SETTINGS, self.clock))
        while not work.done():
            await asyncio.wait([work], timeout=0.001)  # without a pause the loop would keep the store's threads waiting
            self.clock.advance(1 if self.clock.sleepers else 0)
        return work.result()

    async def hours(self, from_at: int, to_at: int, by: UsageGroupBy = UsageGroupBy.WORKLOAD) -> float:
        """GPU-hours that were held, and those of the rows."""
        asked = UsageReportRequest(by=by, since=from_at, until=to_at)
        report = await UsageReportService(self.context).read_report(ADMIN, asked, PageRequest(0, 100))
        assert sum(row.amounts.allocated for row in report.rows.items) == report.totals.allocated
        return report.totals.allocated / GPU_HOUR

    async def listed(self, from_at: int, to_at: int) -> int:
        found = await UsageService(self.context).list_workload_hours(
            None, HoursQuery(CLUSTER, from_at, to_at - 1), PageRequest(0, 1)
        )
        return found.total


@pytest.fixture
def reader(store: Store, loop_run: LoopRun) -> UsageReader:
    loop_run(store.write(fill))
    return UsageReader(store)


def test_usage_is_forgotten_by_whole_days_in_every_table(reader: UsageReader, loop_run: LoopRun) -> None:
    before = loop_run(reader.store.read(oldest))
    assert set(before.values()) == {TODAY - DAYS * DAY_MS, TODAY - DAYS * DAY_MS + HOUR_MS}
    assert loop_run(reader.forget()) == 0, "first it is no longer shown"
    assert loop_run(reader.store.read(oldest)) == before
    assert loop_run(reader.forget()) > 0
    after = loop_run(reader.store.read(oldest))
    assert after == dict.fromkeys(USAGE_TABLES, OLDEST) | {"gpu_availability": OLDEST + HOUR_MS}
    assert loop_run(reader.hours(TODAY - DAYS * DAY_MS, NOW)) == KEPT_DAYS * 36
    assert loop_run(reader.listed(0, NOW)) == KEPT_DAYS * 36
    assert loop_run(reader.forget()) == 0


def test_what_is_asked_for_begins_where_usage_is_kept_from(reader: UsageReader, loop_run: LoopRun) -> None:
    loop_run(reader.forget())
    reports = UsageReportService(reader.context)
    found = loop_run(reports.read_report(ADMIN, UsageReportRequest(since=0, until=NOW), PageRequest(0, 100)))
    assert (found.scope.since, found.scope.query.from_at, found.scope.retained_from) == (0, OLDEST, OLDEST)
    gone = loop_run(
        reports.read_report(ADMIN, UsageReportRequest(since=0, until=TODAY - 4 * DAY_MS), PageRequest(0, 100))
    )
    assert (gone.totals.allocated, gone.rows.total) == (0, 0)


def test_no_reader_sees_a_part_of_a_day_while_it_is_forgotten(
    reader: UsageReader, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.controller.policy.retention.DELETE_BATCH_SIZE", 25)
    days = [(TODAY - day * DAY_MS, TODAY - (day - 1) * DAY_MS) for day in range(DAYS, 0, -1)]
    seen: set[tuple[float, ...]] = set()

    async def look() -> None:
        for begin, end in days:
            noon = begin + DAY_MS // 2
            whole = await reader.hours(begin, end)
            assert whole in (0, 36)
            assert whole == await reader.hours(begin, end, UsageGroupBy.WORKSPACE)
            assert whole == await reader.hours(begin, noon) + await reader.hours(noon, end), "by hours as by days"
            assert whole == await reader.listed(begin, end)
        seen.add(tuple([await reader.hours(*day) for day in days]))

    async def story() -> None:
        for _ in range(2):
            await reader.forget(ObservedStore(reader.store, look))

    loop_run(story())
    assert seen == {(36, 36, 36, 36, 36), (0, 0, 0, 36, 36)}


def test_what_is_forgotten_is_neither_closed_again_nor_shown_when_usage_days_grows(
    reader: UsageReader, loop_run: LoopRun
) -> None:
    loop_run(reader.forget())
    loop_run(reader.store.write(lambda tx: closed_hours.mark_due_again(tx, CLUSTER, OLDEST - HOUR_MS, OLDEST)))
    loop_run(reader.forget())
    rollup = Rollup(reader.store, CLUSTER, ManualClock(TODAY + HOUR_MS // 2), 1.0)
    assert loop_run(rollup.catch_up()) == 0
    reader.clock.advance(1)
    loop_run(purge_once(reader.store, Settings(usage_days=400), reader.clock))
    assert loop_run(reader.store.read(closed_hours.retained_from)) == OLDEST


def test_a_cluster_that_nobody_drove_for_long_has_no_hours_closed_that_are_not_kept(
    store: Store, loop_run: LoopRun
) -> None:
    def begin(transaction: Transaction) -> None:
        clusters.add(transaction, Cluster(CLUSTER, "demo", "simulated", "", 0, capabilities=SIMULATED_CAPABILITIES))
        record_nodes(transaction, CLUSTER, [Node("n1", 1, 1, (Device(0, "g0", "H100"),))], TODAY - 30 * DAY_MS)
        closed_hours.set_retained_from(transaction, OLDEST)

    loop_run(store.write(begin))
    rollup = Rollup(store, CLUSTER, ManualClock(TODAY + HOUR_MS // 2), 1.0)
    assert loop_run(rollup.catch_up()) == KEPT_DAYS * 24


def test_snapshots_are_kept_for_their_days(store: Store, loop_run: LoopRun) -> None:
    ats = [NOW - day * DAY_MS for day in (91, 90, 1)]

    def begin(transaction: Transaction) -> None:
        for at in ats:
            snapshots.add(transaction, CLUSTER, at, 8, [], at)

    loop_run(store.write(begin))
    loop_run(purge_once(store, Settings(), ManualClock(NOW)))
    found = loop_run(store.read(lambda tx: snapshots.in_range(tx, CLUSTER, 0, NOW, details=False, limit=9)))
    assert [each.at for each in found] == ats[1:]


def test_a_list_of_gpus_goes_when_no_reading_is_kept_that_needs_it(store: Store, loop_run: LoopRun) -> None:
    tick = encode_tick({GpuMetric.UTILIZATION: np.zeros(1, np.float32)})
    old = NOW - 100 * DAY_MS

    def begin(transaction: Transaction) -> list[int]:
        clusters.add(transaction, Cluster(CLUSTER, "demo", "simulated", "", 0, capabilities=SIMULATED_CAPABILITIES))
        made = [gpu_samples.get_or_add_device_index(transaction, CLUSTER, body, 1, old) for body in (b"a", b"b", b"c")]
        gpu_samples.add_tick(transaction, CLUSTER, NOW - HOUR_MS, made[0], tick)
        packed = gpu_samples.EncodedBlock(1, b"", 128, ())
        gpu_samples.add_block(transaction, CLUSTER, NOW - NOW % HOUR_MS - DAY_MS, made[1], packed, NOW)
        return [*made, gpu_samples.get_or_add_device_index(transaction, CLUSTER, b"d", 1, NOW)]

    in_tick, in_segment, unused, new = loop_run(store.write(begin))
    assert loop_run(purge_once(store, Settings(), ManualClock(NOW))) == 1
    kept = loop_run(
        store.read(lambda tx: [gpu_samples.has_device_index(tx, each) for each in (in_tick, in_segment, unused, new)])
    )
    assert kept == [True, True, False, True]
