"""Followed events and logs continue after a database outage, without gaps and without repetitions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import QueueHarness, RunningHarness

from stoker.domain.access.identity import UserKind
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.workloads import events
from stoker.services.workloads.events import StreamedEvent

ADMIN = Actor("u", "reader", UserKind.PERSON, admin=True, memberships={})
JOB = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo line $i; sleep 0.05; done"


class InjectedFailures:
    """Makes calls of the store fail after they have taken effect, as when the connection is lost at that moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Any, *methods: str) -> None:
        self.left = 0
        for name in methods:
            monkeypatch.setattr(store, name, self._failing(getattr(store, name)))

    def _failing(self, real: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def call(query: Any) -> Any:
            result = await real(query)
            if self.left > 0:
                self.left -= 1
                raise StokerError(ErrorCode.UNAVAILABLE, "The database does not answer.")
            return result

        return call


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[QueueHarness]:
    with QueueHarness(tmp_path / "data") as opened:
        opened.add_staff()
        yield opened


async def _renewed() -> Actor:
    return ADMIN


async def _next(harness: QueueHarness, stream: AsyncIterator[StreamedEvent | None]) -> StreamedEvent | None:
    """What comes next, while time goes by."""
    coming = asyncio.ensure_future(anext(stream))
    while not coming.done():
        harness.clock.advance(1)
        await asyncio.wait({coming}, timeout=0.01)
    return coming.result()


async def _end(harness: QueueHarness, stream: AsyncIterator[StreamedEvent | None]) -> None:
    while await _next(harness, stream) is None:
        pass


def test_events_go_on_after_an_outage_each_once(harness: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    failures = InjectedFailures(monkeypatch, harness.installation.store, "read")

    async def listen() -> list[str]:
        stream = harness.installation.services.events.follow(ADMIN, "", 0, _renewed)
        slugs: list[str] = []
        for name in ("one", "two"):
            made = await harness.ask("POST", MANAGEMENT_PATH, as_="member", json=harness.body(displayName=name))
            assert made.status_code == 200
            failures.left = 3
            while len(slugs) < (1 if name == "one" else 2):
                if (event := await _next(harness, stream)) is not None:
                    slugs.append(event.event.slug)
        for _ in range(3):
            assert await _next(harness, stream) is None
        return slugs

    one, two = harness.run(listen())
    assert one.startswith("one-")
    assert two.startswith("two-")


def test_events_end_with_the_error_when_the_outage_lasts(
    harness: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = InjectedFailures(monkeypatch, harness.installation.store, "read")
    failures.left = 1_000_000

    async def listen() -> None:
        stream = harness.installation.services.events.follow(ADMIN, "", 0, _renewed)
        began_at = harness.clock.now()
        with pytest.raises(StokerError, match="does not answer"):
            await _end(harness, stream)
        assert harness.clock.now() - began_at >= harness.settings.stream_patience_seconds * 1000

    harness.run(listen())


def test_a_log_goes_on_after_an_outage_without_a_gap_or_a_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningHarness(tmp_path / "data") as works:
        works.add_staff()
        failures = InjectedFailures(monkeypatch, works.installation.store, "read_inline", "read")
        ref = works.submit(run=JOB)
        works.until(lambda: bool(works.pods(ref)) and works.detail(ref)["phase"] == "Running", "the job runs")
        path = f"{MANAGEMENT_PATH}/{ref}/pods/{works.pods(ref)[0].name}/logs?follow=true&tailLines=1000"

        async def follow() -> list[str]:
            lines: list[str] = []
            async with works.stream(path) as stream:
                async for kind, data in stream.events():
                    if kind == "end":
                        return lines
                    assert kind != "error", data
                    lines.append(data)
                    if len(lines) in {5, 20}:
                        failures.left = 12
            return lines

        assert works.run(follow()) == [f"line {number}" for number in range(1, 41)]
        assert failures.left == 0
