"""Opens the demo: the simulated engine with its cluster, tenants and history."""

from pathlib import Path

import msgspec
from msgspec import Struct

from stoker.concurrency.supervisor import LoopRegistry, Supervisor
from stoker.demo.backfill.runner import Backfill
from stoker.demo.tenants import DEMO_CLUSTER, DemoTenants, ensure_tenants
from stoker.domain.clock import Clock
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.names import RandomBytes
from stoker.domain.settings.schema import Settings
from stoker.engines.registry import SimulatedConfig, open_simulated
from stoker.engines.simulated import SimulatedEngine
from stoker.store.cluster import nodes
from stoker.store.db.base import Store, Transaction


class Demo(Struct, frozen=True):
    tenants: DemoTenants
    engine: SimulatedEngine


async def open_demo(
    store: Store,
    settings: Settings,
    data_dir: Path,
    clock: Clock,
    randomness: RandomBytes,
    loops: LoopRegistry | None = None,
) -> Demo:
    """Open the demo; returns when its history is written."""
    config = SimulatedConfig(settings.demo_gpus, settings.demo_nodes, settings.seed, settings.demo_speed)
    engine = await open_simulated(config, DEMO_CLUSTER, data_dir, clock, Supervisor(clock, loops, DEMO_CLUSTER))
    fleet = engine.fleet
    size = f"{humanize_count(fleet.gpu_count, 'GPU')} on {humanize_count(len(fleet.nodes), 'node')}"
    description = f"Simulated: {size}, seed {settings.seed}."

    def found(transaction: Transaction) -> DemoTenants:
        text = msgspec.json.encode(config).decode()
        tenants = ensure_tenants(transaction, description, fleet.gpu_count, clock, randomness, text)
        nodes.upsert(transaction, tenants.cluster.id, fleet.nodes, clock.now())
        return tenants

    try:
        tenants = await store.write(found)
        fill = Backfill(store, engine, tenants, clock, settings.snapshot_seconds)
        await fill.run(settings.demo_days / settings.demo_speed)
    except BaseException:
        await engine.close()
        raise
    return Demo(tenants, engine)
