"""A controller at work on an engine in memory, with nothing but a store around it."""

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

from msgspec import structs
from tests.integration.controller.fake_engine import FakeEngine

from stoker.concurrency.supervisor import Supervisor
from stoker.controller.cluster import ClusterController
from stoker.controller.reconcile.rollout import RolloutPolicy
from stoker.controller.runtime.dirty_set import DirtySet
from stoker.controller.runtime.lease import LeaseLostError
from stoker.domain.access.identity import Cluster, Department, QueuePolicy, Quota, Workspace
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.cluster.resources import Resources
from stoker.domain.names import new_uuid4
from stoker.domain.workload.events import LifecycleEvent
from stoker.domain.workload.lifecycle import submit_transition, transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Condition
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, T, Transaction
from stoker.store.db.notify import ChangeNotifier
from stoker.store.identity import departments, workspaces
from stoker.store.workloads import pods, rows, transitions

TIMEOUT_SECONDS = 20.0
CLUSTER = "cluster-1"
SMALL = Resources(0, 100, 2**20)


def new_supervisor(clock: Clock) -> Supervisor:
    """A supervisor of the loops of a cluster, as the server makes one."""
    return Supervisor(clock, scope=CLUSTER, stop_on=(LeaseLostError,))


class ControllerHarness:
    def __init__(self, store: Store, engine: FakeEngine) -> None:
        self.store = store
        self.engine = engine
        self.signal = ChangeNotifier()
        self.news = DirtySet()
        self.clock: Clock = SystemClock()
        self.rollout = RolloutPolicy()
        self.supervisor: Supervisor | None = None
        self._numbers = itertools.count(1)

    async def found(self, quota: Quota | None = None) -> None:
        """A cluster and a workspace."""

        def change(transaction: Transaction) -> None:
            clusters.add(transaction, Cluster(CLUSTER, "local", "local", "", 1))
            departments.add(transaction, Department(1, "default", "", 1, 1, 1))
            workspaces.add(transaction, workspace(1, quota or Quota()))

        await self.store.write(change)

    def controller(self, **options: Any) -> ClusterController:
        return ClusterController(
            self.store,
            self.engine,
            CLUSTER,
            self.clock,
            secrets.token_bytes,
            self.signal,
            self.news,
            self.supervisor or new_supervisor(self.clock),
            log_limit_bytes=10**6,
            rollout=self.rollout,
            **options,
        )

    @contextlib.asynccontextmanager
    async def at_work(self, **options: Any) -> AsyncGenerator[ClusterController]:
        controller = self.controller(**options)
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
            uid=new_uuid4(),
            slug=f"job-{number}",
            name="job",
            kind=kind,
            cluster_id=CLUSTER,
            workspace_id=1,
            namespace="default",
            user_id="1",
            user_name="li.wei",
            origin_api="management",
            spec=spec or Spec(resources=SMALL, ttl_seconds=600),
            submitted_at=now,
            phase_at=now,
        )
        await self.store.write(lambda tx: transitions.add(tx, submit_transition(structs.replace(workload, **fields))))
        self.signal.notify()
        return workload.uid

    async def ask(self, uid: str, event: Callable[[int], LifecycleEvent]) -> None:
        """Let somebody ask for this, as the API would."""

        def change(transaction: Transaction) -> None:
            workload = rows.find(transaction, uid)
            assert workload is not None
            step = transition(workload, event(self.clock.now()))
            if step is not None:
                transitions.apply(transaction, workload, step)

        await self.store.write(change)
        self.signal.notify()

    async def workload(self, uid: str) -> Workload:
        found = await self.store.read(lambda tx: rows.find(tx, uid))
        assert found is not None
        return found

    async def pods(self, uid: str) -> list[Pod]:
        return await self.store.read(lambda tx: pods.of_workload(tx, uid))

    async def conditions(self, uid: str) -> list[Condition]:
        return await self.store.read(lambda tx: transitions.conditions(tx, uid))

    async def until(self, uid: str, check: Callable[[Workload], bool]) -> Workload:
        """The workload once this is true of it. One that is observed may not exist at first."""
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while (found := await self.read(lambda tx: rows.find(tx, uid))) is None or not check(found):
            assert time.monotonic() < give_up, (found, await self.conditions(uid))
            await asyncio.sleep(0.005)
        return found

    async def until_pods(self, uid: str, check: Callable[[list[Pod]], bool]) -> list[Pod]:
        """The pods of a workload once this is true of them."""
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while not check(found := await self.pods(uid)):
            assert time.monotonic() < give_up, found
            await asyncio.sleep(0.005)
        return found

    async def eventually(self, check: Callable[[], bool]) -> None:
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while not check():
            assert time.monotonic() < give_up
            await asyncio.sleep(0.005)

    async def until_read(self, query: Callable[[Transaction], bool]) -> None:
        """Wait until this is true of the store."""
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while not await self.read(query):
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
