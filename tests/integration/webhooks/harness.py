"""A store with a cluster, two workspaces and webhooks, and a courier on a clock that the test moves."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import structs
from tests.clock import ManualClock
from tests.integration.controller.harness import CLUSTER, new_supervisor, workspace

from stoker.controller.webhooks.delivery import DeliveryWorker
from stoker.controller.webhooks.sender import WebhookSender
from stoker.domain.access.identity import Cluster, Department, Quota
from stoker.domain.names import new_uuid4
from stoker.domain.queries.pages import PageRequest
from stoker.domain.webhooks.model import Webhook, WebhookDelivery, WebhookEventType
from stoker.domain.webhooks.signatures import encode_secret
from stoker.domain.workload.events import Dispatched, LifecycleEvent, PodsFinished, PodsReady
from stoker.domain.workload.lifecycle import submit_transition, transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import Kind, Spec
from stoker.server.dns import Resolver
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, Transaction
from stoker.store.db.notify import ChangeNotifier
from stoker.store.identity import departments, workspaces
from stoker.store.webhooks import outbox, subscriptions
from stoker.store.workloads import transitions

SECRET = encode_secret(b"a secret of thirty-two bytes ..!")


class HookHarness:
    def __init__(self, store: Store, now: int) -> None:
        self.store = store
        self.clock = ManualClock(now)
        self.signal = ChangeNotifier()
        self._numbers = itertools.count(1)

    async def found(self) -> None:
        def change(transaction: Transaction) -> None:
            clusters.add(transaction, Cluster(CLUSTER, "local", "local", "", 1))
            departments.add(transaction, Department(1, "default", "", 1, 1, 1))
            for number in (1, 2):
                workspaces.add(transaction, workspace(number, Quota()))

        await self.store.write(change)

    async def hook(self, url: str, *events: WebhookEventType, workspace_id: int | None = None) -> str:
        now = self.clock.now()
        added = Webhook(f"hook-{next(self._numbers)}", url, "", workspace_id, None, events, True, "", now, now)
        await self.store.write(lambda tx: subscriptions.add(tx, added, SECRET))
        return added.id

    async def submit(self, workspace_id: int = 1, **fields: Any) -> Workload:
        now = self.clock.now()
        workload = Workload(
            uid=new_uuid4(),
            slug=f"job-{next(self._numbers)}",
            name="job",
            kind=Kind.JOB,
            cluster_id=CLUSTER,
            workspace_id=workspace_id,
            namespace=f"team-{workspace_id}",
            user_id="1",
            user_name="li.wei",
            origin_api="management",
            spec=Spec(),
            submitted_at=now,
            phase_at=now,
        )
        workload = structs.replace(workload, **fields)
        await self.store.write(lambda tx: transitions.add(tx, submit_transition(workload)))
        return workload

    async def happen(self, workload: Workload, *events: LifecycleEvent) -> Workload:
        def change(transaction: Transaction) -> Workload:
            now = workload
            for event in events:
                step = transition(now, event)
                assert step is not None, (now, event)
                transitions.apply(transaction, now, step)
                now = step.workload
            return now

        after = await self.store.write(change)
        self.signal.notify()
        return after

    async def end(self, *, success: bool = True, workspace_id: int = 1) -> Workload:
        """A workload that has come to its end."""
        at = self.clock.now()
        over = PodsFinished(at, success, "pod job-0 exited with code 3" if not success else "every pod succeeded")
        return await self.happen(await self.submit(workspace_id), Dispatched(at), PodsReady(at), over)

    def courier(self, store: Store, **options: Any) -> DeliveryWorker:
        post = WebhookSender(Resolver().resolve, private=True, **options)
        return DeliveryWorker(
            store, self.clock, lambda count: bytes(count), self.signal, post, new_supervisor(self.clock)
        )

    @contextlib.asynccontextmanager
    async def delivering(self, store: Any = None, **options: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(self.courier(store or self.store, **options).run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def deliveries(self, hook: str) -> Sequence[WebhookDelivery]:
        """Oldest first."""
        found = await self.store.read(lambda tx: outbox.list_deliveries(tx, hook, PageRequest(limit=1000)))
        return found.items[::-1]

    async def until(self, hook: str, check: Callable[[Sequence[WebhookDelivery]], bool]) -> Sequence[WebhookDelivery]:
        try:
            async with asyncio.timeout(20):
                while not check(found := await self.deliveries(hook)):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(await self.deliveries(hook)) from None
        return found
