"""Fills the store with the past of the demo: all of it at the first start, later only what was missed.

The past is made in stretches. How far a stretch has come is written together with its rows, and making it again gives
the same rows, so a fill that was cut short is taken up where it was.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from itertools import islice

from msgspec import Struct, structs

from stoker.controller.behind import Behind
from stoker.domain.clock import DAY_MS, HOUR_MS, Clock
from stoker.engines.simulated import SimulatedEngine
from stoker.engines.simulated.readings import Held
from stoker.engines.simulated.roster import held_by
from stoker.server.demo import printed, readings, snapshots, training
from stoker.server.demo.lives import Job, life_of
from stoker.server.demo.past import Occupied, Past
from stoker.server.demo.people import World
from stoker.server.demo.readings import Hour
from stoker.store import counters, gpu_spans, log_chunks, past, pods, samples, workloads
from stoker.store import training as training_store
from stoker.store.base import Store, Transaction
from stoker.store.log_chunks import Chunk
from stoker.store.past import Life
from stoker.store.training import Batch
from stoker.telemetry import roster as rosters

WARM_MS = 12 * HOUR_MS
"""How long before the first reading the first workloads were submitted: nobody begins with an empty cluster."""
TOLD_MS = 7 * DAY_MS
"""How far back the event stream goes."""
MOST_STRETCHES = 4
LOG_BYTES = 2**20
LIVES_AT_ONCE = 400
HOURS_AT_ONCE = 48
MARK = "demo "
"""How the counters begin that hold a stretch."""

log = logging.getLogger("stoker.demo")


class Stretch(Struct, frozen=True):
    """From when to when, and what of it is written: so many lives, and the readings up to a moment."""

    number: int
    start: int
    end: int
    begins: int
    """After this its first workload may be submitted."""
    lives: int
    read_until: int
    done: int = 0


class Fill:
    def __init__(
        self, store: Store, engine: SimulatedEngine, world: World, clock: Clock, snapshot_seconds: int
    ) -> None:
        self._store = store
        self._engine = engine
        self._world = world
        self._clock = clock
        self._slot_ms = snapshot_seconds * 1000
        self._cluster_id = world.cluster.id

    async def run(self, days: float) -> None:
        """Finish what was begun, and then everything up to now; and again what passed while that took long."""
        stretch = await self._store.read(_read)
        if stretch.number and not stretch.done:
            await self._live(stretch)
        for _ in range(MOST_STRETCHES):
            fresh = await self._missed(days)
            if fresh is None:
                return
            await self._store.write(lambda tx, s=fresh: self._begin(tx, s))
            await self._live(fresh)

    async def _missed(self, days: float) -> Stretch | None:
        """The time of which nothing is written, if something would have been read in it."""
        stretch, now = await self._store.read(_read), self._clock.now()
        start = now - round(days * DAY_MS)
        if stretch.number:
            kept = await self._store.read(lambda tx: samples.newest(tx, self._cluster_id))
            start = min(now, max(stretch.end, kept, start))
            if not len(readings.ticks(start, now)):
                return None
        begins = await self._store.read(lambda tx: pods.newest(tx, self._cluster_id))
        warm = 0 if stretch.number else min(round(WARM_MS / self._engine.speed), now - start)
        return Stretch(stretch.number + 1, start, now, max(begins, start - warm), 0, start)

    def _begin(self, transaction: Transaction, stretch: Stretch) -> None:
        """Write what the hardware looked like since there are readings of it, and that the stretch is begun."""
        faults, machines = self._engine.faults, self._engine.machines
        since = stretch.begins if stretch.number > 1 else stretch.start
        if stretch.number == 1:
            there = [faults.node(place, since) for place in range(len(machines.nodes))]
            gpu_spans.observe(transaction, self._cluster_id, there, since)
        broken = [(each.from_at, each.place) for each in faults.between(since, stretch.end)]
        mended = [(each.to_at, each.place) for each in faults.ended(since, stretch.end)]
        for at, place in sorted(broken + mended):
            gpu_spans.observe(transaction, self._cluster_id, [faults.node(place, at)], at)
        _write(transaction, stretch)

    async def _live(self, stretch: Stretch) -> None:
        began = time.monotonic()
        hours = (stretch.end - stretch.start) / HOUR_MS
        log.info("demo: living through %.1f hours of the simulated past", hours)
        engine = self._engine
        there = await self._store.read(lambda tx: self._occupied(tx, stretch.begins))
        before = [held_by(pod) for pod in engine.pods() if pod.place.created_at <= stretch.begins]
        made = Past(self._world, engine.machines, engine.faults, there, engine.speed)
        jobs = await asyncio.to_thread(made.live, stretch.begins, stretch.end)
        engine.adopt(pod for job in jobs for pod in job.alive)
        held = before + [held_by(pod) for job in jobs for pod in job.pods]
        both = self._write_lives(jobs, stretch), self._write_readings(held, stretch)
        for failed in await asyncio.gather(*both, return_exceptions=True):
            if failed is not None:
                raise failed
        await self._write_snapshots(stretch)
        await self._store.write(lambda tx: counters.put(tx, MARK + "done", 1))
        log.info("demo: %d workloads, %.1f hours of readings in %.1f s", len(jobs), hours, time.monotonic() - began)

    async def _write_lives(self, jobs: Sequence[Job], stretch: Stretch) -> None:
        machines, end = self._engine.machines, stretch.end
        todo = iter(jobs[stretch.lives :])
        written = stretch.lives
        async with Behind() as behind:
            while some := list(islice(todo, LIVES_AT_ONCE)):
                written += len(some)
                lives = [life_of(job, machines, end) for job in some]
                said = [batch for job in some for batch in training.batches(job, machines, end)]
                kept = [chunk for job in some for chunk in printed.chunks(job, machines, end)]
                made = partial(_write_lives, lives=lives, said=said, kept=kept, written=written)
                await behind.give(self._store.write(partial(made, told_since=end - TOLD_MS)))
                await asyncio.sleep(0)
        log.info("demo: %d workloads are written", written)

    async def _write_readings(self, held: Sequence[Held], stretch: Stretch) -> None:
        engine, now = self._engine, self._clock.now()
        roster = rosters.roster_of(engine.machines.nodes)
        body = rosters.encode(roster)
        number = await self._store.write(
            lambda tx: samples.roster_for(tx, self._cluster_id, body, roster.gpus, stretch.start)
        )
        open_hour = now // HOUR_MS * HOUR_MS
        made = readings.hours(engine.sensors, engine.machines, roster, held, stretch.read_until, stretch.end, open_hour)
        async with Behind() as behind:
            while some := await asyncio.to_thread(lambda: list(islice(made, HOURS_AT_ONCE))):
                change = partial(_write_hours, cluster_id=self._cluster_id, roster_id=number, hours=some, now=now)
                await behind.give(self._store.write(change))
                part = (some[-1].until - stretch.start) / max(1, stretch.end - stretch.start)
                log.info("demo: %.0f %% of the readings", 100 * part)

    async def _write_snapshots(self, stretch: Stretch) -> None:
        """Of the last day, as far back as people ask when they say nothing else."""
        since, step = max(stretch.start, stretch.end - DAY_MS), self._slot_ms
        for hour_at in range(since // HOUR_MS * HOUR_MS, stretch.end + 1, HOUR_MS):
            first, last = max(since + 1, hour_at), min(stretch.end, hour_at + HOUR_MS - 1)
            slots = range(-(-first // step) * step, last + 1, step)
            take = partial(snapshots.take, cluster_id=self._cluster_id, hour_at=hour_at, slots=slots)
            await self._store.write(partial(take, gpus=self._engine.machines.gpus))

    def _occupied(self, transaction: Transaction, begins: int) -> list[Occupied]:
        """Who held room when the stretch began; the engine knows until when."""
        ends = {pod.uid: pod.end() for pod in self._engine.pods()}
        home = {each.uid: each.namespace for each in workloads.active(transaction, self._cluster_id)}
        found = []
        for pod in pods.held(transaction, self._cluster_id):
            end = ends.get(pod.uid)
            if pod.created_at <= begins and (end is None or end.at > begins):
                until = end.at if end is not None else None
                room = Occupied((pod.node, pod.devices), pod.resources, home.get(pod.workload_uid, ""), until)
                found.append(room)
        return found


def _read(transaction: Transaction) -> Stretch:
    return Stretch(*(counters.value(transaction, MARK + name) for name in Stretch.__struct_fields__))


def _write(transaction: Transaction, stretch: Stretch) -> None:
    for name, value in structs.asdict(stretch).items():
        counters.put(transaction, MARK + name, value)


def _write_lives(
    transaction: Transaction,
    lives: Sequence[Life],
    said: Sequence[Batch],
    kept: Sequence[Chunk],
    written: int,
    told_since: int,
) -> None:
    past.add(transaction, lives, told_since)
    training_store.add(transaction, said)
    for chunk in kept:
        log_chunks.add(transaction, chunk, LOG_BYTES)
    counters.put(transaction, MARK + "lives", written)


def _write_hours(transaction: Transaction, cluster_id: str, roster_id: int, hours: Sequence[Hour], now: int) -> None:
    for hour in hours:
        if hour.packed is not None:
            samples.add_chunks(transaction, cluster_id, hour.hour_at, roster_id, hour.packed, now)
        for at, stripes in hour.ticks:
            samples.add_tick(transaction, cluster_id, at, roster_id, stripes)
    counters.put(transaction, MARK + "read_until", hours[-1].until)
