"""A store with a cluster, two workspaces and webhooks, and a courier on a clock that the test moves."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import structs
from tests.engine.controller.lab import CLUSTER, workspace

from stoker.controller.post import Post
from stoker.controller.webhooks import Courier
from stoker.domain.events import Event, Placed, PodsEnded, PodsUp
from stoker.domain.identity import Cluster, Department, Quota
from stoker.domain.lifecycle import created, transition
from stoker.domain.listing import Window
from stoker.domain.names import new_uuid
from stoker.domain.webhook_signatures import secret_text
from stoker.domain.webhooks import Delivery, EventType, Webhook
from stoker.domain.workload import Kind, Spec, Workload
from stoker.server.names import Names
from stoker.store import clusters, departments, outbox, webhooks, workloads, workspaces
from stoker.store.base import Store, Transaction
from stoker.store.signal import Signal

SECRET = secret_text(b"a secret of thirty-two bytes ..!")


class MovingClock:
    """Stands at the present, and is moved on by the test."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * 1000)


class HookLab:
    def __init__(self, store: Store, now: int) -> None:
        self.store = store
        self.clock = MovingClock(now)
        self.signal = Signal()
        self._numbers = itertools.count(1)

    async def found(self) -> None:
        def change(transaction: Transaction) -> None:
            clusters.add(transaction, Cluster(CLUSTER, "local", "local", "", 1))
            departments.add(transaction, Department(1, "default", "", 1, 1, 1))
            for number in (1, 2):
                workspaces.add(transaction, workspace(number, Quota()))

        await self.store.write(change)

    async def hook(self, url: str, *events: EventType, workspace_id: int | None = None) -> str:
        now = self.clock.now()
        added = Webhook(f"hook-{next(self._numbers)}", url, "", workspace_id, None, events, True, "", now, now)
        await self.store.write(lambda tx: webhooks.add(tx, added, SECRET))
        return added.id

    async def submit(self, workspace_id: int = 1, **fields: Any) -> Workload:
        now = self.clock.now()
        workload = Workload(
            uid=new_uuid(),
            slug=f"job-{next(self._numbers)}",
            name="job",
            kind=Kind.JOB,
            cluster_id=CLUSTER,
            workspace_id=workspace_id,
            namespace=f"team-{workspace_id}",
            user_id="1",
            user_name="li.wei",
            origin_api="safe",
            spec=Spec(),
            submitted_at=now,
            phase_at=now,
        )
        workload = structs.replace(workload, **fields)
        await self.store.write(lambda tx: workloads.add(tx, created(workload)))
        return workload

    async def happen(self, workload: Workload, *events: Event) -> Workload:
        def change(transaction: Transaction) -> Workload:
            now = workload
            for event in events:
                step = transition(now, event)
                assert step is not None, (now, event)
                workloads.apply(transaction, now, step)
                now = step.workload
            return now

        after = await self.store.write(change)
        self.signal.notify()
        return after

    async def end(self, *, success: bool = True, workspace_id: int = 1) -> Workload:
        """A workload that has come to its end."""
        at = self.clock.now()
        over = PodsEnded(at, success, "pod job-0 exited with code 3" if not success else "every pod succeeded")
        return await self.happen(await self.submit(workspace_id), Placed(at), PodsUp(at), over)

    def courier(self, store: Store, **options: Any) -> Courier:
        post = Post(Names().resolve, private=True, **options)
        return Courier(store, self.clock, lambda count: bytes(count), self.signal, post)

    @contextlib.asynccontextmanager
    async def delivering(self, store: Any = None, **options: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(self.courier(store or self.store, **options).run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def deliveries(self, hook: str) -> Sequence[Delivery]:
        """Oldest first."""
        found = await self.store.read(lambda tx: outbox.deliveries(tx, hook, Window(limit=1000)))
        return found.items[::-1]

    async def until(self, hook: str, check: Callable[[Sequence[Delivery]], bool]) -> Sequence[Delivery]:
        try:
            async with asyncio.timeout(20):
                while not check(found := await self.deliveries(hook)):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(await self.deliveries(hook)) from None
        return found
