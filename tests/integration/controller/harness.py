"""A controller at work on an engine in memory, with nothing but a store around it."""

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

from msgspec import structs
from tests.engine.controller.pretend import PretendEngine

from stoker.controller.cluster import ClusterController
from stoker.controller.news import News
from stoker.domain.clock import SystemClock
from stoker.domain.events import Event
from stoker.domain.identity import Cluster, Department, QueuePolicy, Quota, Workspace
from stoker.domain.lifecycle import created, transition
from stoker.domain.names import new_uuid
from stoker.domain.resources import Resources
from stoker.domain.workload import Condition, Kind, Pod, Spec, Workload
from stoker.store import clusters, departments, pods, workloads, workspaces
from stoker.store.base import Store, T, Transaction
from stoker.store.signal import Signal

PATIENCE = 20.0
CLUSTER = "cluster-1"
SMALL = Resources(0, 100, 2**20)


class ControllerLab:
    def __init__(self, store: Store, engine: PretendEngine) -> None:
        self.store = store
        self.engine = engine
        self.signal = Signal()
        self.news = News()
        self.clock = SystemClock()
        self._numbers = itertools.count(1)

    async def found(self, quota: Quota | None = None) -> None:
        """A cluster and a workspace."""

        def change(transaction: Transaction) -> None:
            clusters.add(transaction, Cluster(CLUSTER, "local", "local", "", 1))
            departments.add(transaction, Department(1, "default", "", 1, 1, 1))
            workspaces.add(transaction, workspace(1, quota or Quota()))

        await self.store.write(change)

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncGenerator[ClusterController]:
        controller = ClusterController(
            self.store,
            self.engine,
            CLUSTER,
            self.clock,
            secrets.token_bytes,
            self.signal,
            self.news,
            log_limit_bytes=10**6,
        )
        task = asyncio.create_task(controller.run())
        try:
            yield controller
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def submit(self, *, spec: Spec | None = None, kind: Kind = Kind.JOB, **fields: Any) -> str:
        number = next(self._numbers)
        now = self.clock.now()
        workload = Workload(
            uid=new_uuid(),
            slug=f"job-{number}",
            name="job",
            kind=kind,
            cluster_id=CLUSTER,
            workspace_id=1,
            namespace="default",
            user_id="1",
            user_name="li.wei",
            origin_api="safe",
            spec=spec or Spec(resources=SMALL, ttl_seconds=600),
            submitted_at=now,
            phase_at=now,
        )
        await self.store.write(lambda tx: workloads.add(tx, created(structs.replace(workload, **fields))))
        self.signal.notify()
        return workload.uid

    async def ask(self, uid: str, event: Callable[[int], Event]) -> None:
        """Let somebody ask for this, as the API would."""

        def change(transaction: Transaction) -> None:
            workload = workloads.find(transaction, uid)
            assert workload is not None
            step = transition(workload, event(self.clock.now()))
            if step is not None:
                workloads.apply(transaction, workload, step)

        await self.store.write(change)
        self.signal.notify()

    async def workload(self, uid: str) -> Workload:
        found = await self.store.read(lambda tx: workloads.find(tx, uid))
        assert found is not None
        return found

    async def pods(self, uid: str) -> list[Pod]:
        return await self.store.read(lambda tx: pods.of_workload(tx, uid))

    async def conditions(self, uid: str) -> list[Condition]:
        return await self.store.read(lambda tx: workloads.conditions(tx, uid))

    async def until(self, uid: str, check: Callable[[Workload], bool]) -> Workload:
        """The workload once this is true of it."""
        give_up = time.monotonic() + PATIENCE
        while not check(found := await self.workload(uid)):
            assert time.monotonic() < give_up, (found, await self.conditions(uid))
            await asyncio.sleep(0.005)
        return found

    async def eventually(self, check: Callable[[], bool]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not check():
            assert time.monotonic() < give_up
            await asyncio.sleep(0.005)

    async def read(self, query: Callable[[Transaction], T]) -> T:
        return await self.store.read(query)


def workspace(number: int, quota: Quota, guaranteed_seconds: int = 0) -> Workspace:
    return Workspace(
        id=number,
        name=f"team-{number}",
        description="",
        department_id=1,
        department="default",
        cluster_id=CLUSTER,
        cluster="local",
        namespace=f"team-{number}",
        quota=quota,
        queue_policy=QueuePolicy.FIFO,
        preemption=True,
        created_at=1,
        updated_at=1,
        version=1,
        guaranteed_seconds=guaranteed_seconds,
    )


def words(found: Iterable[Condition]) -> list[tuple[str, str]]:
    return [(condition.type, condition.reason) for condition in found]
