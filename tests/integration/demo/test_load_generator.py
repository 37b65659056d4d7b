"""The people of the demo go on working through the services that everyone uses."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.conftest import LoopRun

from stoker.demo.load_generator import LoadGenerator
from stoker.demo.tenants import DemoTenants, ensure_tenants
from stoker.domain.clock import SystemClock
from stoker.domain.settings.schema import Settings
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.engines.simulated.fleet.nodes import SimulatedFleet, build_machine_groups
from stoker.server.composition import Installation, running_installation
from stoker.services.container import ServiceContainer
from stoker.store.db.base import Store
from stoker.store.workloads import rows

GPUS = 64
AUDITED = "SELECT COUNT(*) FROM audit_log WHERE credential = 'simulated' AND action = 'workload.create'"
DESCRIPTION = "Simulated: 64 GPUs on 6 nodes, seed 1."


class NextWeekClock(SystemClock):
    """Next week already."""

    def now(self) -> int:
        return super().now() + 7 * 86_400_000


@asynccontextmanager
async def empty(folder: Path) -> AsyncIterator[Installation]:
    """A demo without a past."""
    settings = Settings(data_dir=str(folder), demo=True, demo_gpus=GPUS, demo_days=0, demo_speed=50.0, gpus=0)
    async with running_installation(settings) as running:
        yield running


async def active(store: Store, world: DemoTenants) -> list[Workload]:
    return await store.read_inline(lambda tx: rows.unfinished_of_cluster(tx, world.cluster.id))


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.05)


async def the_world(running: Installation) -> DemoTenants:
    clock = running.services.clock
    return await running.store.write(lambda tx: ensure_tenants(tx, DESCRIPTION, GPUS, clock, lambda n: b"x" * n))


def people(services: ServiceContainer, store: Store, world: DemoTenants, clock: SystemClock) -> LoadGenerator:
    return LoadGenerator(store, services.workloads, world, SimulatedFleet(build_machine_groups(GPUS), 1), 50.0, clock)


def test_they_submit_and_what_they_submit_runs(tmp_path: Path, loop_run: LoopRun) -> None:
    async def main() -> None:
        async with empty(tmp_path / "data") as running:
            world = await the_world(running)

            async def several_run() -> bool:
                there = await active(running.store, world)
                return sum(each.phase is Phase.RUNNING for each in there) >= 3

            await until(several_run)
            audited = await running.store.read_inline(lambda tx: tx.fetch_one(AUDITED))
            assert audited is not None
            assert audited[0] >= 3

    loop_run(main())


def test_they_stop_what_they_kept_long_enough(tmp_path: Path, loop_run: LoopRun) -> None:
    async def main() -> None:
        async with empty(tmp_path / "data") as running:
            world = await the_world(running)
            now = people(running.services, running.store, world, SystemClock())
            later = people(running.services, running.store, world, NextWeekClock())

            async def serves() -> bool:
                await now.step("serving")
                return any(each.phase is Phase.RUNNING for each in await served())

            async def served() -> list[Workload]:
                return [each for each in await active(running.store, world) if not each.runs_to_completion]

            await until(serves)
            running_now = {each.uid for each in await served() if each.phase is Phase.RUNNING}
            await later.step("serving")

            async def stopped() -> bool:
                return not running_now & {each.uid for each in await served()}

            await until(stopped)

    loop_run(main())
