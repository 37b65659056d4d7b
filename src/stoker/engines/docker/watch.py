"""Keeps the registry equal to the Docker host: one list after every gap, then the events of the daemon.

The stream of events is opened before the list, so that nothing falls between them. At rest the daemon is asked for
nothing but a ping, which finds out that it hangs.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

from msgspec import Struct, structs

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.clock import Clock
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import StokerError
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.schema import ContainerInspect, DaemonEvent
from stoker.engines.docker.config import DockerConfig
from stoker.engines.docker.gpus import find_gpus
from stoker.engines.docker.registry import DockerPodRegistry

PING_SECONDS = 10.0
INITIAL_BACKOFF_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 10.0
_BACKOFF_JITTER = 0.2
_CONCURRENT_INSPECTS = 8

log = logging.getLogger(__name__)


class ContactState(Struct, frozen=True):
    """Contact with the daemon. `syncs` counts complete lists; `lost_since` is set while there is no contact."""

    syncs: int = 0
    lost_since: int | None = None
    message: str = ""


class DockerWatcher:
    def __init__(
        self,
        client: DockerClient,
        config: DockerConfig,
        registry: DockerPodRegistry,
        clock: Clock,
        before_sync: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self.contact = ContactState()
        self.node: Node | None = None
        self._client = client
        self._config = config
        self._registry = registry
        self._clock = clock
        self._before_sync = before_sync
        self._task: asyncio.Task[None] | None = None
        self._changed: dict[str, None] = {}
        self._has_changed = asyncio.Event()

    def start(self) -> None:
        """Begin to watch; does nothing if that has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def load_node(self) -> Node:
        """The Docker host as a node; asked once per contact."""
        info = await self._client.info()
        name = self._config.node_name or info.name.lower()
        gpus = await asyncio.to_thread(find_gpus, self._config, name)
        self._registry.gpus = gpus
        self.node = Node(
            name=name,
            cpu_milli=info.cpus * MILLI,
            memory_bytes=info.mem_total,
            devices=gpus.devices,
            address=self._config.host,
        )
        return self.node

    async def _run(self) -> None:
        failures = 0
        while True:
            syncs = self.contact.syncs
            try:
                await self._follow()
                reason = "The Docker daemon has ended the stream of its events."
            except StokerError as error:
                reason = error.message
            except Exception:
                log.exception("Watching the Docker host has failed")
                reason = "Something unexpected happened; the server's log has more."
            at = self._clock.now()
            failures = 1 if self.contact.syncs > syncs else failures + 1
            if failures > 1 or syncs == self.contact.syncs == 0 or not await self._answers():
                self._lose_contact(at, reason)
            await self._clock.sleep(
                backoff_seconds(
                    failures, first=INITIAL_BACKOFF_SECONDS, longest=MAX_BACKOFF_SECONDS, jitter=_BACKOFF_JITTER
                )
            )

    def _lose_contact(self, at: int, reason: str) -> None:
        if self.contact.lost_since is None:
            log.warning("Contact with the Docker host at %s is lost: %s", self._config.url, reason)
            self.contact = structs.replace(self.contact, lost_since=at, message=reason)
            self._registry.notify_observers()
        elif self.contact.message != reason:
            self.contact = structs.replace(self.contact, message=reason)

    async def _answers(self) -> bool:
        try:
            await self._client.ping()
        except StokerError:
            return False
        return True

    async def _follow(self) -> None:
        """Report the host for as long as there is contact."""
        await self._client.ping()
        async with contextlib.aclosing(self._client.events()) as events:
            await anext(events)
            await self.load_node()
            await self._sync()
            async with _first_to_end() as tasks:
                for work in (self._read_events(events), self._update_changed(), self._ping()):
                    tasks.append(asyncio.create_task(work))

    async def _sync(self) -> None:
        listed = {summary.id: summary for summary in await self._client.list_containers()}
        known = self._registry.known_containers()
        wanted = [summary.id for summary in listed.values() if summary.id not in known or summary.state == "running"]
        containers = await self._inspect_all(container for container in wanted)
        self._changed.clear()
        self._registry.replace_all((found for found in containers.values() if found is not None), listed)
        if self.contact.syncs == 0:
            await self._mark_lost_before_contact()
        await self._before_sync()
        self.contact = ContactState(syncs=self.contact.syncs + 1)
        self._registry.notify_observers()

    async def _mark_lost_before_contact(self) -> None:
        """Find the pods that ended with dockerd while no engine watched: it was restarted after they began."""
        ended = [pod for pod in self._registry.pods.values() if pod.was_ended_from_outside]
        started = await self._client.containers_started() if ended else None
        for pod in ended:
            if started is not None and pod.container.id not in started:
                self._registry.mark_lost(pod)

    async def _read_events(self, events: AsyncIterator[DaemonEvent]) -> None:
        async for event in events:
            container = event.actor.id
            if container and (event.action == "destroy" or not self._registry.is_ignored(container)):
                self._changed[container] = None
                self._has_changed.set()

    async def _update_changed(self) -> None:
        """Inspect what has changed; several events of one container are one request."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            changed = list(self._changed)
            self._changed.clear()
            for container, found in (await self._inspect_all(changed)).items():
                if found is None:
                    self._registry.remove(container)
                else:
                    self._registry.update(found)

    async def _inspect_all(self, containers: Iterable[str]) -> dict[str, ContainerInspect | None]:
        slots = asyncio.Semaphore(_CONCURRENT_INSPECTS)

        async def inspect(container: str) -> tuple[str, ContainerInspect | None]:
            async with slots:
                return container, await self._client.inspect(container)

        return dict(await asyncio.gather(*map(inspect, containers)))

    async def _ping(self) -> None:
        while True:
            await self._clock.sleep(PING_SECONDS)
            await self._client.ping()


@contextlib.asynccontextmanager
async def _first_to_end() -> AsyncIterator[list[asyncio.Task[None]]]:
    """Wait until one of the tasks ends, then end the others; its error is raised."""
    tasks: list[asyncio.Task[None]] = []
    try:
        yield tasks
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
