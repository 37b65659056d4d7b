"""Logs of any length are read in pieces: every line once, with little memory and a limited number of readers."""

import asyncio
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Message
from tests.api.harness import MANAGEMENT_PATH
from tests.conftest import LoopRun
from tests.contract.management.harness import QueueHarness

from stoker.domain.cluster.engine_access import LogLine
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.pod import Pod
from stoker.services.workloads.log_reader import GAP_MESSAGE, LogQuery, LogReader
from stoker.services.workloads.logs import LINES_BATCH_SIZE
from stoker.store import open_store
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import log_chunks
from stoker.store.telemetry.log_chunks import LogChunk, TimestampedLine
from stoker.store.workloads import pods

MIB = 2**20
LINE = "x" * 200
LATE = 2**60


class FakePod:
    """A pod that has printed numbered lines, of which a collector has stored some."""

    def __init__(self, store: Store, lines: int = 0) -> None:
        self._store = store
        self.printed = lines
        self.kept = 0
        self.held = True

    async def tail(self, cluster_id: str, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        last = min(self.printed, position + limit) if self.held else 0
        return [LogLine(number // 3, f"line {number}", number + 1) for number in range(position, last)]

    async def keep(self, lines: int, cap_bytes: int = 2**40) -> None:
        until = min(self.printed, self.kept + lines)
        if until > self.kept:
            held: list[TimestampedLine] = [(number // 3, f"line {number}") for number in range(self.kept, until)]
            await self._store.write(
                lambda tx: log_chunks.add_chunk(tx, LogChunk("pod", "w", 1, held, until), cap_bytes)
            )
            self.kept = until

    def reader(self, query: LogQuery) -> LogReader:
        return LogReader(self._store, self, "cluster", "pod", query)


@pytest.fixture
def embedded(tmp_path: Path, loop_run: LoopRun) -> Iterator[Store]:
    opened = open_store("", tmp_path, 1)
    yield opened
    loop_run(opened.close())


@pytest.mark.parametrize("seed", range(25))
def test_every_line_comes_once_while_lines_move_from_the_pod_to_the_store(
    embedded: Store, loop_run: LoopRun, seed: int
) -> None:
    chance = random.Random(seed)

    async def follow() -> None:
        pod = FakePod(embedded, chance.randrange(40))
        await pod.keep(chance.randrange(30))
        tail = chance.randrange(1, 60)
        first = max(0, pod.printed - tail)
        query = LogQuery(tail=tail)
        reader = pod.reader(query)
        assert await reader.seek_to_tail(LATE) == min(tail, pod.printed)
        read: list[str] = []
        lines: list[TimestampedLine] | None = []
        while pod.held or lines is not None:
            lines = await reader.read_next()
            read += [text for _, text in lines or ()]
            pod.printed += chance.randrange(8) if pod.held else 0
            if chance.random() < 0.5:
                await pod.keep(chance.randrange(15))
            if pod.held and chance.random() < 0.05:
                await pod.keep(1000)
                pod.held, lines = False, []
        assert read == [f"line {number}" for number in range(first, pod.printed)]

    loop_run(follow())


@pytest.mark.parametrize("tail", [1, 7, 30, 1000])
@pytest.mark.parametrize(("text", "since"), [("", 0), ("7", 0), ("", 5), ("LINE 1", 4)])
def test_the_last_lines_are_those_that_match(
    embedded: Store, loop_run: LoopRun, tail: int, text: str, since: int
) -> None:
    async def read() -> None:
        pod = FakePod(embedded, 50)
        for lines in (10, 13, 9):
            await pod.keep(lines)
        wanted = [f"line {n}" for n in range(50) if text.lower() in f"line {n}" and n // 3 >= since][-tail:]
        reader = pod.reader(LogQuery(tail=tail, text=text, since=since))
        assert await reader.seek_to_tail(LATE) == len(wanted)
        found: list[str] = []
        while (lines := await reader.read_next()) is not None:
            found += [each for _, each in lines]
        assert found == wanted

    loop_run(read())


def test_a_reader_that_is_overtaken_by_the_limit_is_told_of_the_gap(embedded: Store, loop_run: LoopRun) -> None:
    async def read() -> list[str]:
        pod = FakePod(embedded, 30)
        await pod.keep(10)
        reader = pod.reader(LogQuery(tail=100))
        await reader.seek_to_tail(LATE)
        first = await reader.read_next() or []
        await pod.keep(10)
        await pod.keep(10, cap_bytes=1)
        return [text for _, text in [*first, *(await reader.read_next() or [])]]

    assert loop_run(read()) == [*(f"line {n}" for n in range(10)), GAP_MESSAGE, *(f"line {n}" for n in range(20, 30))]


def test_the_newest_chunk_stays_whatever_the_limit(embedded: Store, loop_run: LoopRun) -> None:
    async def kept() -> int:
        pod = FakePod(embedded, 10)
        await pod.keep(10, cap_bytes=1)
        return await embedded.read_inline(lambda tx: log_chunks.collected_position(tx, "pod"))

    assert loop_run(kept()) == 10


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHarness]:
    with QueueHarness(tmp_path_factory.mktemp("logs") / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(scope="module")
def printed(harness: QueueHarness) -> str:
    """A workload that has printed 100,000 lines, 20 MB, and ended."""
    ref = harness.submit()
    workload = harness.inside(ref)
    resources = Resources(cpu_milli=100, memory_bytes=2**28, gpu_milli=0)
    pod = Pod(
        uid="long",
        workload_uid=workload.uid,
        name=f"{ref}-worker-0",
        attempt=1,
        revision=1,
        rank=0,
        node="node",
        resources=resources,
        phase=PodPhase.SUCCEEDED,
        created_at=0,
    )

    def write(transaction: Transaction) -> None:
        pods.add(transaction, workload.cluster_id, [pod])
        for number in range(100):
            lines = [(line, f"{line} {LINE}") for line in range(number * 1000, number * 1000 + 1000)]
            log_chunks.add_chunk(transaction, LogChunk("long", workload.uid, 1, lines, number + 1), 2**40)

    harness.run(harness.installation.store.write(write))
    return f"{MANAGEMENT_PATH}/{ref}/pods/{pod.name}/logs"


@pytest.mark.parametrize("query", ["?tailLines=100000", "?tailLines=100000&follow=true", "?tailLines=100000&grep=x"])
def test_a_long_log_read_slowly_costs_a_few_megabytes(harness: QueueHarness, printed: str, query: str) -> None:
    async def read() -> tuple[int, int, int]:
        pieces, largest, size = 0, 0, 0
        scope = harness.scope(printed + query, "member")

        async def receive() -> Message:
            await asyncio.Event().wait()
            return {}

        async def send(message: Message) -> None:
            nonlocal pieces, largest, size
            body = message.get("body", b"")
            pieces, largest, size = pieces + 1, max(largest, len(body)), size + len(body)
            await asyncio.sleep(0)

        tracemalloc.start()
        try:
            await harness.app(scope, receive, send)
            return size, largest, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    size, largest, peak = harness.run(read())
    assert size > 100_000 * len(LINE)
    assert largest < (LINES_BATCH_SIZE + 1) * (len(LINE) + 20)
    assert peak < 4 * MIB


def test_a_streamed_answer_is_the_documented_one(harness: QueueHarness, printed: str) -> None:
    answer = harness.get(f"{printed}?tailLines=1200&grep=99", as_="member")
    shown = json.loads(answer.content)
    assert list(shown) == ["workloadId", "podId", "namespace", "logs"]
    wanted = [f"{n} {LINE}" for n in range(100_000) if "99" in str(n)]
    assert shown["logs"] == wanted[-1200:]
    assert harness.get(f"{printed}?grep=nothing", as_="member").json()["logs"] == []


def test_a_head_request_streams_nothing(harness: QueueHarness) -> None:
    answer = harness.request("HEAD", "/api/stoker/v1/events", as_="member")
    assert (answer.status_code, answer.content) == (200, b"")


def test_one_user_has_so_many_streams_and_no_more(tmp_path: Path) -> None:
    with QueueHarness(tmp_path / "data", stream_limit=2) as harness:
        harness.add_staff()
        events = "/api/stoker/v1/events"

        async def crowd() -> None:
            async with harness.stream(events, "member") as first, harness.stream(events, "member") as second:
                assert (first.status, second.status) == (200, 200)
                refused = await harness.ask("GET", events, as_="member")
                assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
                assert "2 streams" in refused.json()["error"]["message"]
                assert (await harness.ask("GET", events, as_="viewer")).status_code == 200
            assert (await harness.ask("GET", events, as_="member")).status_code == 200

        harness.run(crowd())


def test_both_kinds_of_answer_are_in_the_document_of_the_api(harness: QueueHarness) -> None:
    paths = json.loads(harness.app.openapi)["paths"]
    logs = paths["/api/custom/workloads/{name}/pods/{podId}/logs"]["get"]["responses"]["200"]["content"]
    assert list(logs) == ["application/json", "text/event-stream"]
    events = paths["/api/stoker/v1/events"]["get"]["responses"]["200"]["content"]
    assert list(events) == ["text/event-stream"]
