"""Takes events from the outbox to webhooks. Each webhook is served by itself, one event after the other, so a slow one
holds up nobody else. What came of a try is written after it: what a crash leaves unwritten is sent again, and is the
same event."""

import asyncio
import logging

from msgspec import structs

from stoker.controller.forever import forever
from stoker.controller.lease import LeaseLostError
from stoker.controller.post import Answer, Post
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.names import Randomness
from stoker.domain.webhook_signatures import headers
from stoker.domain.webhooks import DeliveryState, wait_seconds
from stoker.engines.failpoints import failpoint
from stoker.store import outbox, webhooks
from stoker.store.base import Store, Transaction
from stoker.store.outbox import Outcome, Parcel
from stoker.store.signal import Signal

LEASE = "webhooks"
"""Of all servers on one database only the holder of this lease delivers."""
AT_ONCE = 32
"""Webhooks that are served at the same time."""
TURN = 16
"""So many events are taken to a webhook before others have their turn."""
LOOK_SECONDS = 1.0
"""How often the outbox is looked at: another process may have written something, or a wait is over."""
REST_SECONDS = 0.2
PAUSE_SECONDS = 30.0
"""How long a webhook is left in peace after what came of a try could not be written down, as on a full disk."""
GONE = 410
GONE_WORDS = "The receiver answered 410: it wants no more."

log = logging.getLogger("stoker.webhooks")


class Courier:
    def __init__(self, store: Store, clock: Clock, randomness: Randomness, signal: Signal, post: Post) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._signal = signal
        self._post = post
        self._serving: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Serve whoever is due, until that is another server's to do."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(forever(lambda: self._look(group), LEASE))
        finally:
            await self._post.close()

    async def _look(self, group: asyncio.TaskGroup) -> None:
        waiting: list[str] = []  # whoever had a turn stands at the end again
        with self._signal.listening() as listener:
            while True:
                self._serving = {hook: task for hook, task in self._serving.items() if not task.done()}
                due = dict.fromkeys([hook for hook in await self._due() if hook not in self._serving])
                waiting = [hook for hook in dict.fromkeys([*waiting, *due]) if hook in due]
                room = AT_ONCE - len(self._serving)
                for hook in waiting[:room]:
                    self._serving[hook] = group.create_task(self._serve(hook))
                waiting = waiting[room:]
                await asyncio.sleep(REST_SECONDS)
                await listener.wait(LOOK_SECONDS)

    async def _due(self) -> list[str]:
        """Webhooks for which something is due, the longest waiting first."""
        now = self._clock.now()
        first = await self._store.peek(outbox.first_due)
        return sorted((hook for hook, at in first.items() if at <= now), key=lambda hook: first[hook])

    async def _serve(self, webhook_id: str) -> None:
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
        await asyncio.sleep(PAUSE_SECONDS)

    async def _deliver(self, webhook_id: str) -> None:
        for _ in range(TURN):
            now = self._clock.now()
            parcel = await self._store.peek(lambda tx, at=now: outbox.next_parcel(tx, webhook_id, at))
            if parcel is None:
                return
            signed = headers(parcel.secrets, parcel.event_id, now, parcel.payload)
            answer = await self._post.send(parcel.url, signed, parcel.payload)
            failpoint("webhooks.sent")
            await self._store.write(lambda tx, p=parcel, a=answer: self._record(tx, webhook_id, p, a))
            if not answer.accepted:
                return  # what comes after it has its turn when the others have had theirs

    def _record(self, transaction: Transaction, webhook_id: str, parcel: Parcel, answer: Answer) -> None:
        outbox.record(transaction, parcel.number, self._outcome(parcel, answer))
        if answer.status == GONE and (hook := webhooks.find(transaction, webhook_id)) is not None:
            log.warning("webhook %s is disabled: %s", webhook_id, GONE_WORDS)
            now = self._clock.now()
            webhooks.replace(
                transaction, structs.replace(hook, enabled=False, disabled_because=GONE_WORDS, updated_at=now)
            )
            outbox.give_up(transaction, webhook_id, GONE_WORDS)

    def _outcome(self, parcel: Parcel, answer: Answer) -> Outcome:
        now, tries = self._clock.now(), parcel.tries + 1
        if answer.accepted:
            return Outcome(DeliveryState.DELIVERED, tries, None, now, answer.status, "")
        jitter = int.from_bytes(self._randomness(1)) / 255
        wait = None if answer.status == GONE else wait_seconds(tries, jitter, answer.retry_after_seconds)
        if wait is None:
            log.warning("event %s is given up after %d tries: %s", parcel.event_id, tries, answer.error)
            return Outcome(DeliveryState.GIVEN_UP, tries, None, now, answer.status, answer.error)
        return Outcome(DeliveryState.PENDING, tries, now + round(wait * 1000), now, answer.status, answer.error)
