"""A device index that retention has deleted is stored again when its GPUs are sampled again."""

import asyncio

from tests.conftest import LoopRun
from tests.integration.controller.collect.conftest import CLUSTER, ScriptedCollector
from tests.integration.controller.harness import new_supervisor

from stoker.controller.collect.sampler import Sampler
from stoker.controller.runtime.dirty_set import DirtySet
from stoker.domain.clock import SystemClock
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import gpu_samples

TIMEOUT_SECONDS = 20


def test_a_sampler_that_goes_on_after_its_roster_was_forgotten_keeps_it_again(file: Store, loop_run: LoopRun) -> None:
    def forget(transaction: Transaction) -> None:
        transaction.execute("DELETE FROM sample_tick")
        transaction.execute("DELETE FROM device_index")

    async def tick() -> gpu_samples.Tick:
        while True:
            if found := await file.read(lambda tx: gpu_samples.list_ticks(tx, CLUSTER, 0, 1 << 62)):
                return found[0]

    async def story() -> None:
        clock = SystemClock()
        sampler = Sampler(file, ScriptedCollector("n1", "n2"), CLUSTER, clock, DirtySet(), new_supervisor(clock), 0.1)
        task = asyncio.create_task(sampler.run())
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                before = await tick()
                await file.write(forget)
                after = await tick()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert after.at > before.at
        assert await file.read(lambda tx: gpu_samples.read_device_index(tx, after.device_index_id))

    loop_run(story())
