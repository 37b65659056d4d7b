"""Events reach their receivers: signed, at least once, in order, again after a failure; nobody waits for another."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.webhooks.harness import SECRET, HookHarness
from tests.integration.webhooks.receiver import HANG, Receiver, status

from stoker.controller.policy.retention import purge_once
from stoker.controller.runtime.lease import Lease, LeaseLostError
from stoker.controller.webhooks import delivery as controller
from stoker.controller.webhooks.delivery import FAILURE_PAUSE_SECONDS, LEASE_NAME
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuFault
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings
from stoker.domain.webhooks.model import DeliveryState, WebhookEventType
from stoker.domain.webhooks.retries import RETRY_DELAYS_SECONDS
from stoker.domain.webhooks.signatures import encode_secret
from stoker.domain.workload.events import Dispatched, PodsReady, Preempted, StopRequested
from stoker.domain.workload.lifecycle import transition
from stoker.store.cluster import gpu_availability, node_events, nodes
from stoker.store.db.base import Store, Transaction
from stoker.store.webhooks import outbox, subscriptions
from stoker.store.webhooks.outbox import DeliveryResult
from stoker.store.workloads import transitions

pytestmark = pytest.mark.slow


def test_every_end_is_told_once_in_order_and_signed(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            everything = await hooks.hook(receiver.url)
            at = hooks.clock.now()
            done = await hooks.end()
            failed = await hooks.end(success=False, workspace_id=2)
            stopped = await hooks.happen(await hooks.submit(), StopRequested(at, "li.wei"))
            moved = await hooks.happen(
                await hooks.submit(preemptible=True), Dispatched(at), PodsReady(at), Preempted(at, "x")
            )
            async with hooks.delivering():
                received = await receiver.until(lambda found: len(found) == 4)
                told = await hooks.until(everything, lambda found: all(each.next_at is None for each in found))
        payloads = [each.verified(SECRET) for each in received]
        assert [(each["type"], each["data"]["id"]) for each in payloads] == [
            ("workload.completed", done.slug),
            ("workload.failed", failed.slug),
            ("workload.stopped", stopped.slug),
            ("workload.preempted", moved.slug),
        ]
        assert payloads[1]["data"] == {
            "id": failed.slug,
            "uid": failed.uid,
            "name": "job",
            "kind": "Job",
            "workspace": "team-2",
            "user": "li.wei",
            "cluster": "local",
            "phase": "Failed",
            "reason": "PodFailed",
            "message": "pod job-0 exited with code 3",
            "exitCode": None,
            "attempt": 1,
            "gpus": 0.0,
            "submittedAt": payloads[1]["timestamp"],
            "startedAt": payloads[1]["timestamp"],
            "endedAt": payloads[1]["timestamp"],
        }
        assert received[0].headers["content-type"] == "application/json"
        assert received[0].headers["host"] == f"127.0.0.1:{receiver.port}"
        assert [(each.state, each.status, each.tries) for each in told] == [(DeliveryState.DELIVERED, 204, 1)] * 4
        assert [each.event_id for each in told] == [each.id for each in received]

    loop_run(play())


def test_a_webhook_hears_only_what_it_asked_for(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        failures = await hooks.hook("https://hooks.example.com/", WebhookEventType.WORKLOAD_FAILED)
        second = await hooks.hook("https://hooks.example.com/", workspace_id=2)
        off = await hooks.hook("https://hooks.example.com/")
        await hooks.store.write(lambda tx: _disable(tx, off))
        for workspace_id in (1, 2):
            for success in (True, False):
                await hooks.end(success=success, workspace_id=workspace_id)
        found = {each: [told.event for told in await hooks.deliveries(each)] for each in (failures, second, off)}
        assert found == {
            failures: [WebhookEventType.WORKLOAD_FAILED] * 2,
            second: [WebhookEventType.WORKLOAD_COMPLETED, WebhookEventType.WORKLOAD_FAILED],
            off: [],
        }

    loop_run(play())


def _disable(transaction: Transaction, hook: str) -> None:
    found = subscriptions.find(transaction, hook)
    assert found is not None
    subscriptions.update(transaction, structs.replace(found, enabled=False))


def test_what_fails_comes_again_with_the_same_id_until_it_is_given_up(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver, hooks.delivering():
            hook = await hooks.hook(receiver.url)
            receiver.answers = [status(500)] * len(RETRY_DELAYS_SECONDS)
            await hooks.end()
            for tries, wait in enumerate((*RETRY_DELAYS_SECONDS[1:], None), 1):
                [told] = await hooks.until(hook, lambda found, n=tries: found[0].tries == n)
                assert (told.status, told.error) == (500, "It answered 500.")
                if wait is None:
                    assert (told.state, told.next_at) == (DeliveryState.GIVEN_UP, None)
                else:
                    assert (told.state, told.next_at) == (DeliveryState.PENDING, hooks.clock.now() + wait * 1000)
                    hooks.clock.advance(wait)
                    hooks.signal.notify()
        assert len({each.id for each in receiver.received}) == 1
        assert len(receiver.received) == len(RETRY_DELAYS_SECONDS)
        assert receiver.received[-1].headers["webhook-timestamp"] == str(hooks.clock.now() // 1000)

    loop_run(play())


def test_a_receiver_may_ask_for_more_time(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver, hooks.delivering():
            hook = await hooks.hook(receiver.url)
            receiver.answers = [status(503, "retry-after: 120")]
            await hooks.end()
            [told] = await hooks.until(hook, lambda found: found[0].tries == 1)
            assert told.next_at == hooks.clock.now() + 120_000

    loop_run(play())


def test_410_disables_the_webhook_and_gives_up_what_was_on_its_way(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            hook = await hooks.hook(receiver.url)
            receiver.answers = [status(410)]
            await hooks.end()
            await hooks.end()
            async with hooks.delivering():
                told = await hooks.until(hook, lambda found: all(each.next_at is None for each in found))
            await hooks.end()
            assert [(each.state, each.tries) for each in told] == [
                (DeliveryState.GIVEN_UP, 1),
                (DeliveryState.GIVEN_UP, 0),
            ]
            assert len(await hooks.deliveries(hook)) == 2
            found = await hooks.store.read(lambda tx: subscriptions.find(tx, hook))
            assert found is not None
            assert (found.enabled, found.disabled_because) == (False, "The receiver answered 410: it wants no more.")
            assert len(receiver.received) == 1

    loop_run(play())


def test_a_receiver_that_hangs_holds_up_no_other(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as slow, Receiver.listening() as quick, hooks.delivering(limit_seconds=600.0):
            slow.answers = [HANG]
            hanging, _ = await hooks.hook(slow.url), await hooks.hook(quick.url)
            for _ in range(3):
                await hooks.end()
            await quick.until(lambda found: len(found) == 3)
            await slow.until(lambda found: len(found) == 1)
            assert [each.tries for each in await hooks.deliveries(hanging)] == [0, 0, 0]

    loop_run(play())


def test_many_events_for_receivers_that_hang_leave_the_others_their_turn(
    hooks: HookHarness, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "DELIVERY_CONCURRENCY", 1)

    async def play() -> None:
        async with Receiver.listening() as stuck, Receiver.listening() as good:
            stuck.answers = [HANG] * 5
            slow, fast = await hooks.hook(stuck.url, workspace_id=1), await hooks.hook(good.url, workspace_id=2)
            for _ in stuck.answers:
                await hooks.end(workspace_id=1)
            await hooks.end(workspace_id=2)
            async with hooks.delivering(limit_seconds=0.1):
                await hooks.until(fast, lambda found: found[0].state is DeliveryState.DELIVERED)
                assert sum(each.tries for each in await hooks.deliveries(slow)) <= 2

    loop_run(play())


def test_an_answer_without_end_is_not_read_to_its_end(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver, hooks.delivering():
            hook = await hooks.hook(receiver.url)
            receiver.answers = [b"HTTP/1.1 200 OK\r\ncontent-length: 900000000\r\n\r\n" + b"x" * 200_000]
            await hooks.end()
            await hooks.until(hook, lambda found: found[0].state is DeliveryState.DELIVERED)

    loop_run(play())


def test_what_was_sent_and_not_written_down_comes_again_and_is_the_same(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            hook = await hooks.hook(receiver.url)
            receiver.answers = [HANG]
            await hooks.end()
            await hooks.end()
            async with hooks.delivering():
                await receiver.until(lambda found: len(found) == 1)  # and then the server dies
            async with hooks.delivering():
                await hooks.until(hook, lambda found: all(each.state is DeliveryState.DELIVERED for each in found))
            first, again, second = receiver.received
            assert (first.id, first.body) == (again.id, again.body)
            assert second.id != first.id

    loop_run(play())


class FullDisk:
    """The store, to which nothing can be written while it is `full`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.full = True
        self.refused = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, change: Callable[[Transaction], Any]) -> Any:
        if not self.full:
            return await self._store.write(change)
        self.refused.set()
        raise StokerError(ErrorCode.UNAVAILABLE, "The disk is full.")


def test_on_a_full_disk_no_receiver_gets_the_same_again_before_a_pause(hooks: HookHarness, loop_run: LoopRun) -> None:
    disk = FullDisk(hooks.store)

    async def play() -> None:
        async with Receiver.listening() as first, Receiver.listening() as other:
            await hooks.hook(first.url, workspace_id=1)
            await hooks.end()
            async with hooks.delivering(disk):
                async with asyncio.timeout(20):
                    await disk.refused.wait()
                disk.full = False
                hook = await hooks.hook(other.url, workspace_id=2)
                for count in (1, 2, 3):
                    await hooks.end(workspace_id=2)
                    await hooks.until(hook, lambda found, n=count: [each.tries for each in found] == [1] * n)
                assert len(first.received) == 1
                hooks.clock.advance(FAILURE_PAUSE_SECONDS)
                one, again = await first.until(lambda found: len(found) == 2)
                assert one.headers["webhook-id"] == again.headers["webhook-id"]

    loop_run(play())


def test_a_replaced_secret_is_good_for_a_while(hooks: HookHarness, loop_run: LoopRun) -> None:
    new = encode_secret(b"n" * 32)

    async def play() -> None:
        now = hooks.clock.now()
        async with Receiver.listening() as receiver, hooks.delivering():
            hook = await hooks.hook(receiver.url)
            await hooks.store.write(lambda tx: subscriptions.set_secret(tx, hook, new, now, now + 1000))
            await hooks.end()
            [both] = await receiver.until(lambda found: len(found) == 1)
            hooks.clock.advance(1)
            await hooks.end()
            [_, one] = await receiver.until(lambda found: len(found) == 2)
        for secret in (SECRET, new):
            both.verified(secret)
        assert " " not in one.headers["webhook-signature"]
        one.verified(new)

    loop_run(play())


def test_of_two_servers_one_delivers_and_the_other_takes_over(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        first, second = (Lease(hooks.store, LEASE_NAME, name, hooks.clock, takeover=True) for name in ("a", "b"))
        async with Receiver.listening() as receiver:
            hook = await hooks.hook(receiver.url)
            one = asyncio.create_task(hooks.courier(await first.acquire()).run())
            await hooks.end()
            await hooks.until(hook, lambda found: found[0].state is DeliveryState.DELIVERED)
            hooks.clock.advance(60)
            other = asyncio.create_task(hooks.courier(await second.acquire()).run())
            await hooks.end()
            with pytest.raises(BaseExceptionGroup) as lost:
                await one
            assert lost.group_contains(LeaseLostError)
            await hooks.until(hook, lambda found: found[1].state is DeliveryState.DELIVERED)
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)
            assert len(receiver.received) == len({each.id for each in receiver.received}) == 2

    loop_run(play())


def test_what_was_sent_is_forgotten_after_a_while_and_what_is_on_its_way_is_not(
    hooks: HookHarness, loop_run: LoopRun
) -> None:
    async def play() -> None:
        hook = await hooks.hook("https://hooks.example.com/")
        for _ in range(2):
            await hooks.end()
        delivered, _ = await hooks.deliveries(hook)
        now = hooks.clock.now()
        done = DeliveryResult(DeliveryState.DELIVERED, 1, None, now, 204, "")
        await hooks.store.write(lambda tx: outbox.record_result(tx, delivered.number, done))
        hooks.clock.advance(86_400)
        await purge_once(hooks.store, Settings(webhook_days=1), hooks.clock)
        assert len(await hooks.deliveries(hook)) == 2
        hooks.clock.advance(1)
        await purge_once(hooks.store, Settings(webhook_days=1), hooks.clock)
        assert [each.state for each in await hooks.deliveries(hook)] == [DeliveryState.PENDING]

    loop_run(play())


def test_a_change_that_is_taken_back_tells_nobody(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        hook = await hooks.hook("https://hooks.example.com/")
        waiting = await hooks.submit()

        def stop(transaction: Transaction) -> None:
            step = transition(waiting, StopRequested(hooks.clock.now(), "li.wei"))
            assert step is not None
            transitions.apply(transaction, waiting, step)
            assert outbox.next_due_by_webhook(transaction) == {hook: 0}
            raise RuntimeError("a power cut")

        with pytest.raises(RuntimeError):
            await hooks.store.write(stop)
        assert not await hooks.deliveries(hook)
        await hooks.happen(waiting, StopRequested(hooks.clock.now(), "li.wei"))
        assert len(await hooks.deliveries(hook)) == 1

    loop_run(play())


def test_where_there_are_no_webhooks_nothing_is_written(hooks: HookHarness, loop_run: LoopRun) -> None:
    async def play() -> None:
        await hooks.end()
        rows = await hooks.store.read(lambda tx: tx.fetch_all("SELECT COUNT(*) FROM webhook_delivery"))
        assert rows == [(0,)]

    loop_run(play())


def test_a_faulty_node_is_told_once_and_so_is_its_recovery(hooks: HookHarness, loop_run: LoopRun) -> None:
    well = Node("node-1", 1000, 1, (Device(0, "gpu-0", "H100"),))
    broken = Node("node-1", 1000, 1, (Device(0, "gpu-0", "H100", fault="fell off the bus"),))

    async def look(node: Node) -> None:
        def change(transaction: Transaction) -> None:
            at = hooks.clock.now()
            write = lambda: nodes.upsert(transaction, "cluster-1", [node], at)  # noqa: E731
            node_events.write_with_events(transaction, "cluster-1", {node.name}, at, write)

        await hooks.store.write(change)
        hooks.clock.advance(1)

    async def say(*faults: GpuFault) -> None:
        def change(transaction: Transaction) -> None:
            at = hooks.clock.now()
            write = lambda: gpu_availability.sync_reported_faults(transaction, "cluster-1", faults, at)  # noqa: E731
            node_events.write_with_events(transaction, "cluster-1", {"node-1"}, at, write)

        await hooks.store.write(change)
        hooks.clock.advance(1)

    async def play() -> None:
        async with Receiver.listening() as receiver, hooks.delivering():
            await hooks.hook(receiver.url)
            team = await hooks.hook(receiver.url, workspace_id=1)
            for node in (well, broken, broken):
                await look(node)
            await say(GpuFault("node-1", 0, "Xid 79"))
            await look(well)  # the GPU still says that it is not
            await say()
            first, second = await receiver.until(lambda found: len(found) == 2)
            assert not await hooks.deliveries(team)
        assert first.payload["type"] == "node.faulty"
        assert first.payload["data"] == {"name": "node-1", "cluster": "local", "message": "GPU 0: fell off the bus"}
        assert second.payload["type"] == "node.recovered"

    loop_run(play())
