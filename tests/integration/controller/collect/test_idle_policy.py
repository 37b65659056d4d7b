"""What becomes of workloads whose GPUs nobody uses, by the policy of their workspace."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.engine.controller.lab import CLUSTER, ControllerLab, words
from tests.engine.controller.pretend import PretendEngine, machine
from tests.engine.sampling.conftest import Told
from tests.engine.webhooks.lab import SECRET

from stoker.controller.idleness import IdleWatch
from stoker.controller.sampler import Sampler
from stoker.domain.events import Placed, PodsUp, StopAsked
from stoker.domain.idleness import IdleAction, IdlePolicy
from stoker.domain.lifecycle import transition
from stoker.domain.listing import Window
from stoker.domain.readings import Source
from stoker.domain.resources import Resources
from stoker.domain.webhooks import Webhook
from stoker.domain.workload import Condition, Phase, Spec
from stoker.engines.simulated import SimulatedEngine, fleet_of
from stoker.store import idle_watch, outbox, webhooks, workloads, workspaces
from stoker.store.base import Store, Transaction

PERIOD = 15_000
SOON = IdlePolicy(IdleAction.STOP, None, window_seconds=1, grace_seconds=1)
POLICY = IdlePolicy(IdleAction.STOP, None, window_seconds=60, grace_seconds=30)
TWO = Spec(resources=Resources(2000, 1000, 2**30), ttl_seconds=600)


class IdleLab(ControllerLab):
    """Readings come as the test says, one period after the other."""

    async def found_with(self, policy: IdlePolicy) -> None:
        await self.found()
        await self.set(policy)
        self.at = self.clock.now()
        self.watch = self.new_watch()

    def new_watch(self) -> IdleWatch:
        return IdleWatch(self.store, CLUSTER, self.clock, PERIOD, 1.0)

    async def set(self, policy: IdlePolicy) -> None:
        def change(transaction: Transaction) -> None:
            found = workspaces.get(transaction, 1)
            assert found is not None
            workspaces.replace(transaction, structs.replace(found, idle=policy))

        await self.store.write(change)

    async def running(self) -> str:
        uid = await self.submit()
        for event in (Placed(self.at), PodsUp(self.at)):
            await self.ask(uid, lambda _, e=event: e)
        return uid

    async def look(self, used: Mapping[str, float | None], times: int = 1, *, after_ms: int = PERIOD) -> None:
        for _ in range(times):
            self.at += after_ms
            await self.watch.look(self.at, lambda watched: used if watched else {})

    async def told(self, uid: str) -> list[Condition]:
        """What was said of it since it runs."""
        return (await self.conditions(uid))[3:]


@pytest.fixture
def lab(store: Store) -> IdleLab:
    return IdleLab(store, PretendEngine([machine("n1", 2), machine("n2", 2)]))


def test_an_idle_workload_is_warned_and_then_stopped_and_a_busy_one_is_not(lab: IdleLab, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found_with(POLICY)
        idle, busy, unmeasured = [await lab.running() for _ in range(3)]
        used = {idle: 0.01, busy: 0.011, unmeasured: None}
        await lab.look(used, 5)
        [warning] = await lab.told(idle)
        assert (warning.type, warning.reason) == ("Running", "IdleWarning")
        seen = "no GPU was used more than 1 % for 60 s"
        assert warning.message == f"{seen}; it is stopped after 30 s more of that"
        assert (await lab.workload(idle)).phase is Phase.RUNNING
        await lab.look(used, 2)
        [_, stop] = await lab.told(idle)
        assert (stop.type, stop.reason) == ("Running", "StopAsked")
        assert stop.message == "stopped by the idle policy of workspace team-1: no GPU was used more than 1 % for 90 s"
        assert (await lab.workload(idle)).phase is Phase.STOPPING
        await lab.look(used, 20)
        assert [await lab.told(uid) for uid in (busy, unmeasured)] == [[], []]
        assert not await lab.store.read(lambda tx: idle_watch.read(tx, CLUSTER))

    loop_run(story())


def test_what_was_seen_survives_a_restart_and_activity_begins_anew(lab: IdleLab, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found_with(POLICY)
        uid = await lab.running()
        await lab.look({uid: 0.0}, 4)
        lab.watch = lab.new_watch()
        await lab.look({uid: 0.0}, after_ms=60_000)  # nobody looked for a minute, which does not count
        assert not await lab.told(uid)
        await lab.look({uid: 0.0})
        assert words(await lab.told(uid)) == [("Running", "IdleWarning")]
        await lab.look({uid: 0.9})
        await lab.look({uid: 0.0}, 4)
        assert len(await lab.told(uid)) == 1
        await lab.look({uid: 0.0})
        assert words(await lab.told(uid)) == [("Running", "IdleWarning")] * 2
        assert (await lab.workload(uid)).phase is Phase.RUNNING

    loop_run(story())


def test_neither_a_lost_source_nor_a_clock_that_was_set_stops_anything(lab: IdleLab, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found_with(POLICY)
        uid = await lab.running()
        await lab.look({uid: 0.0}, 5)
        assert len(await lab.told(uid)) == 1
        await lab.look({uid: None}, 100)  # nobody knows
        await lab.look({uid: 0.0}, after_ms=86_400_000)
        await lab.look({uid: 0.0}, 3)
        await lab.look({uid: 0.0}, after_ms=-7_200_000)
        await lab.look({uid: 0.0}, 3)
        assert len(await lab.told(uid)) == 1

    loop_run(story())


def test_a_policy_that_was_switched_off_stops_nothing_and_has_forgotten(lab: IdleLab, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found_with(POLICY)
        uid = await lab.running()
        await lab.look({uid: 0.0}, 6)
        await lab.set(IdlePolicy())
        await lab.look({uid: 0.0}, 5)
        await lab.set(POLICY)
        await lab.look({uid: 0.0}, 4)
        assert words(await lab.told(uid)) == [("Running", "IdleWarning")]
        await lab.look({uid: 0.0})
        assert words(await lab.told(uid)) == [("Running", "IdleWarning")] * 2

    loop_run(story())


def test_another_run_of_a_workload_is_another_span(lab: IdleLab, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found_with(POLICY)
        uid = await lab.running()
        await lab.look({uid: 0.0}, 6)

        def again(transaction: Transaction) -> None:
            before = workloads.find(transaction, uid)
            assert before is not None
            after = structs.replace(before, running_since=lab.at, version=before.version + 1)
            step = transition(before, StopAsked(lab.at, "x"))
            assert step is not None
            workloads.apply(transaction, before, structs.replace(step, workload=after))

        await lab.store.write(again)
        await lab.look({uid: 0.0}, 4)
        assert (await lab.workload(uid)).phase is Phase.RUNNING
        assert [condition.reason for condition in await lab.told(uid)] == ["IdleWarning", "StopAsked"]

    loop_run(story())


def test_a_report_and_a_warning_are_told_to_webhooks_with_a_threshold_of_the_workspaces_own(
    lab: IdleLab, loop_run: LoopRun
) -> None:
    async def story() -> None:
        await lab.found_with(IdlePolicy(IdleAction.REPORT, 20.0, 60, 30))
        hook = Webhook("hook", "https://hooks.example.com/", "", 1, None, (), True, "", 1, 1)
        await lab.store.write(lambda tx: webhooks.add(tx, hook, SECRET))
        uid = await lab.running()
        await lab.look({uid: 0.2}, 10)
        await lab.set(IdlePolicy(IdleAction.WARN, 20.0, 60, 30))
        await lab.look({uid: 0.2}, 10)
        assert [(each.reason, each.message) for each in await lab.told(uid)] == [
            ("Idle", "no GPU was used more than 20 % for 60 s"),
            ("IdleWarning", "no GPU was used more than 20 % for 2 min; use them or stop it"),
        ]
        sent = await lab.store.read(lambda tx: outbox.deliveries(tx, "hook", Window()))
        assert [each.event for each in sent.items] == ["workload.idle"] * 2

    loop_run(story())


@contextlib.asynccontextmanager
async def sampled(lab: ControllerLab, source: Source) -> AsyncIterator[None]:
    sampler = Sampler(lab.store, source, CLUSTER, lab.clock, lab.news, 0.5, 1.0)
    async with lab.at_work():
        task = asyncio.create_task(sampler.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_readings_that_show_no_use_stop_a_workload_and_gpus_without_readings_do_not(
    lab: IdleLab, loop_run: LoopRun
) -> None:
    source = Told("n1")  # of n2 nothing is known
    source.utilization = 0.0

    async def story() -> None:
        await lab.found_with(SOON)
        async with sampled(lab, source):
            on = [structs.replace(TWO, specified_nodes=(node,)) for node in ("n1", "n2")]
            first, second = [await lab.submit(spec=spec, namespace="team-1") for spec in on]
            ended = await lab.until(first, lambda found: found.phase is Phase.STOPPED)
            assert ended.message.startswith("stopped by the idle policy of workspace team-1: no GPU was used more than")
            assert words(await lab.conditions(first))[-3:] == [
                ("Running", "IdleWarning"),
                ("Running", "StopAsked"),
                ("Stopped", "Stopped"),
            ]
            assert words(await lab.conditions(second))[-1] == ("Running", "PodsRunning")

    loop_run(story())


def test_a_simulated_job_that_does_nothing_is_stopped_and_one_that_works_is_not(
    store: Store, loop_run: LoopRun, tmp_path: Path
) -> None:
    def spec(load: str) -> Spec:
        annotations = {"stoker.simulate/load": load, "stoker.simulate/seconds": "36000"}
        return structs.replace(TWO, annotations=annotations)

    async def story() -> None:
        options: dict[str, Any] = {"groups": fleet_of(64), "fault_days": 0.0}
        lab = IdleLab(store, cast("PretendEngine", None))
        engine = await SimulatedEngine.open(tmp_path / "simulated", clock=lab.clock, speed=60.0, **options)
        lab.engine = cast("PretendEngine", engine)
        await lab.found_with(SOON)
        async with sampled(lab, engine):
            loads = ("idle", "batch")
            idle, busy = [await lab.submit(spec=spec(load), namespace="team-1") for load in loads]
            await lab.until(idle, lambda found: found.phase is Phase.STOPPED)
            assert (await lab.workload(busy)).phase in {Phase.RUNNING, Phase.INITIALIZING}
        await engine.close()

    loop_run(story())
