"""What becomes of workloads whose GPUs nobody uses, by the policy of their workspace."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.collect.conftest import ScriptedCollector
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness, new_supervisor, words
from tests.integration.webhooks.harness import SECRET

from stoker.controller.collect.sampler import Sampler
from stoker.controller.policy.idle import IdlePolicyEnforcer
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.samples import Collector
from stoker.domain.queries.pages import AuditQuery, PageRequest
from stoker.domain.webhooks.model import Webhook
from stoker.domain.workload.events import Dispatched, PodsReady, StopRequested
from stoker.domain.workload.idle import IdleAction, IdlePolicy
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.phase import Condition, Phase
from stoker.domain.workload.spec import Spec
from stoker.engines.simulated import SimulatedEngine, build_machine_groups
from stoker.store.cluster import idle_detector
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import audit, workspaces
from stoker.store.webhooks import outbox, subscriptions
from stoker.store.workloads import rows, transitions

PERIOD = 15_000
SOON = IdlePolicy(IdleAction.STOP, None, window_seconds=1, grace_seconds=1)
POLICY = IdlePolicy(IdleAction.STOP, None, window_seconds=60, grace_seconds=30)
TWO = Spec(resources=Resources(2000, 1000, 2**30), ttl_seconds=600)


class IdleHarness(ControllerHarness):
    """Readings come as the test says, one period after the other."""

    async def found_with(self, policy: IdlePolicy) -> None:
        await self.found()
        await self.set(policy)
        self.at = self.clock.now()
        self.watch = self.new_watch()

    def new_watch(self) -> IdlePolicyEnforcer:
        return IdlePolicyEnforcer(self.store, CLUSTER, self.clock, PERIOD, 1.0)

    async def set(self, policy: IdlePolicy) -> None:
        def change(transaction: Transaction) -> None:
            found = workspaces.get(transaction, 1)
            assert found is not None
            workspaces.update(transaction, structs.replace(found, idle=policy))

        await self.store.write(change)

    async def running(self) -> str:
        uid = await self.submit()
        for event in (Dispatched(self.at), PodsReady(self.at)):
            await self.ask(uid, lambda _, e=event: e)
        return uid

    async def look(self, used: Mapping[str, float | None], times: int = 1, *, after_ms: int = PERIOD) -> None:
        for _ in range(times):
            self.at += after_ms
            await self.watch.enforce(self.at, lambda watched: used if watched else {})

    async def told(self, uid: str) -> list[Condition]:
        """What was said of it since it runs."""
        return (await self.conditions(uid))[3:]


@pytest.fixture
def harness(store: Store) -> IdleHarness:
    return IdleHarness(store, FakeEngine([machine("n1", 2), machine("n2", 2)]))


def test_an_idle_workload_is_warned_and_then_stopped_and_a_busy_one_is_not(
    harness: IdleHarness, loop_run: LoopRun
) -> None:
    async def story() -> None:
        await harness.found_with(POLICY)
        idle, busy, unmeasured = [await harness.running() for _ in range(3)]
        used = {idle: 0.01, busy: 0.011, unmeasured: None}
        await harness.look(used, 5)
        [warning] = await harness.told(idle)
        assert (warning.type, warning.reason) == ("Running", "IdleWarning")
        seen = "no GPU was used more than 1 % for 60 s"
        assert warning.message == f"{seen}; it is stopped after 30 s more of that"
        assert (await harness.workload(idle)).phase is Phase.RUNNING
        await harness.look(used, 2)
        [_, stop] = await harness.told(idle)
        assert (stop.type, stop.reason) == ("Running", "StopAsked")
        assert stop.message == "stopped by the idle policy of workspace team-1: no GPU was used more than 1 % for 90 s"
        assert (await harness.workload(idle)).phase is Phase.STOPPING
        [record] = await harness.store.read(lambda tx: audit.list_records(tx, AuditQuery()))
        assert (record.actor, record.action, record.target, record.result, record.detail) == (
            "idle policy",
            "workload.stop",
            (await harness.workload(idle)).slug,
            "ok",
            stop.message,
        )
        await harness.look(used, 20)
        assert [await harness.told(uid) for uid in (busy, unmeasured)] == [[], []]
        assert not await harness.store.read(lambda tx: idle_detector.read_spans(tx, CLUSTER))

    loop_run(story())


@pytest.mark.parametrize("percent", [0.7, 7, 14, 28, 55, 56])
def test_a_gpu_that_is_used_exactly_as_much_as_the_threshold_is_idle_and_one_step_more_is_not(
    harness: IdleHarness, loop_run: LoopRun, percent: float
) -> None:
    async def story() -> None:
        await harness.found_with(structs.replace(POLICY, threshold=percent))
        idle, busy = [await harness.running() for _ in range(2)]
        steps = round(percent * 100)
        await harness.look({idle: steps / 10_000, busy: (steps + 1) / 10_000}, 5)
        assert words(await harness.told(idle)) == [("Running", "IdleWarning")]
        assert await harness.told(busy) == []

    loop_run(story())


def test_what_was_seen_survives_a_restart_and_activity_begins_anew(harness: IdleHarness, loop_run: LoopRun) -> None:
    async def story() -> None:
        await harness.found_with(POLICY)
        uid = await harness.running()
        await harness.look({uid: 0.0}, 4)
        harness.watch = harness.new_watch()
        await harness.look({uid: 0.0}, after_ms=60_000)  # nobody looked for a minute, which does not count
        assert not await harness.told(uid)
        await harness.look({uid: 0.0})
        assert words(await harness.told(uid)) == [("Running", "IdleWarning")]
        await harness.look({uid: 0.9})
        await harness.look({uid: 0.0}, 4)
        assert len(await harness.told(uid)) == 1
        await harness.look({uid: 0.0})
        assert words(await harness.told(uid)) == [("Running", "IdleWarning")] * 2
        assert (await harness.workload(uid)).phase is Phase.RUNNING

    loop_run(story())


def test_neither_a_lost_source_nor_a_clock_that_was_set_stops_anything(harness: IdleHarness, loop_run: LoopRun) -> None:
    async def story() -> None:
        await harness.found_with(POLICY)
        uid = await harness.running()
        await harness.look({uid: 0.0}, 5)
        assert len(await harness.told(uid)) == 1
        await harness.look({uid: None}, 100)  # nobody knows
        await harness.look({uid: 0.0}, after_ms=86_400_000)
        await harness.look({uid: 0.0}, 3)
        await harness.look({uid: 0.0}, after_ms=-7_200_000)
        await harness.look({uid: 0.0}, 3)
        assert len(await harness.told(uid)) == 1

    loop_run(story())


def test_a_policy_that_was_switched_off_stops_nothing_and_has_forgotten(
    harness: IdleHarness, loop_run: LoopRun
) -> None:
    async def story() -> None:
        await harness.found_with(POLICY)
        uid = await harness.running()
        await harness.look({uid: 0.0}, 6)
        await harness.set(IdlePolicy())
        await harness.look({uid: 0.0}, 5)
        await harness.set(POLICY)
        await harness.look({uid: 0.0}, 4)
        assert words(await harness.told(uid)) == [("Running", "IdleWarning")]
        await harness.look({uid: 0.0})
        assert words(await harness.told(uid)) == [("Running", "IdleWarning")] * 2

    loop_run(story())


def test_another_run_of_a_workload_is_another_span(harness: IdleHarness, loop_run: LoopRun) -> None:
    async def story() -> None:
        await harness.found_with(POLICY)
        uid = await harness.running()
        await harness.look({uid: 0.0}, 6)

        def again(transaction: Transaction) -> None:
            before = rows.find(transaction, uid)
            assert before is not None
            after = structs.replace(before, running_since=harness.at, version=before.version + 1)
            step = transition(before, StopRequested(harness.at, "x"))
            assert step is not None
            transitions.apply(transaction, before, structs.replace(step, workload=after))

        await harness.store.write(again)
        await harness.look({uid: 0.0}, 4)
        assert (await harness.workload(uid)).phase is Phase.RUNNING
        assert [condition.reason for condition in await harness.told(uid)] == ["IdleWarning", "StopAsked"]

    loop_run(story())


def test_a_report_and_a_warning_are_told_to_webhooks_with_a_threshold_of_the_workspaces_own(
    harness: IdleHarness, loop_run: LoopRun
) -> None:
    async def story() -> None:
        await harness.found_with(IdlePolicy(IdleAction.REPORT, 20.0, 60, 30))
        hook = Webhook("hook", "https://hooks.example.com/", "", 1, None, (), True, "", 1, 1)
        await harness.store.write(lambda tx: subscriptions.add(tx, hook, SECRET))
        uid = await harness.running()
        await harness.look({uid: 0.2}, 10)
        await harness.set(IdlePolicy(IdleAction.WARN, 20.0, 60, 30))
        await harness.look({uid: 0.2}, 10)
        assert [(each.reason, each.message) for each in await harness.told(uid)] == [
            ("Idle", "no GPU was used more than 20 % for 60 s"),
            ("IdleWarning", "no GPU was used more than 20 % for 2 min; use them or stop it"),
        ]
        sent = await harness.store.read(lambda tx: outbox.list_deliveries(tx, "hook", PageRequest()))
        assert [each.event for each in sent.items] == ["workload.idle"] * 2

    loop_run(story())


@contextlib.asynccontextmanager
async def sampled(harness: ControllerHarness, source: Collector) -> AsyncIterator[None]:
    sampler = Sampler(
        harness.store, source, CLUSTER, harness.clock, harness.news, new_supervisor(harness.clock), 0.5, 1.0
    )
    async with harness.at_work():
        task = asyncio.create_task(sampler.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_readings_that_show_no_use_stop_a_workload_and_gpus_without_readings_do_not(
    harness: IdleHarness, loop_run: LoopRun
) -> None:
    source = ScriptedCollector("n1")  # of n2 nothing is known
    source.utilization = 0.0

    async def story() -> None:
        await harness.found_with(SOON)
        async with sampled(harness, source):
            on = [structs.replace(TWO, specified_nodes=(node,)) for node in ("n1", "n2")]
            first, second = [await harness.submit(spec=spec, namespace="team-1") for spec in on]
            ended = await harness.until(first, lambda found: found.phase is Phase.STOPPED)
            assert ended.message.startswith("stopped by the idle policy of workspace team-1: no GPU was used more than")
            assert words(await harness.conditions(first))[-3:] == [
                ("Running", "IdleWarning"),
                ("Running", "StopAsked"),
                ("Stopped", "Stopped"),
            ]
            assert words(await harness.conditions(second))[-1] == ("Running", "PodsRunning")

    loop_run(story())


def test_a_simulated_job_that_does_nothing_is_stopped_and_one_that_works_is_not(
    store: Store, loop_run: LoopRun, tmp_path: Path
) -> None:
    def spec(load: str) -> Spec:
        annotations = {"stoker.simulate/load": load, "stoker.simulate/seconds": "36000"}
        return structs.replace(TWO, annotations=annotations)

    async def story() -> None:
        options: dict[str, Any] = {"groups": build_machine_groups(64), "fault_days": 0.0}
        harness = IdleHarness(store, cast("FakeEngine", None))
        engine = await SimulatedEngine.open(
            tmp_path / "simulated", clock=harness.clock, supervisor=new_supervisor(harness.clock), speed=60.0, **options
        )
        harness.engine = cast("FakeEngine", engine)
        await harness.found_with(SOON)
        async with sampled(harness, engine):
            loads = ("idle", "batch")
            idle, busy = [await harness.submit(spec=spec(load), namespace="team-1") for load in loads]
            await harness.until(idle, lambda found: found.phase is Phase.STOPPED)
            assert (await harness.workload(busy)).phase in {Phase.RUNNING, Phase.INITIALIZING}
        await engine.close()

    loop_run(story())
