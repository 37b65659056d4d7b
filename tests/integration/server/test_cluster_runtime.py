"""Clusters that are added, changed, removed or broken while the server runs."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import DOCKER_CAPABILITIES, Capabilities
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings
from stoker.engines import registry
from stoker.engines.kinds import EngineContext
from stoker.engines.protocol import Engine
from stoker.server.composition import Installation, running_installation
from stoker.server.runtime import cluster_runner, cluster_runtime
from stoker.store.cluster import clusters, leases

V1 = "/api/stoker/v1"
URL = "unix:///nowhere.sock"
DOWN = StokerError(ErrorCode.UNAVAILABLE, "Nobody answers.", hint="Start it.")


class RemoteEngine(FakeEngine):
    """An engine elsewhere, that a test can see."""

    def __init__(self, context: EngineContext) -> None:
        super().__init__([machine(context.config.node_name or "far", gpus=2)])
        self.context = context
        self.is_closed = False

    @property
    def capabilities(self) -> Capabilities:
        return DOCKER_CAPABILITIES

    async def close(self) -> None:
        self.is_closed = True


class Remote:
    """The kind of those engines: it opens them, unless it is told how to fail."""

    def __init__(self) -> None:
        self.opened: list[RemoteEngine] = []
        self.failure: Callable[[], Awaitable[None]] | None = None

    async def open(self, context: EngineContext) -> Engine:
        if self.failure is not None:
            await self.failure()
        self.opened.append(RemoteEngine(context))
        return self.opened[-1]

    @property
    def current(self) -> RemoteEngine:
        [alive] = [each for each in self.opened if not each.is_closed]
        return alive


@pytest.fixture
def remote() -> Iterator[Remote]:
    made = Remote()
    kind = structs.replace(registry.ENGINE_KINDS["docker"], open=made.open)
    with (
        mock.patch.dict(registry.ENGINE_KINDS, {"docker": kind}),  # type: ignore[arg-type]
        mock.patch.object(cluster_runner, "INITIAL_RETRY_SECONDS", 0.05),
        mock.patch.object(cluster_runner, "MAX_RETRY_SECONDS", 0.05),
        mock.patch.object(cluster_runtime, "CLUSTER_POLL_SECONDS", 0.2),
    ):
        yield made


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(data_dir=str(tmp_path / "data"), database=database_url, reserve_bytes=0, gpus=0)


class Server:
    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.store = installation.store
        transport = httpx.ASGITransport(installation.api, client=("127.0.0.1", 40000))
        key = installation.admin_key_file.read_text().strip()
        self.client = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8080", headers={"Authorization": f"Bearer {key}"}
        )

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.client.request(method, f"{V1}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def add(self, name: str = "lab", **docker: Any) -> dict[str, Any]:
        return await self.ask("POST", "/clusters", {"name": name, "docker": {"url": URL, **docker}})

    async def eventually(self, path: str, is_met: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(20):
            while not is_met(found := await self.ask("GET", path)):
                await asyncio.sleep(0.05)
        return found

    async def read(self, name: str = "lab") -> Cluster:
        return await self.store.read(lambda tx: clusters.get(tx, name))


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Server]:
    async with running_installation(settings) as installation:
        server = Server(installation)
        async with server.client:
            yield server


def test_a_cluster_is_used_changed_and_left_without_a_restart(
    settings: Settings, remote: Remote, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with serving(settings) as server:
            made = await server.add()
            found = await server.eventually("/clusters/lab", lambda cluster: cluster["gpus"] == 2)
            assert (found["reachable"], found["nodes"]) == (True, 1)
            first = remote.current
            await server.ask("PATCH", "/clusters/lab", {"description": "Only words."})
            await server.ask("PATCH", "/clusters/lab", {"docker": {"nodeName": "other"}})
            await server.eventually("/nodes?cluster=lab", lambda page: page["items"][0]["name"] == "other")
            assert first.is_closed
            assert len(remote.opened) == 2
            await server.ask("DELETE", "/clusters/lab")
            async with asyncio.timeout(20):
                while not all(each.is_closed for each in remote.opened):
                    await asyncio.sleep(0.05)
                while await server.store.read(lambda tx: leases.find(tx, made["id"])):
                    await asyncio.sleep(0.05)
            again = await server.add()
            await server.eventually("/clusters/lab", lambda cluster: cluster["gpus"] == 2)
            assert again["id"] != made["id"]
            assert remote.current.context.owner_id != first.context.owner_id

    loop_run(live())


def test_a_change_that_another_server_makes_is_noticed(settings: Settings, remote: Remote, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with serving(settings) as server:
            cluster = Cluster(
                "c", "lab", "docker", "", 1, config=f'{{"url":"{URL}"}}', capabilities=DOCKER_CAPABILITIES
            )
            await server.store.write(lambda tx: clusters.add(tx, cluster))
            await server.eventually("/clusters/lab", lambda found: found["gpus"] == 2)

    loop_run(live())


def test_a_cluster_that_cannot_be_opened_says_why_and_comes_back(
    settings: Settings, remote: Remote, loop_run: LoopRun
) -> None:
    async def fail() -> None:
        raise DOWN

    async def live() -> None:
        remote.failure = fail
        async with serving(settings) as server:
            await server.add()
            found = await server.eventually("/clusters/lab", lambda cluster: not cluster["reachable"])
            assert found["unreachableMessage"] == "Nobody answers. Start it."
            since = found["unreachableSince"]
            await asyncio.sleep(0.3)
            assert (await server.ask("GET", "/clusters/lab"))["unreachableSince"] == since
            assert (await server.client.get("/readyz")).status_code == 200
            remote.failure = None
            await server.eventually("/clusters/lab", lambda cluster: cluster["reachable"] and cluster["gpus"] == 2)

    loop_run(live())


def test_the_start_waits_for_no_cluster_elsewhere_and_others_work(
    settings: Settings, remote: Remote, loop_run: LoopRun
) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    async def live() -> None:
        async with serving(settings) as server:
            for name in ("one", "two"):
                await server.add(name)
            unknown = Cluster("u", "unknown", "abacus", "", 1, capabilities=DOCKER_CAPABILITIES)
            broken = Cluster(
                "b", "broken", "docker", "", 1, config='{"gpus": "many"}', capabilities=DOCKER_CAPABILITIES
            )
            await server.store.write(lambda tx: clusters.add(tx, unknown))
            await server.store.write(lambda tx: clusters.add(tx, broken))
        remote.failure = hang
        began = time.monotonic()
        async with serving(settings) as server:
            assert time.monotonic() - began < cluster_runtime.FIRST_VIEW_TIMEOUT_SECONDS
            local = await server.eventually("/clusters/local", lambda cluster: cluster["nodes"] == 1)
            assert local["reachable"]
            found = await server.eventually("/clusters/unknown", lambda cluster: not cluster["reachable"])
            assert 'This version of Stoker has no engine "abacus".' in found["unreachableMessage"]
            found = await server.eventually("/clusters/broken", lambda cluster: not cluster["reachable"])
            assert "The settings of the cluster cannot be read" in found["unreachableMessage"]

    loop_run(live())


def test_an_unexpected_failure_is_that_clusters_alone(
    settings: Settings, remote: Remote, loop_run: LoopRun, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise RuntimeError("out of luck")

    async def live() -> None:
        remote.failure = fail
        async with serving(settings) as server:
            await server.add()
            found = await server.eventually("/clusters/lab", lambda cluster: not cluster["reachable"])
            assert "out of luck" in found["unreachableMessage"]
            assert (await server.read("local")).unreachable_since is None

    loop_run(live())
    assert "cluster lab cannot be opened" in caplog.text


def test_engines_get_one_id_for_each_installation_and_cluster(
    settings: Settings, remote: Remote, loop_run: LoopRun
) -> None:
    async def live() -> list[str]:
        async with serving(settings) as server:
            if not remote.opened:
                await server.add("one")
                await server.add("two")
            before = len(remote.opened)
            async with asyncio.timeout(20):
                while len([each for each in remote.opened if not each.is_closed]) < 2:
                    await asyncio.sleep(0.05)
            assert before <= len(remote.opened)
            alive = [each.context for each in remote.opened if not each.is_closed]
            return sorted(f"{each.cluster.name} {each.owner_id}" for each in alive)

    first, second = loop_run(live()), loop_run(live())
    assert first == second
    assert len({line.split()[1] for line in first}) == 2
