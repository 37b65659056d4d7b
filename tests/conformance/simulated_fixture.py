"""The simulated engine, for the conformance suite. Its clock moves whenever the suite waits."""

import asyncio
import tempfile
from collections.abc import Collection
from pathlib import Path

import msgspec
from msgspec import Struct
from tests.clock import ManualClock
from tests.conformance.engine_fixture import EngineFixture, Feature, OpenerArguments

from stoker.concurrency.supervisor import Supervisor
from stoker.engines.simulated import SimulatedEngine, build_machine_groups

STEP_SECONDS = 0.25
SETTLE_SECONDS = 60.0


class SimulatedOptions(Struct, frozen=True):
    folder: str
    now: int


async def open_simulated_engine(argument: str) -> SimulatedEngine:
    options = msgspec.json.decode(argument, type=SimulatedOptions)
    return await _open(Path(options.folder), ManualClock(options.now))


async def _open(folder: Path, clock: ManualClock) -> SimulatedEngine:
    return await SimulatedEngine.open(
        folder, supervisor=Supervisor(clock), groups=build_machine_groups(64), fault_days=0.0, clock=clock
    )


class SimulatedFixture(EngineFixture):
    node_name = "gpu-node-1"
    unsupported = {
        Feature.PROGRAMS: "simulated pods run no programs",
        Feature.WORKING_DIRECTORY: "simulated pods write no files",
        Feature.SECOND_ENGINE: "the journal of the simulation has one writer",
        Feature.CRASH_POINTS: "a simulated apply is one entry of the journal",
        Feature.BACKEND_CUT: "the simulation has no backend that it could lose contact with",
        Feature.FOREIGN: "the simulation has only its own pods",
    }

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="stoker-conformance-")
        self._folder = Path(self._temporary.name)
        self._clock = ManualClock(1_790_000_000_000)
        self._engine: SimulatedEngine | None = None

    async def open(self) -> SimulatedEngine:
        self._engine = await _open(self._folder, self._clock)
        return self._engine

    def opener_arguments(self) -> OpenerArguments:
        options = SimulatedOptions(str(self._folder), self._clock.now())
        return OpenerArguments(f"{__name__}:{open_simulated_engine.__name__}", msgspec.json.encode(options).decode())

    async def pass_time(self, changed: asyncio.Event) -> None:
        self._clock.advance(STEP_SECONDS)
        if self._engine is not None:
            self._engine.advance()
        for _ in range(5):  # the observers take their turns
            await asyncio.sleep(0)

    async def settle(self) -> None:
        for _ in range(round(SETTLE_SECONDS / STEP_SECONDS)):
            await self.pass_time(asyncio.Event())

    def processes(self, pod_uid: str) -> list[str]:
        return []

    def leftovers(self, pod_uids: Collection[str]) -> list[str]:
        async def pods() -> list[str]:
            engine = await _open(self._folder, self._clock)
            found = [pod.uid for pod in engine.list_pods()]
            await engine.close()
            return found

        return asyncio.run(pods())

    def close(self) -> None:
        self._temporary.cleanup()
