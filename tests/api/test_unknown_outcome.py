"""A write that exceeds the request timeout: its outcome is unknown, and the error says how to find out."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import MANAGEMENT_PATH, V1, Harness

BODY = {"name": "research"}
LATE = "The request took longer than 0.2 s. The outcome is unknown: the request may still take effect."


@pytest.fixture
def harness(open_harness: OpenHarness) -> Harness:
    opened = open_harness(request_timeout_seconds=0.2)
    opened.get(f"{V1}/me", as_="admin")  # that its key was used is noted, which is a write too
    return opened


@contextlib.asynccontextmanager
async def busy(harness: Harness) -> AsyncIterator[None]:
    """Every write waits for another that takes its time."""
    begun, done = threading.Event(), threading.Event()

    def wait(transaction: object) -> None:
        begun.set()
        done.wait(30)

    waiting = asyncio.create_task(harness.installation.store.write(wait))
    await asyncio.to_thread(begun.wait, 30)
    try:
        yield
    finally:
        done.set()
        await waiting


def late(harness: Harness, method: str, path: str, body: object, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with busy(harness):
            return await harness.ask(method, path, as_="admin", headers=headers, json=body)

    return harness.run(ask())


def test_a_create_that_was_not_waited_for_is_found_by_its_key(harness: Harness) -> None:
    answer = late(harness, "POST", f"{V1}/departments", BODY, **{"Idempotency-Key": "once"})
    problem = answer.json()["error"]
    assert (answer.status_code, problem["message"]) == (503, LATE)
    assert problem["hint"].startswith("Repeat the request with the same Idempotency-Key")
    assert answer.headers["Retry-After"] == "1"
    again = harness.post(f"{V1}/departments", as_="admin", headers={"Idempotency-Key": "once"}, json=BODY)
    assert (again.status_code, again.json()["name"]) == (201, "research")
    third = harness.post(f"{V1}/departments", as_="admin", headers={"Idempotency-Key": "once"}, json=BODY)
    assert third.json() == again.json()
    names = [each["name"] for each in harness.get(f"{V1}/departments", as_="admin").json()["items"]]
    assert names.count("research") == 1
    assert [record["target"] for record in harness.audit(action="department.create")] == ["research"]


def test_a_create_without_a_key_is_to_be_looked_for_before_it_is_repeated(harness: Harness) -> None:
    problem = late(harness, "POST", f"{V1}/departments", BODY).json()["error"]
    assert problem["message"] == LATE
    assert problem["hint"].startswith("Check with GET whether the object exists before you send the request again.")
    assert "Idempotency-Key" in problem["hint"]


def test_a_change_is_to_be_looked_at_before_it_is_repeated(harness: Harness) -> None:
    key = {"Idempotency-Key": "of no use here"}
    problem = late(harness, "PATCH", f"{V1}/departments/default", {"description": "all"}, **key).json()["error"]
    assert (problem["message"], problem["hint"]) == (
        LATE,
        "Read the current state with GET before you send the request again.",
    )


def test_every_family_says_so(harness: Harness) -> None:
    answer = late(harness, "POST", f"{MANAGEMENT_PATH}/stop", {"workloadIds": ["x-bcdfg"]})
    assert answer.status_code == 503
    assert "The outcome is unknown" in answer.json()["errorMessage"]


def test_what_was_not_begun_was_given_up(harness: Harness) -> None:
    """A body that never comes to its end is no write yet."""

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await harness.never()

    problem = harness.post(f"{V1}/departments", as_="admin", content=body()).json()["error"]
    assert problem["message"] == "The request took longer than 0.2 s and was cancelled."
