"""Opens the demo: the simulated engine with its cluster, teams and past."""

from pathlib import Path

from msgspec import Struct

from stoker.domain.clock import Clock
from stoker.domain.names import Randomness
from stoker.domain.settings import Settings
from stoker.engines.simulated import SimulatedEngine, fleet_of
from stoker.server.demo.fill import Fill
from stoker.server.demo.people import DEMO, World, found_world
from stoker.store import nodes
from stoker.store.base import Store, Transaction


class Demo(Struct, frozen=True):
    world: World
    engine: SimulatedEngine


async def open_demo(store: Store, settings: Settings, data_dir: Path, clock: Clock, randomness: Randomness) -> Demo:
    """Returns once the past is there."""
    engine = await SimulatedEngine.open(
        data_dir / "simulated" / DEMO,
        groups=fleet_of(settings.demo_gpus, settings.demo_nodes),
        seed=settings.seed,
        speed=settings.demo_speed,
        clock=clock,
    )
    machines = engine.machines
    description = f"Simulated: {machines.gpus} GPUs on {len(machines.nodes)} nodes, seed {settings.seed}."

    def found(transaction: Transaction) -> World:
        world = found_world(transaction, description, machines.gpus, clock, randomness)
        nodes.put(transaction, world.cluster.id, machines.nodes, clock.now())
        return world

    try:
        world = await store.write(found)
        fill = Fill(store, engine, world, clock, settings.snapshot_seconds)
        await fill.run(settings.demo_days / settings.demo_speed)
    except BaseException:
        await engine.close()
        raise
    return Demo(world, engine)
