"""Generates live load in the demo: tenants submit workloads and stop what they no longer need, through the services.

They act on their own workloads only, and slowly enough to cost next to nothing.
"""

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from stoker.demo.demand import SUBMIT_INTERVAL_MS, should_submit, wanted_gpus
from stoker.demo.setup import Demo
from stoker.demo.templates import draw_workload, lifetime_ms
from stoker.demo.tenants import TENANT_BY_WORKSPACE, DemoTenants, TenantUser
from stoker.domain.access.identity import UserKind
from stoker.domain.access.permissions import Actor
from stoker.domain.clock import Clock
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import StokerError
from stoker.domain.workload.model import Workload
from stoker.engines.simulated.fleet.nodes import LARGE_NODE_GPUS, SimulatedFleet
from stoker.engines.simulated.seeded_random import seeded_rng, weighted_choice
from stoker.services.container import ServiceContainer
from stoker.services.workloads.commands import WorkloadCommands
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import users
from stoker.store.workloads import rows

MIN_PAUSE_SECONDS = 0.5

log = logging.getLogger("stoker.demo")


class TenantState(Struct, frozen=True):
    """The current requests of a workspace, and the user who submits."""

    actors: Sequence[Actor]
    active: Sequence[Workload]

    @property
    def demand(self) -> float:
        return sum(each.spec.total_resources.gpu_milli for each in self.active) / MILLI


class LoadGenerator:
    def __init__(
        self,
        store: Store,
        service: WorkloadCommands,
        tenants: DemoTenants,
        fleet: SimulatedFleet,
        speed: float,
        clock: Clock,
    ) -> None:
        self._store = store
        self._service = service
        self._tenants = tenants
        self._fleet = fleet
        self._speed = speed
        self._clock = clock
        self._random = seeded_rng(fleet.seed, "traffic", clock.now())

    async def run(self) -> None:
        """Serve one tenant after the other, endlessly."""
        names = sorted(self._tenants.workspaces)
        pause = max(MIN_PAUSE_SECONDS, SUBMIT_INTERVAL_MS / 1000 / len(names) / self._speed)
        while True:
            for name in names:
                await asyncio.sleep(pause * self._random.uniform(0.6, 1.4))
                try:
                    await self.step(name)
                except StokerError as error:
                    log.info("demo: the request of %s was refused: %s", name, error.message)
                except Exception:
                    log.exception("demo: the load generator of %s failed; it is tried again", name)

    async def step(self, name: str) -> None:
        """Let one tenant stop workloads and submit new ones."""
        team = await self._store.read(lambda tx: self._read_state(tx, name))
        now = self._clock.now()
        for workload in team.active:
            if self._is_past_lifetime(workload, now):
                owner = next(actor for actor in team.actors if actor.user_id == workload.user_id)
                await self._service.stop(owner, workload.slug)
        workspace = self._tenants.workspaces[name]
        if team.actors and should_submit(self._random, wanted_gpus(workspace, self._fleet.gpu_count, now), team.demand):
            await self._submit(name, self._random.choice(team.actors))

    async def _submit(self, name: str, actor: Actor) -> None:
        quota = self._tenants.workspaces[name].quota.gpu_milli
        most = LARGE_NODE_GPUS * 2 if quota is None else quota // MILLI
        new = draw_workload(
            self._random, weighted_choice(self._random, TENANT_BY_WORKSPACE[name].templates), name, actor.name, most
        )
        await self._service.create(actor, new)

    def _is_past_lifetime(self, workload: Workload, now: int) -> bool:
        if workload.runs_to_completion or workload.started_at is None or workload.phase.is_terminating:
            return False
        return now > workload.started_at + lifetime_ms(workload.uid, workload.submitted_kind) / self._speed

    def _read_state(self, transaction: Transaction, name: str) -> TenantState:
        people = {person.id: person for person in self._tenants.users[name]}
        every = rows.unfinished_of_cluster(transaction, self._tenants.cluster.id)
        workspace_id = self._tenants.workspaces[name].id
        mine = [each for each in every if each.workspace_id == workspace_id and each.user_id in people]
        return TenantState([_actor(transaction, person) for person in people.values()], mine)


def build_load_generator(demo: Demo, store: Store, services: ServiceContainer, clock: Clock) -> LoadGenerator:
    return LoadGenerator(store, services.workloads, demo.tenants, demo.engine.fleet, demo.engine.speed, clock)


def _actor(transaction: Transaction, person: TenantUser) -> Actor:
    return Actor(
        user_id=person.id,
        name=person.name,
        kind=UserKind.PERSON,
        admin=False,
        memberships=users.memberships(transaction, person.id),
        credential="simulated",
    )
