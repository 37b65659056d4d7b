"""The people of the demo at work: they submit, and stop what they no longer need, through the same services as anyone.

They look after nothing but their own workloads, and are slow enough to cost next to nothing.
"""

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.identity import UserKind
from stoker.domain.permissions import Actor
from stoker.domain.resources import MILLI
from stoker.domain.workload import Workload
from stoker.engines.simulated.dice import choice, dice
from stoker.engines.simulated.machine import LARGE_GPUS, Machines
from stoker.server.demo.catalogue import drawn, kept_ms
from stoker.server.demo.open import Demo
from stoker.server.demo.pace import STEP_MS, submits, wish
from stoker.server.demo.people import BY_WORKSPACE, Member, World
from stoker.services.bundle import Services
from stoker.services.workloads import Workloads
from stoker.store import accounts, workloads
from stoker.store.base import Store, Transaction

LEAST_PAUSE_SECONDS = 0.5

log = logging.getLogger("stoker.demo")


class Team(Struct, frozen=True):
    """What a workspace has asked for now, and who asks."""

    actors: Sequence[Actor]
    active: Sequence[Workload]

    @property
    def demand(self) -> float:
        return sum(each.spec.total.gpu_milli for each in self.active) / MILLI


class Traffic:
    def __init__(
        self, store: Store, service: Workloads, world: World, machines: Machines, speed: float, clock: Clock
    ) -> None:
        self._store = store
        self._service = service
        self._world = world
        self._machines = machines
        self._speed = speed
        self._clock = clock
        self._chance = dice(machines.seed, "traffic", clock.now())

    async def run(self) -> None:
        """One team after the other, for ever."""
        names = sorted(self._world.workspaces)
        pause = max(LEAST_PAUSE_SECONDS, STEP_MS / 1000 / len(names) / self._speed)
        while True:
            for name in names:
                await asyncio.sleep(pause * self._chance.uniform(0.6, 1.4))
                try:
                    await self.turn(name)
                except StokerError as error:
                    log.info("demo: %s did not get what it wanted: %s", name, error.message)
                except Exception:
                    log.exception("demo: %s could not go on, and tries again later", name)

    async def turn(self, name: str) -> None:
        """What one team does when it looks at what it has."""
        team = await self._store.read(lambda tx: self._look(tx, name))
        now = self._clock.now()
        for workload in team.active:
            if self._is_kept_too_long(workload, now):
                owner = next(actor for actor in team.actors if actor.user_id == workload.user_id)
                await self._service.stop(owner, workload.slug)
        workspace = self._world.workspaces[name]
        if team.actors and submits(self._chance, wish(workspace, self._machines.gpus, now), team.demand):
            await self._submit(name, self._chance.choice(team.actors))

    async def _submit(self, name: str, actor: Actor) -> None:
        quota = self._world.workspaces[name].quota.gpu_milli
        most = LARGE_GPUS * 2 if quota is None else quota // MILLI
        new = drawn(self._chance, choice(self._chance, BY_WORKSPACE[name].works), name, actor.name, most)
        await self._service.create(actor, new)

    def _is_kept_too_long(self, workload: Workload, now: int) -> bool:
        if workload.kind.ends or workload.started_at is None or workload.phase.leaving:
            return False
        return now > workload.started_at + kept_ms(workload.uid, workload.kind) / self._speed

    def _look(self, transaction: Transaction, name: str) -> Team:
        people = {person.id: person for person in self._world.people[name]}
        every = workloads.active(transaction, self._world.cluster.id)
        workspace_id = self._world.workspaces[name].id
        mine = [each for each in every if each.workspace_id == workspace_id and each.user_id in people]
        return Team([_actor(transaction, person) for person in people.values()], mine)


def traffic(demo: Demo, store: Store, services: Services, clock: Clock) -> Traffic:
    return Traffic(store, services.workloads, demo.world, demo.engine.machines, demo.engine.speed, clock)


def _actor(transaction: Transaction, person: Member) -> Actor:
    return Actor(
        user_id=person.id,
        name=person.name,
        kind=UserKind.PERSON,
        admin=False,
        memberships=accounts.memberships(transaction, person.id),
        credential="simulated",
    )
