"""Metric servers that answer, are slow, never end, or send too much or something else: only valid metrics are
stored."""

import asyncio
import contextlib
import gzip
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, SMALL, ControllerHarness

from stoker.controller.collect.inference import InferenceCollector
from stoker.domain.metrics.pod_samples import PodMetric, PodSampleBlock
from stoker.domain.metrics.scraping import SCRAPE_ANNOTATION
from stoker.domain.workload.spec import Kind, Service, Spec
from stoker.engines.model import ServiceEndpoint
from stoker.store.db.base import Store
from stoker.store.db.sqlite.store import SqliteStore
from stoker.store.telemetry import pod_samples
from stoker.telemetry.scrape.client import ScrapeClient

PERIOD = 15.0
Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def file(tmp_path: Path, loop_run: LoopRun) -> Iterator[Store]:
    opened = SqliteStore(tmp_path)
    yield opened
    loop_run(opened.close())


def page(text: str, path: str = "/metrics", head: str = "200 OK") -> Answer:
    async def answer(asked: str, writer: asyncio.StreamWriter) -> None:
        status = head if asked == path else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())

    return answer


async def silent(asked: str, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def endless(asked: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nnum_requests_running 1\n")
    while True:
        writer.write(b"#" * 65_536)
        await writer.drain()


async def trickling(asked: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"#")
        await asyncio.sleep(0.01)


async def a_bomb(asked: str, writer: asyncio.StreamWriter) -> None:
    packed = gzip.compress(b"num_requests_running 1\n" + b"#" * 10_000_000)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)


async def nonsense(asked: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01 not http at all \r\n\r\n")


def elsewhere(address: str) -> Answer:
    async def answer(asked: str, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 302 Found\r\nLocation: http://{address}/metrics\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())

    return answer


class MetricServers:
    """Small servers, each as bad as it is told to be."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: list[str] = []
        stack.push_async_callback(self._end)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def open(self, answer: Answer) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                path = (await reader.readline()).decode().split()[1]
                self.asked.append(path)
                await answer(path, writer)
                await writer.drain()
                writer.close()
            except (OSError, asyncio.CancelledError):
                writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._stack.callback(server.close)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


class InferenceHarness(ControllerHarness):
    def __init__(self, store: Store) -> None:
        super().__init__(store, FakeEngine([machine("n1")]))
        self.ask_every(PERIOD, timeout_seconds=0.3)

    def ask_every(self, period_seconds: float, timeout_seconds: float) -> None:
        pages = ScrapeClient(timeout_seconds, max_bytes=100_000)
        self.collector = InferenceCollector(self.store, self.engine, CLUSTER, self.clock, period_seconds, pages)

    async def listen(self, pod_uid: str, address: str, kind: Kind = Kind.DEPLOYMENT, scrape: str = "") -> None:
        spec = Spec(
            resources=SMALL, service=Service(80, 8000), annotations={SCRAPE_ANNOTATION: scrape} if scrape else {}
        )
        uid = await self.submit(spec=spec, kind=kind)
        self.engine.listening.append(ServiceEndpoint(pod_uid, uid, address))

    async def kept(self, *uids: str) -> list[PodSampleBlock]:
        return await self.read(lambda tx: list(pod_samples.read_blocks(tx, CLUSTER, uids, 0, 2**60)))


def play(store: Store, loop_run: LoopRun, story: Callable[[InferenceHarness, MetricServers], Awaitable[None]]) -> None:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncGenerator[tuple[InferenceHarness, MetricServers]]:
        async with contextlib.AsyncExitStack() as stack:
            harness = InferenceHarness(store)
            stack.push_async_callback(lambda: harness.collector._client.close())
            await harness.found()
            yield harness, MetricServers(stack)

    async def main() -> None:
        async with asyncio.timeout(20), opened() as (harness, servers):
            await story(harness, servers)

    loop_run(main())


def test_what_servers_say_is_kept_for_their_pods(store: Store, loop_run: LoopRun) -> None:
    async def story(harness: InferenceHarness, servers: MetricServers) -> None:
        await harness.listen("vllm", await servers.open(page("vllm:num_requests_running 3\n")))
        await harness.listen("nim", await servers.open(page("num_requests_running 4\n", "/v1/metrics")))
        assert await harness.collector.collect(15_000) == 2
        assert await harness.collector.collect(30_000) == 2
        name = str(PodMetric.REQUESTS_RUNNING)
        assert await harness.kept("vllm", "nim") == [
            PodSampleBlock("vllm", [15_000, 30_000], {name: [3.0, 3.0]}),
            PodSampleBlock("nim", [15_000, 30_000], {name: [4.0, 4.0]}),
        ]
        assert sorted(servers.asked) == ["/metrics"] * 3 + ["/v1/metrics"] * 2, "the path that answered is kept to"

    play(store, loop_run, story)


def test_no_bad_server_keeps_a_good_one_from_being_heard(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: InferenceHarness, servers: MetricServers) -> None:
        good = await servers.open(page("vllm:num_requests_running 3\n"))
        bad: list[Any] = [silent, endless, trickling, a_bomb, nonsense, elsewhere(good), page("#" * 200_000)]
        bad += [page("vllm:num_requests_running NaN"), page("num_requests_running 5", head="500 Oops")]
        for number, answer in enumerate(bad):
            await harness.listen(f"bad-{number}", await servers.open(answer))
        await harness.listen("gone", "127.0.0.1:1")
        await harness.listen("good", good)
        assert await harness.collector.collect(1000) == 1
        assert [
            block.pod_uid for block in await harness.kept(*(f"bad-{n}" for n in range(len(bad))), "gone", "good")
        ] == ["good"]

    play(file, loop_run, story)


def test_one_that_has_nothing_to_say_is_asked_less_and_less_often(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: InferenceHarness, servers: MetricServers) -> None:
        await harness.listen("mute", await servers.open(page("hello", "/")))
        period = round(PERIOD * 1000)
        rounds = []
        for number in range(1, 60):
            before = len(servers.asked)
            await harness.collector.collect(number * period)
            rounds += [number] if len(servers.asked) > before else []
        assert rounds == [1, 2, 4, 8, 16, 32, 52]

    play(file, loop_run, story)


class SlowPage:
    """A page that takes its time, and always comes before anyone gives up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0
        self._page = page("vllm:num_requests_running 3\n")

    async def __call__(self, asked: str, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        await self._page(asked, writer)


async def rounds_asked(harness: InferenceHarness, slow: SlowPage, rounds: range) -> list[int]:
    """In which of these rounds, one a second, it was asked."""
    found = []
    for number in rounds:
        before = slow.asked
        await harness.collector.collect(number * 1000)
        found += [number] if slow.asked > before else []
    return found


def test_one_whose_page_takes_long_is_left_alone_for_many_times_as_long(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: InferenceHarness, servers: MetricServers) -> None:
        harness.ask_every(1.0, timeout_seconds=5.0)
        slow = SlowPage(0.3)
        await harness.listen("quick", await servers.open(page("vllm:num_requests_running 1\n")))
        await harness.listen("slow", await servers.open(slow))
        asked = await rounds_asked(harness, slow, range(1, 25))
        assert asked[0] == 1
        assert all(later - earlier >= 6 for earlier, later in itertools.pairwise(asked)), asked
        assert len(asked) >= 2, "it is not forgotten"
        kept = {block.pod_uid: len(block.at) for block in await harness.kept("quick", "slow")}
        assert kept["slow"] == len(asked)
        assert kept["quick"] > 2 * len(asked), "and it holds up nobody else"
        slow.seconds = 0.0
        asked = await rounds_asked(harness, slow, range(25, 60))
        assert asked[-3:] == [57, 58, 59], "one that is quick again is asked at every period"

    play(file, loop_run, story)


def test_no_page_is_so_slow_that_it_is_never_asked_again(
    file: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.controller.collect.inference.COOLDOWN_FACTOR", 1_000_000)

    async def story(harness: InferenceHarness, servers: MetricServers) -> None:
        harness.ask_every(1.0, timeout_seconds=5.0)
        slow = SlowPage(0.01)
        await harness.listen("slow", await servers.open(slow))
        assert await rounds_asked(harness, slow, range(1, 400, 10)) == [1, 301]

    play(file, loop_run, story)


def test_a_clock_that_is_set_back_keeps_nobody_from_being_heard(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: InferenceHarness, servers: MetricServers) -> None:
        await harness.listen("vllm", await servers.open(page("vllm:num_requests_running 3\n")))
        assert await harness.collector.collect(3_600_000) == 1
        assert await harness.collector.collect(15_000) == 1

    play(file, loop_run, story)


def test_who_did_not_ask_for_it_is_left_alone(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: InferenceHarness, servers: MetricServers) -> None:
        address = await servers.open(page("vllm:num_requests_running 3\n"))
        await harness.listen("job", address, Kind.JOB)
        await harness.listen("shy", address, scrape="false")
        harness.engine.listening.append(ServiceEndpoint("stranger", "nobody-knows", address))
        assert await harness.collector.collect(1000) == 0
        assert servers.asked == []
        await harness.listen("open", address, Kind.JOB, scrape="true")
        assert await harness.collector.collect(2000) == 1

    play(file, loop_run, story)
