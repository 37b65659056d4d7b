"""Delivers events from the outbox to webhooks.

Every webhook is served by a task of its own, one event after the other, so a slow one does not delay others. The result
of a delivery is stored after it: after a crash in between the same event is sent again.
"""

import asyncio
import logging

from msgspec import structs

from stoker.concurrency.failpoints import failpoint
from stoker.concurrency.supervisor import Supervisor
from stoker.controller.runtime.lease import LeaseLostError
from stoker.controller.webhooks.sender import DeliveryResponse, WebhookSender
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.names import RandomBytes
from stoker.domain.webhooks.model import DeliveryState
from stoker.domain.webhooks.retries import retry_delay_seconds
from stoker.domain.webhooks.signatures import signature_headers
from stoker.store.db.base import Store, Transaction
from stoker.store.db.notify import ChangeNotifier
from stoker.store.webhooks import outbox, subscriptions
from stoker.store.webhooks.outbox import DeliveryResult, PendingDelivery

LEASE_NAME = "webhooks"
"""Of all servers on one database only the holder of this lease delivers."""
DELIVERY_CONCURRENCY = 32
"""How many webhooks are served at the same time."""
EVENT_BATCH_SIZE = 16
"""How many events a webhook gets before others have their turn."""
POLL_SECONDS = 1.0
"""How often the outbox is polled, for events of other processes and for due retries."""
MIN_POLL_SECONDS = 0.2
FAILURE_PAUSE_SECONDS = 30.0
"""How long a webhook is left alone after the result of a delivery could not be stored, as on a full disk."""
HTTP_GONE = 410
GONE_MESSAGE = "The receiver answered 410: it wants no more."

log = logging.getLogger("stoker.webhooks")


class DeliveryWorker:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        randomness: RandomBytes,
        notifier: ChangeNotifier,
        sender: WebhookSender,
        supervisor: Supervisor,
    ) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._notifier = notifier
        self._sender = sender
        self._supervisor = supervisor
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Serve due webhooks until the lease is lost."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervisor.run("webhooks", lambda: self._poll_outbox(group)))
        finally:
            await self._sender.close()

    async def _poll_outbox(self, group: asyncio.TaskGroup) -> None:
        waiting: list[str] = []  # round robin: a webhook that was served goes to the end
        with self._notifier.listen() as listener:
            while True:
                self._tasks = {hook: task for hook, task in self._tasks.items() if not task.done()}
                due = dict.fromkeys([hook for hook in await self._due_webhooks() if hook not in self._tasks])
                waiting = [hook for hook in dict.fromkeys([*waiting, *due]) if hook in due]
                free_slots = DELIVERY_CONCURRENCY - len(self._tasks)
                for hook in waiting[:free_slots]:
                    self._tasks[hook] = group.create_task(self._serve_webhook(hook))
                waiting = waiting[free_slots:]
                await asyncio.sleep(MIN_POLL_SECONDS)
                await listener.wait(POLL_SECONDS)

    async def _due_webhooks(self) -> list[str]:
        """Webhooks with a due delivery, longest waiting first."""
        now = self._clock.now()
        first = await self._store.read_inline(outbox.next_due_by_webhook)
        return sorted((hook for hook, at in first.items() if at <= now), key=lambda hook: first[hook])

    async def _serve_webhook(self, webhook_id: str) -> None:
        try:
            await self._deliver(webhook_id)
        except LeaseLostError:
            raise
        except StokerError as error:
            log.warning("webhook %s could not be served: %s", webhook_id, error.message)
        except Exception:
            log.exception("webhook %s could not be served", webhook_id)
        else:
            return
        await self._clock.sleep(FAILURE_PAUSE_SECONDS)

    async def _deliver(self, webhook_id: str) -> None:
        for _ in range(EVENT_BATCH_SIZE):
            now = self._clock.now()
            delivery = await self._store.read_inline(lambda tx, at=now: outbox.next_pending(tx, webhook_id, at))
            if delivery is None:
                return
            signed = signature_headers(delivery.secrets, delivery.event_id, now, delivery.payload)
            response = await self._sender.send(delivery.url, signed, delivery.payload)
            failpoint("webhooks.sent")
            await self._store.write(lambda tx, p=delivery, a=response: self._record(tx, webhook_id, p, a))
            if not response.is_accepted:
                return  # later events of this webhook wait until others have had their turn

    def _record(
        self, transaction: Transaction, webhook_id: str, delivery: PendingDelivery, response: DeliveryResponse
    ) -> None:
        outbox.record_result(transaction, delivery.number, self._outcome(delivery, response))
        if response.status == HTTP_GONE and (hook := subscriptions.find(transaction, webhook_id)) is not None:
            log.warning("webhook %s is disabled: %s", webhook_id, GONE_MESSAGE)
            now = self._clock.now()
            subscriptions.update(
                transaction, structs.replace(hook, enabled=False, disabled_because=GONE_MESSAGE, updated_at=now)
            )
            outbox.cancel_pending(transaction, webhook_id, GONE_MESSAGE)

    def _outcome(self, delivery: PendingDelivery, response: DeliveryResponse) -> DeliveryResult:
        now, tries = self._clock.now(), delivery.tries + 1
        if response.is_accepted:
            return DeliveryResult(DeliveryState.DELIVERED, tries, None, now, response.status, "")
        jitter = int.from_bytes(self._randomness(1)) / 255
        wait = (
            None if response.status == HTTP_GONE else retry_delay_seconds(tries, jitter, response.retry_after_seconds)
        )
        if wait is None:
            log.warning("event %s is given up after %d tries: %s", delivery.event_id, tries, response.error)
            return DeliveryResult(DeliveryState.GIVEN_UP, tries, None, now, response.status, response.error)
        return DeliveryResult(
            DeliveryState.PENDING, tries, now + round(wait * 1000), now, response.status, response.error
        )
