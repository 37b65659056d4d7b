"""The past in a store: there after the first start, taken up after a crash, and only continued by the next."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import LoopRun
from tests.integration.simulated.harness import BEGIN, SimulationClock

from stoker.demo.backfill import runner
from stoker.demo.setup import Demo, open_demo
from stoker.domain.clock import DAY_MS
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.metrics.series import DeviceAllocation, TimeRange
from stoker.domain.settings.schema import Settings
from stoker.domain.workload.phase import Phase
from stoker.engines.model import FullSync, LogRef
from stoker.engines.simulated.output.pod_log import SimulatedPodLog
from stoker.store.db.base import Store, T, Transaction, TransactionFn
from stoker.store.telemetry import gpu_samples, log_chunks, training
from stoker.store.usage import snapshots
from stoker.store.workloads import rows as workload_rows
from stoker.store.workloads import workload_list
from stoker.telemetry.idle.backfill import backfill_idle
from stoker.telemetry.query.local import LocalBackend
from stoker.telemetry.training_logs import TrainingParser

HOUR = 3_600_000
DAYS = 0.6
UIDS = "SELECT uid FROM workload ORDER BY uid"
ROWS = """
SELECT (SELECT COUNT(*) FROM workload), (SELECT COUNT(*) FROM workload_condition),
       (SELECT COUNT(*) FROM phase_interval), (SELECT COUNT(*) FROM pod), (SELECT COUNT(*) FROM allocation),
       (SELECT COUNT(*) FROM training_chunk), (SELECT COUNT(*) FROM sample_block), (SELECT COUNT(*) FROM sample_tick),
       (SELECT COUNT(*) FROM gpu_availability), (SELECT COUNT(*) FROM allocation_snapshot)
"""
SPANS = """
SELECT node, device, from_at, COALESCE(to_at, 9000000000000)
FROM allocation
ORDER BY node, device, from_at
"""
HELD_AT = """
SELECT workload_uid, SUM(gpu_milli)
FROM allocation
WHERE from_at <= {at}
  AND COALESCE(to_at, 9000000000000) > {at}
GROUP BY workload_uid
ORDER BY workload_uid
"""
TICKS = "SELECT at FROM sample_tick ORDER BY at"


class BackfillHarness:
    """A demo on a store, with a clock that is moved by hand."""

    def __init__(self, store: Store, folder: Path, run: LoopRun) -> None:
        self.store = store
        self.clock = SimulationClock()
        self.run = run
        self._folder = folder
        self._demo: Demo | None = None
        self._count = 0

    def open(self, store: Store | None = None, **settings: object) -> Demo:
        self.close()
        given = {"demo_gpus": 64, "demo_days": DAYS, "seed": 5, **settings}
        self._demo = self.run(
            open_demo(store or self.store, Settings(**given), self._folder, self.clock, self._bytes)  # type: ignore[arg-type]
        )
        return self._demo

    def close(self) -> None:
        if self._demo is not None:
            self.run(self._demo.engine.close())
            self._demo = None

    def rows(self, sql: str = ROWS) -> list[tuple[int, ...]]:
        return self.run(self.store.read(lambda tx: tx.fetch_all(sql)))

    def _bytes(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(count)


@pytest.fixture
def harness(store: Store, tmp_path: Path, loop_run: LoopRun) -> Iterator[BackfillHarness]:
    made = BackfillHarness(store, tmp_path / "folder", loop_run)
    yield made
    made.close()


class CrashingStore:
    """A store that fails for good after so many writes, as a kill does."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._left = writes
        self.write_inline = self.write
        self.name = store.name
        self.read = store.read
        self.read_inline = store.read_inline
        self.close = store.close
        self.check_disk_space = store.check_disk_space

    async def write(self, change: TransactionFn[T]) -> T:
        self._left -= 1
        if self._left < 0:
            raise StokerError(ErrorCode.UNAVAILABLE, "cut off")
        return await self._store.write(change)


def test_the_first_start_leaves_a_past(harness: BackfillHarness) -> None:
    demo = harness.open()
    (counts,) = harness.rows()
    assert all(count > 0 for count in counts), counts
    running = [pod for pod in demo.engine.list_pods() if not pod.is_finished(BEGIN)]
    assert running, "and what runs goes on in the engine"
    for before, after in zip(found := harness.rows(SPANS), found[1:], strict=False):
        assert before[:2] != after[:2] or before[3] <= after[2]


def test_gpus_are_there_since_there_are_readings_of_them(harness: BackfillHarness) -> None:
    harness.open()
    since = BEGIN - round(DAYS * DAY_MS)
    assert {row[0] for row in harness.rows("SELECT MIN(from_at) FROM gpu_availability GROUP BY node, device")} == {
        since
    }
    [(earliest,)] = harness.rows("SELECT MIN(from_at) FROM allocation")
    assert earliest < since, "and are held by what came before"


def test_what_the_store_holds_is_what_the_engine_reports(harness: BackfillHarness) -> None:
    demo = harness.open()
    active = harness.run(
        harness.store.read(lambda tx: workload_rows.unfinished_of_cluster(tx, demo.tenants.cluster.id))
    )

    async def first() -> FullSync:
        async for report in demo.engine.watch():
            assert isinstance(report, FullSync)
            return report
        raise AssertionError

    reported = {pod.workload_uid for pod in harness.run(first()).pods}
    assert reported == {each.uid for each in active if each.phase is not Phase.PENDING}


def test_readings_follow_the_allocations(harness: BackfillHarness) -> None:
    demo = harness.open()
    held = harness.rows("SELECT node, device, from_at, to_at FROM allocation WHERE to_at - from_at > 3600000 LIMIT 20")
    assert held
    series = LocalBackend(harness.store)
    for node, device, since, to in held:
        if since < BEGIN - DAYS * 24 * HOUR:
            continue
        span = TimeRange(since - since % 300_000, to, 300_000)
        holding = DeviceAllocation(str(node), device, since, to)
        lines = harness.run(series.query_range(demo.tenants.cluster.id, [holding], [GpuMetric.MEMORY_USED], span))
        points = lines[GpuMetric.MEMORY_USED][0].points
        assert len(points) >= (to - since) // 300_000 - 2


def test_the_past_says_for_how_long_gpus_have_been_idle(harness: BackfillHarness) -> None:
    demo = harness.open(demo_gpus=256, seed=1)
    idle = harness.run(harness.store.read(lambda tx: backfill_idle(tx, demo.tenants.cluster.id, 1.0, BEGIN)))
    assert min(each.since for each in idle) < BEGIN - HOUR
    [(earliest,)] = harness.rows("SELECT MIN(running_since) FROM workload WHERE ended_at IS NULL")
    assert min(each.since for each in idle) >= earliest


def test_training_of_the_past_has_its_points(harness: BackfillHarness) -> None:
    harness.open()
    (uid,) = harness.rows("SELECT workload_uid FROM training_chunk ORDER BY points DESC LIMIT 1")[0]
    points = harness.run(harness.store.read(lambda tx: training.read_points(tx, str(uid), 0, BEGIN)))
    assert "loss" in points.names
    losses = points.value[points.metric == points.names.index("loss")]
    assert losses[0] > losses[-1]


def test_training_that_has_ended_has_its_last_report(harness: BackfillHarness) -> None:
    harness.open()
    ended = harness.rows(
        "SELECT workload_uid, uid, ended_at FROM pod WHERE ended_at IS NOT NULL AND started_at IS NOT NULL"
    )
    last = 0
    for workload, uid in [(workload, uid) for workload, uid, at in ended if at > BEGIN - 24 * HOUR]:
        lines = harness.run(harness.store.read(lambda tx, u=str(uid): log_chunks.read_lines(tx, u, 0)))
        parser = TrainingParser()
        said = [each.at for at, text in lines for each in parser.parse(text, at)]
        if said:
            points = harness.run(harness.store.read(lambda tx, w=str(workload): training.read_points(tx, w, 0, BEGIN)))
            assert said[-1] in points.at
            last += 1
    assert last


def test_what_ended_lately_has_kept_its_log(harness: BackfillHarness) -> None:
    harness.open()
    ended = harness.rows("SELECT uid, ended_at FROM pod WHERE ended_at IS NOT NULL AND started_at IS NOT NULL")
    lately = [uid for uid, at in ended if at > BEGIN - 24 * HOUR]
    assert lately
    for uid in lately:
        lines = harness.run(harness.store.read(lambda tx, u=str(uid): log_chunks.read_lines(tx, u, 0)))
        assert lines
        assert [at for at, _ in lines] == sorted(at for at, _ in lines)


def test_what_still_runs_is_read_on_from_where_its_past_ends(harness: BackfillHarness) -> None:
    demo = harness.open(demo_gpus=256)
    running = [pod for pod in demo.engine.list_pods() if pod.has_started(BEGIN) and not pod.is_finished(BEGIN)]
    assert running
    parsed = 0
    for pod in running:
        length = SimulatedPodLog(pod).line_count(BEGIN)
        place = harness.run(harness.store.read(lambda tx, u=pod.uid: log_chunks.collected_position(tx, u)))
        assert place == length
        kept = harness.run(harness.store.read(lambda tx, u=pod.uid: log_chunks.read_lines(tx, u, 0)))
        printed = harness.run(demo.engine.read_logs(LogRef(pod.uid), length - len(kept), 10_000))
        assert kept == [(line.at, line.text) for line in printed]
        uid = pod.attempt.workload_uid
        place = harness.run(harness.store.read(lambda tx, w=uid, u=pod.uid: training.parsed_position(tx, w, u)))
        assert place in {0, length}
        parsed += place > 0
    assert parsed


def test_the_last_hour_is_read_every_quarter_of_a_minute(harness: BackfillHarness) -> None:
    harness.open()
    ticks = np.array([at for (at,) in harness.rows(TICKS)])
    assert ticks[-1] <= BEGIN
    assert BEGIN - ticks[-1] < 15_000
    assert set(np.diff(ticks[ticks > BEGIN - HOUR]).tolist()) <= {15_000}


@pytest.mark.parametrize("seconds", [4, 20, 70])
def test_no_reading_is_missed_however_short_the_gap(harness: BackfillHarness, seconds: int) -> None:
    harness.open()
    harness.clock.at += seconds * 1000
    harness.open()
    ticks = np.array([at for (at,) in harness.rows(TICKS)])
    assert harness.clock.at - ticks[-1] < 15_000
    assert set(np.diff(ticks[ticks > BEGIN - HOUR]).tolist()) <= {15_000}


class SlowClock(SimulationClock):
    """Every look at it takes a while."""

    def now(self) -> int:
        self.at += 400
        return self.at


def test_what_passes_while_the_past_is_written_is_filled_too(harness: BackfillHarness) -> None:
    harness.clock = SlowClock()
    harness.open()
    ticks = np.array([at for (at,) in harness.rows(TICKS)])
    assert harness.clock.at - ticks[-1] < 15_000 + 5_000
    assert set(np.diff(ticks[ticks > BEGIN - HOUR]).tolist()) <= {15_000}


def test_a_second_start_fills_only_the_gap(harness: BackfillHarness) -> None:
    demo = harness.open()
    before, old = harness.rows()[0], {uid for (uid,) in harness.rows(UIDS)}
    harness.clock.at += 3 * HOUR
    harness.open()
    after, new = harness.rows()[0], {uid for (uid,) in harness.rows(UIDS)}
    assert old < new
    assert 0 < after[0] - before[0] < before[0]
    newest = harness.run(harness.store.read(lambda tx: gpu_samples.latest_sample_at(tx, demo.tenants.cluster.id)))
    assert harness.clock.at - newest < 15_000
    submitted = [at for (at,) in harness.rows("SELECT submitted_at FROM workload")]
    assert sum(at > BEGIN for at in submitted) == after[0] - before[0]
    hours = harness.rows("SELECT hour_at, COUNT(*), SUM(ticks) FROM sample_block GROUP BY hour_at ORDER BY hour_at")
    assert all(ticks <= 240 for _, _, ticks in hours)


def test_a_start_at_once_fills_nothing(harness: BackfillHarness) -> None:
    harness.open()
    before = harness.rows()
    harness.clock.at += 14_999 - BEGIN % 15_000  # nothing would have been read yet
    harness.open()
    assert harness.rows() == before


@pytest.mark.parametrize("writes", [1, 2, 3, 5, 9])
def test_a_fill_that_was_cut_off_is_taken_up_where_it_was(
    harness: BackfillHarness, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "WORKLOAD_BATCH_SIZE", 20)
    monkeypatch.setattr(runner, "HOUR_BATCH_SIZE", 2)
    with pytest.raises(StokerError):
        harness.open(CrashingStore(harness.store, writes))
    demo = harness.open()
    stretch = harness.run(harness.store.read(runner._read_segment))
    assert (stretch.number, stretch.done) == (1, 1)
    assert stretch.lives == harness.rows()[0][0]
    for before, after in zip(found := harness.rows(SPANS), found[1:], strict=False):
        assert before[:2] != after[:2] or before[3] <= after[2]
    segments = harness.run(
        harness.store.read(lambda tx: gpu_samples.sealed_blocks(tx, demo.tenants.cluster.id, 0, BEGIN))
    )
    assert len({each.hour_at for each in segments}) == len(segments), "no hour twice"


def test_other_flags_are_refused_with_a_way_out(harness: BackfillHarness) -> None:
    harness.open()
    with pytest.raises(StokerError) as refused:
        harness.open(seed=6)
    assert "seed 5" in refused.value.message
    assert "--data-dir" in refused.value.hint


def test_every_workload_can_be_listed_with_its_owner(harness: BackfillHarness) -> None:
    demo = harness.open()
    people = {person.id for team in demo.tenants.users.values() for person in team}

    def owners(transaction: Transaction) -> set[str]:
        return {
            entry.workload.user_id
            for (uid,) in transaction.fetch_all(UIDS)
            if (entry := workload_list.find(transaction, uid)) is not None
        }

    assert harness.run(harness.store.read(owners)) <= people


def test_the_last_day_has_its_snapshots_as_if_they_had_been_taken_then(harness: BackfillHarness) -> None:
    demo = harness.open(snapshot_seconds=600)
    cluster = demo.tenants.cluster.id
    during = partial(snapshots.in_range, cluster_id=cluster, from_at=0, to_at=BEGIN, details=True, limit=1000)
    found = harness.run(harness.store.read(during))
    step = 600_000
    first = BEGIN - round(DAYS * 24 * HOUR)
    assert [each.at for each in found] == list(range(first // step * step + step, BEGIN + 1, step))
    last = found[-1]
    held = [tuple(row) for row in harness.rows(HELD_AT.format(at=last.at))]
    assert [(each.uid, each.gpu_milli) for each in last.workloads or ()] == held
    assert {each.gpus for each in found} == {demo.engine.fleet.gpu_count}
    assert any((each.utilization or 0) > 0.3 for each in last.workloads or ())
    assert all(each.annotations["cost-center"] for each in last.workloads or ())
