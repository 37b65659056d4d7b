"""The native family's view of workloads: events as they happen, a search over all pods, resume."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH, V1
from tests.contract.management.harness import WAIT, QueueHarness, RunningHarness

from stoker.domain.access.identity import UserKind
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.events import Dispatched, PodsReady
from stoker.services.workloads import events

EVENTS = f"{V1}/events"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHarness]:
    with QueueHarness(tmp_path_factory.mktemp("events") / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHarness]:
    with RunningHarness(tmp_path_factory.mktemp("running") / "data") as opened:
        opened.add_staff()
        yield opened


def heard(harness: QueueHarness, path: str, count: int, as_: str = "admin", last_event: int | None = None) -> list[Any]:
    """The first so many events of a stream."""

    async def listen() -> list[Any]:
        found: list[Any] = []
        async with harness.stream(path, as_, last_event) as stream:
            assert (stream.status, stream.headers["cache-control"]) == (200, "no-store")
            async for kind, data in stream.events():
                found.append({"event": kind, **json.loads(data)})
                if len(found) == count:
                    break
        return found

    return harness.run(listen())


def test_what_happens_to_a_workload_is_told_in_order(harness: QueueHarness) -> None:
    ref = harness.submit()
    harness.go(ref, Dispatched, PodsReady)
    harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="manager")
    found = heard(harness, f"{EVENTS}?workload={ref}&after=0", 4)
    assert [each["event"] for each in found] == ["created", "phase", "phase", "phase"]
    assert [each["phase"] for each in found] == ["Pending", "Initializing", "Running", "Stopping"]
    assert [each["seq"] for each in found] == sorted({each["seq"] for each in found})
    assert {each["workloadId"] for each in found} == {ref}
    assert {each["workspace"] for each in found} == {"vision"}
    assert found[3]["message"] == "stopped by manager"


def test_a_stream_is_taken_up_where_it_broke_off(harness: QueueHarness) -> None:
    ref = harness.submit()
    harness.go(ref, Dispatched, PodsReady)
    path = f"{EVENTS}?workload={ref}&after=0"
    every = heard(harness, path, 3)
    assert heard(harness, path, 2, last_event=every[0]["seq"]) == every[1:]
    assert heard(harness, f"{EVENTS}?workload={harness.inside(ref).uid}&after={every[1]['seq']}", 1) == every[2:]


def test_a_new_listener_hears_what_happens_from_now_on(harness: QueueHarness) -> None:
    harness.submit()

    async def listen() -> tuple[str, str]:
        async with harness.stream(EVENTS, "viewer") as stream:
            await asyncio.sleep(0.05)
            made = await harness.ask("POST", MANAGEMENT_PATH, as_="member", json=harness.body())
            async for _, data in stream.events():
                return made.json()["workloadId"], json.loads(data)["workloadId"]
        raise AssertionError

    made, told = harness.run(listen())
    assert told == made


def test_one_hears_of_what_one_may_see(harness: QueueHarness) -> None:
    start = heard(harness, f"{EVENTS}?after=0", 1)[0]["seq"] - 1
    hidden, seen = harness.submit("outsider", workspaceId="audio"), harness.submit()
    found = heard(harness, f"{EVENTS}?workload={seen}&after={start}", 1, "member")
    assert [each["workloadId"] for each in found] == [seen]
    before = found[0]["seq"] - 2
    assert heard(harness, f"{EVENTS}?after={before}", 1, "member")[0]["workloadId"] == seen
    assert heard(harness, f"{EVENTS}?after={before}", 1, "outsider")[0]["workloadId"] == hidden


@pytest.mark.parametrize("caller", ["outsider", "nobody"])
def test_a_workload_one_may_not_see_is_not_found_before_anything_streams(harness: QueueHarness, caller: str) -> None:
    ref = harness.submit()
    for name in (ref, "nothing-bcdfg"):
        answer = harness.get(f"{EVENTS}?workload={name}", as_=caller)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("hours", [1, -1])
def test_a_stream_ends_with_its_readers_right_whichever_way_the_clock_is_set(
    harness: QueueHarness, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    reader = Actor("u", "reader", UserKind.PERSON, admin=True, memberships={})

    async def gone() -> Actor:
        raise StokerError(ErrorCode.UNAUTHENTICATED, "The key is gone.")

    async def listen() -> None:
        stream = harness.installation.services.events.follow(reader, "", None, gone)
        assert await anext(stream) is None
        harness.clock.advance(hours=hours)
        try:
            with pytest.raises(StokerError, match="The key is gone"):
                await anext(stream)
        finally:
            harness.clock.advance(hours=-hours)

    harness.run(listen())


def test_an_error_that_ends_a_stream_has_the_trace_id_of_its_answer(
    harness: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    ref = harness.submit()

    async def listen() -> tuple[str, Any]:
        async with harness.stream(f"{EVENTS}?workload={ref}") as stream:
            await harness.ask("DELETE", f"{MANAGEMENT_PATH}/{ref}", as_="member")
            harness.clock.advance(hours=1)
            try:
                return stream.headers["x-trace-id"], [json.loads(data) async for _, data in stream.events()][-1]
            finally:
                harness.clock.advance(hours=-1)

    trace_id, last = harness.run(listen())
    assert (last["error"]["code"], last["error"]["traceId"]) == ("not_found", trace_id)


def test_an_edit_that_changes_when_it_ends_is_told_too(harness: QueueHarness) -> None:
    ref = harness.submit()
    harness.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"timeout": 60, "maxRetry": 1})
    found = heard(harness, f"{EVENTS}?workload={ref}&after=0", 2)
    assert (found[1]["event"], found[1]["message"]) == ("changed", "number of retries, timeout changed by member")


def test_a_search_goes_over_all_pods_and_attempts_in_the_order_of_time(works: RunningHarness) -> None:
    run = 'echo x >> tries; sleep 0.0$RANK; echo "Epoch $RANK"; echo other; [ "$(wc -l < tries)" -gt 2 ]'
    shown = works.finished(run=run, replica=2, maxRetry=3)
    path = f"{V1}/workloads/{shown['workloadId']}/logs"
    found = works.get(f"{path}?text=epoch", as_="viewer").json()["items"]
    assert {each["attempt"] for each in found} == set(range(1, shown["dispatchCount"] + 1))
    assert {each["line"] for each in found} == {"Epoch 0", "Epoch 1"}
    assert [each["at"] for each in found] == sorted(each["at"] for each in found)
    pods = {each["pod"] for each in works.get(f"{path}?attempt=1", as_="viewer").json()["items"]}
    assert pods <= {f"{shown['workloadId']}-{name}" for name in ("master-0", "worker-0")}
    last = works.get(f"{path}?limit=1&text=epoch", as_="viewer").json()["items"]
    assert last == found[-1:]
    assert works.get(f"{path}?since={found[-1]['at']}&text=epoch", as_="viewer").json()["items"][-1:] == last
    assert works.get(path, as_="outsider").status_code == 404
    assert works.get(f"{path}?limit=0", as_="viewer").status_code == 400


def test_what_was_stopped_is_resumed_as_a_new_attempt(works: RunningHarness) -> None:
    ref = works.submit(run=f"echo attempt; {WAIT}")
    began = works.running(ref)["startTime"]
    works.stop(ref)
    works.ended(ref)
    assert works.post(f"{V1}/workloads/{ref}/resume", as_="member").status_code == 204
    works.until(lambda: works.detail(ref)["phase"] == "Running", "it runs again")
    shown = works.detail(ref)
    assert (shown["dispatchCount"], shown["startTime"], shown["endTime"]) == (2, began, "")
    assert len(shown["nodes"]) == 2
    works.stop(ref)
    works.ended(ref)
    for caller, status in (("viewer", 403), ("outsider", 404)):
        assert works.post(f"{V1}/workloads/{ref}/resume", as_=caller).status_code == status
