"""Fills the store with the history of the demo: all of it at the first start, later the time since the last one.

The history is generated in segments. The progress of a segment is written together with its rows, and generating it
again gives the same rows, so an interrupted backfill continues where it stopped.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from itertools import islice

from msgspec import Struct, structs

from stoker.concurrency.pipelined_writer import PipelinedWriter
from stoker.demo.backfill import logs, samples, snapshots, training
from stoker.demo.backfill.samples import SampledHour
from stoker.demo.history import ExternalAllocation, HistorySimulation
from stoker.demo.records import HistoricalWorkload, to_workload_history
from stoker.demo.tenants import DemoTenants
from stoker.domain.clock import DAY_MS, HOUR_MS, Clock
from stoker.engines.simulated import SimulatedEngine
from stoker.engines.simulated.pods.registry import allocation_of
from stoker.engines.simulated.signals.sensors import SimulatedAllocation
from stoker.store.cluster import gpu_availability
from stoker.store.db.base import Store, Transaction
from stoker.store.sql import sequences
from stoker.store.telemetry import gpu_samples, log_chunks
from stoker.store.telemetry import training as training_store
from stoker.store.telemetry.log_chunks import LogChunk
from stoker.store.telemetry.training import TrainingBatch
from stoker.store.workloads import backfill, pods
from stoker.store.workloads import rows as workload_rows
from stoker.store.workloads.backfill import WorkloadHistory
from stoker.telemetry.tsdb import device_index

WARM_UP_MS = 12 * HOUR_MS
"""How long before the first sample the first workloads are submitted, so that the cluster is not empty at the first
sample."""
EVENT_HISTORY_MS = 7 * DAY_MS
"""How far back the event stream goes."""
MAX_SEGMENTS = 4
MAX_LOG_BYTES = 2**20
WORKLOAD_BATCH_SIZE = 400
HOUR_BATCH_SIZE = 48
COUNTER_PREFIX = "demo "
"""The prefix of the sequences that store the progress of a segment."""

log = logging.getLogger("stoker.demo")


class BackfillSegment(Struct, frozen=True):
    """A period of history and its progress: `lives` workloads are written, and samples up to `read_until`."""

    number: int
    start: int
    end: int
    begins: int
    """Its first workload is submitted after this time."""
    lives: int
    read_until: int
    done: int = 0


class Backfill:
    def __init__(
        self, store: Store, engine: SimulatedEngine, tenants: DemoTenants, clock: Clock, snapshot_seconds: int
    ) -> None:
        self._store = store
        self._engine = engine
        self._tenants = tenants
        self._clock = clock
        self._slot_ms = snapshot_seconds * 1000
        self._cluster_id = tenants.cluster.id

    async def run(self, days: float) -> None:
        """Finish an interrupted segment, then generate all time up to now; repeated while generating takes long."""
        segment = await self._store.read(_read_segment)
        if segment.number and not segment.done:
            await self._run_segment(segment)
        for _ in range(MAX_SEGMENTS):
            fresh = await self._next_segment(days)
            if fresh is None:
                return
            await self._store.write(lambda tx, s=fresh: self._begin_segment(tx, s))
            await self._run_segment(fresh)

    async def _next_segment(self, days: float) -> BackfillSegment | None:
        """The time without history, if samples would have been taken in it."""
        segment, now = await self._store.read(_read_segment), self._clock.now()
        start = now - round(days * DAY_MS)
        if segment.number:
            last_sample_at = await self._store.read(lambda tx: gpu_samples.latest_sample_at(tx, self._cluster_id))
            start = min(now, max(segment.end, last_sample_at, start))
            if not len(samples.sample_times(start, now)):
                return None
        begins = await self._store.read(lambda tx: pods.newest_created_at(tx, self._cluster_id))
        warm = 0 if segment.number else min(round(WARM_UP_MS / self._engine.speed), now - start)
        return BackfillSegment(segment.number + 1, start, now, max(begins, start - warm), 0, start)

    def _begin_segment(self, transaction: Transaction, segment: BackfillSegment) -> None:
        """Write the GPU availability since the first sample, and the beginning of the segment."""
        faults, fleet = self._engine.faults, self._engine.fleet
        since = segment.begins if segment.number > 1 else segment.start
        if segment.number == 1:
            there = [faults.node_at(place, since) for place in range(len(fleet.nodes))]
            gpu_availability.sync_intervals(transaction, self._cluster_id, there, since)
        failed = [(each.from_at, each.node_index) for each in faults.starting_between(since, segment.end)]
        recovered = [(each.to_at, each.node_index) for each in faults.ending_between(since, segment.end)]
        for at, place in sorted(failed + recovered):
            gpu_availability.sync_intervals(transaction, self._cluster_id, [faults.node_at(place, at)], at)
        _store_segment(transaction, segment)

    async def _run_segment(self, segment: BackfillSegment) -> None:
        began = time.monotonic()
        hours = (segment.end - segment.start) / HOUR_MS
        log.info("demo: simulating %.1f hours of history", hours)
        engine = self._engine
        there = await self._store.read(lambda tx: self._occupied_slots(tx, segment.begins))
        before = [allocation_of(pod) for pod in engine.list_pods() if pod.plan.created_at <= segment.begins]
        made = HistorySimulation(self._tenants, engine.fleet, engine.faults, there, engine.speed)
        jobs = await asyncio.to_thread(made.run, segment.begins, segment.end)
        engine.adopt_pods(pod for job in jobs for pod in job.live_pods)
        held = before + [allocation_of(pod) for job in jobs for pod in job.pods]
        both = self._write_workloads(jobs, segment), self._write_samples(held, segment)
        for failed in await asyncio.gather(*both, return_exceptions=True):
            if failed is not None:
                raise failed
        await self._write_snapshots(segment)
        await self._store.write(lambda tx: sequences.set_mark(tx, COUNTER_PREFIX + "done", 1))
        log.info(
            "demo: wrote %d workloads and %.1f hours of samples in %.1f s", len(jobs), hours, time.monotonic() - began
        )

    async def _write_workloads(self, jobs: Sequence[HistoricalWorkload], segment: BackfillSegment) -> None:
        fleet, end = self._engine.fleet, segment.end
        todo = iter(jobs[segment.lives :])
        written = segment.lives
        async with PipelinedWriter() as writer:
            while some := list(islice(todo, WORKLOAD_BATCH_SIZE)):
                written += len(some)
                histories = [to_workload_history(job, fleet, end) for job in some]
                training_batches = [batch for job in some for batch in training.build_batches(job, fleet, end)]
                log_batch = [chunk for job in some for chunk in logs.build_log_chunks(job, fleet, end)]
                made = partial(
                    _insert_workloads,
                    histories=histories,
                    training_batches=training_batches,
                    log_batch=log_batch,
                    written=written,
                )
                await writer.submit(self._store.write(partial(made, events_since=end - EVENT_HISTORY_MS)))
                await asyncio.sleep(0)
        log.info("demo: wrote %d workloads", written)

    async def _write_samples(self, held: Sequence[SimulatedAllocation], segment: BackfillSegment) -> None:
        engine, now = self._engine, self._clock.now()
        gpu_index = device_index.build_device_index(engine.fleet.nodes)
        body = device_index.encode(gpu_index)
        number = await self._store.write(
            lambda tx: gpu_samples.get_or_add_device_index(
                tx, self._cluster_id, body, gpu_index.gpu_count, segment.start
            )
        )
        open_hour = now // HOUR_MS * HOUR_MS
        made = samples.sample_hours(
            engine.sensors, engine.fleet, gpu_index, held, segment.read_until, segment.end, open_hour
        )
        async with PipelinedWriter() as writer:
            while some := await asyncio.to_thread(lambda: list(islice(made, HOUR_BATCH_SIZE))):
                change = partial(_insert_hours, cluster_id=self._cluster_id, index_id=number, hours=some, now=now)
                await writer.submit(self._store.write(change))
                part = (some[-1].until - segment.start) / max(1, segment.end - segment.start)
                log.info("demo: wrote %.0f %% of the samples", 100 * part)

    async def _write_snapshots(self, segment: BackfillSegment) -> None:
        """Write the snapshots of the last day, which is the default range of readers."""
        since, step = max(segment.start, segment.end - DAY_MS), self._slot_ms
        for hour_at in range(since // HOUR_MS * HOUR_MS, segment.end + 1, HOUR_MS):
            first, last = max(since + 1, hour_at), min(segment.end, hour_at + HOUR_MS - 1)
            slots = range(-(-first // step) * step, last + 1, step)
            take = partial(snapshots.backfill_snapshots, cluster_id=self._cluster_id, hour_at=hour_at, slots=slots)
            await self._store.write(partial(take, gpus=self._engine.fleet.gpu_count))

    def _occupied_slots(self, transaction: Transaction, begins: int) -> list[ExternalAllocation]:
        """The allocations at the beginning of the segment, with their ends as the engine computes them."""
        ends = {pod.uid: pod.termination() for pod in self._engine.list_pods()}
        home = {each.uid: each.namespace for each in workload_rows.unfinished_of_cluster(transaction, self._cluster_id)}
        found = []
        for pod in pods.unreleased(transaction, self._cluster_id):
            end = ends.get(pod.uid)
            if pod.created_at <= begins and (end is None or end.at > begins):
                until = end.at if end is not None else None
                allocation = ExternalAllocation(
                    (pod.node, pod.devices), pod.resources, home.get(pod.workload_uid, ""), until
                )
                found.append(allocation)
        return found


def _read_segment(transaction: Transaction) -> BackfillSegment:
    return BackfillSegment(
        *(sequences.current_value(transaction, COUNTER_PREFIX + name) for name in BackfillSegment.__struct_fields__)
    )


def _store_segment(transaction: Transaction, segment: BackfillSegment) -> None:
    for name, value in structs.asdict(segment).items():
        sequences.set_mark(transaction, COUNTER_PREFIX + name, value)


def _insert_workloads(
    transaction: Transaction,
    histories: Sequence[WorkloadHistory],
    training_batches: Sequence[TrainingBatch],
    log_batch: Sequence[LogChunk],
    written: int,
    events_since: int,
) -> None:
    backfill.add_histories(transaction, histories, events_since)
    training_store.add_batches(transaction, training_batches)
    for chunk in log_batch:
        log_chunks.add_chunk(transaction, chunk, MAX_LOG_BYTES)
    sequences.set_mark(transaction, COUNTER_PREFIX + "lives", written)


def _insert_hours(
    transaction: Transaction, cluster_id: str, index_id: int, hours: Sequence[SampledHour], now: int
) -> None:
    for hour in hours:
        if hour.packed is not None:
            gpu_samples.add_block(transaction, cluster_id, hour.hour_at, index_id, hour.packed, now)
        for at, stripes in hour.ticks:
            gpu_samples.add_tick(transaction, cluster_id, at, index_id, stripes)
    sequences.set_mark(transaction, COUNTER_PREFIX + "read_until", hours[-1].until)
