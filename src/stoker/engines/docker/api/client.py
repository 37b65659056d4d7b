"""The calls of the Docker Engine API that the engine makes, with typed answers."""

import contextlib
import math
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from urllib.parse import quote

import msgspec

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.docker.api.frames import StreamFrame, read_frames, read_lines
from stoker.engines.docker.api.hijack import HijackedStream
from stoker.engines.docker.api.schema import (
    ContainerInspect,
    ContainerStats,
    ContainerSummary,
    CreatedContainer,
    DaemonEvent,
    ExecInspect,
    ImageInspect,
    NetworkSummary,
    PingInfo,
    PullProgress,
    SystemInfo,
    VolumeList,
    VolumeSummary,
    decode,
    parse_time_ms,
)
from stoker.engines.docker.api.transport import REQUEST_SECONDS, DockerTransport
from stoker.engines.docker.config import DockerConfig

WATCHED_EVENTS = ("create", "start", "die", "destroy", "rename", "pause", "unpause", "update")
"""Events after which a container is inspected. Those of exec sessions and health checks are not among them."""
_REMEMBERED_EVENTS = 256
"""How many events dockerd keeps in memory."""
_START_SECONDS = 180.0
"""Docker sets up network, mounts and devices before a start returns; on a busy host that takes long."""
_STATS_SECONDS = 10.0


class DockerClient:
    def __init__(self, config: DockerConfig) -> None:
        self._transport = DockerTransport(config)

    async def close(self) -> None:
        await self._transport.close()

    async def ping(self) -> PingInfo:
        return await self._transport.ping()

    async def info(self) -> SystemInfo:
        return decode(await self._transport.request("GET", "/info"), SystemInfo)

    async def list_containers(self, labels: Mapping[str, str] | None = None) -> list[ContainerSummary]:
        """All containers with these labels, whether or not they run."""
        params = {"all": "1"} | _label_filter(labels)
        return decode(await self._transport.request("GET", "/containers/json", params=params), list[ContainerSummary])

    async def inspect(self, container: str) -> ContainerInspect | None:
        """None if there is no such container."""
        with _ignoring(ErrorCode.NOT_FOUND):
            return decode(await self._transport.request("GET", f"/containers/{container}/json"), ContainerInspect)
        return None

    async def create(self, name: str, body: object) -> str:
        """Create a container; its id. CONFLICT if the name is taken, NOT_FOUND if the image is missing."""
        answer = await self._transport.request(
            "POST", "/containers/create", params={"name": name}, body=body, timeout_seconds=_START_SECONDS
        )
        return decode(answer, CreatedContainer).id

    async def start(self, container: str) -> None:
        """Start a container; one that runs is left alone."""
        await self._transport.request("POST", f"/containers/{container}/start", timeout_seconds=_START_SECONDS)

    async def stop(self, container: str, grace_seconds: float) -> None:
        """Send the stop signal, and SIGKILL after the grace period; returns when the container has ended."""
        params = {"t": str(max(0, math.ceil(grace_seconds)))}
        with _ignoring(ErrorCode.NOT_FOUND):
            await self._transport.request(
                "POST",
                f"/containers/{container}/stop",
                params=params,
                timeout_seconds=grace_seconds + REQUEST_SECONDS,
            )

    async def kill(self, container: str) -> None:
        """Send SIGKILL; a container that does not run is left alone."""
        with _ignoring(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT):
            await self._transport.request("POST", f"/containers/{container}/kill")

    async def remove(self, container: str, *, force: bool = False) -> None:
        """Remove a container and its anonymous volumes; named ones are kept."""
        params = {"v": "1", "force": "1" if force else "0"}
        with _ignoring(ErrorCode.NOT_FOUND):
            await self._transport.request("DELETE", f"/containers/{container}", params=params)

    async def containers_started(self) -> set[str] | None:
        """The containers started since the daemon was; None if it may have forgotten some."""
        now = parse_time_ms((await self.info()).system_time) or 0
        params = {"since": "1", "until": f"{now // 1000}.{now % 1000:03d}"}
        async with self._transport.stream("GET", "/events", params=params) as pieces:
            events = [decode(line, DaemonEvent) async for line in read_lines(pieces)]
        if len(events) >= _REMEMBERED_EVENTS:
            return None
        return {event.actor.id for event in events if event.action == "start"}

    async def events(self) -> AsyncGenerator[DaemonEvent]:
        """Events of all containers from now on, until the daemon ends the connection."""
        params = {"filters": msgspec.json.encode({"type": ["container"], "event": list(WATCHED_EVENTS)}).decode()}
        async with self._transport.stream("GET", "/events", params=params) as pieces:
            yield DaemonEvent()  # the stream is open: nothing that happens from now on is missed
            async for line in read_lines(pieces):
                yield decode(line, DaemonEvent)

    async def logs(self, container: str, *, since_ns: int, follow: bool) -> AsyncGenerator[StreamFrame]:
        """The output from a time on, both streams, every line behind its own time."""
        params = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": "1" if follow else "0"}
        if since_ns > 0:
            params["since"] = f"{since_ns // 1_000_000_000}.{since_ns % 1_000_000_000:09d}"
        async with self._transport.stream("GET", f"/containers/{container}/logs", params=params) as pieces:
            async for frame in read_frames(pieces):
                yield frame

    async def stats(self, container: str) -> ContainerStats | None:
        """The usage now; None if the container does not exist."""
        params = {"stream": "false", "one-shot": "true"}
        with _ignoring(ErrorCode.NOT_FOUND):
            answer = await self._transport.request(
                "GET", f"/containers/{container}/stats", params=params, timeout_seconds=_STATS_SECONDS
            )
            return decode(answer, ContainerStats)
        return None

    async def has_path(self, container: str, path: str) -> bool:
        """Whether a path exists in a container, which need not run."""
        with _ignoring(ErrorCode.NOT_FOUND):
            await self._transport.request("HEAD", f"/containers/{container}/archive", params={"path": path})
            return True
        return False

    async def image(self, reference: str) -> ImageInspect | None:
        """None if the host does not have the image."""
        with _ignoring(ErrorCode.NOT_FOUND):
            path = f"/images/{quote(reference, safe='/:@')}/json"
            return decode(await self._transport.request("GET", path), ImageInspect)
        return None

    async def pull(self, repository: str, tag: str, registry_auth: str) -> AsyncGenerator[PullProgress]:
        """Pull an image; its progress. A failure is the last line, with `error` set."""
        headers = {"X-Registry-Auth": registry_auth} if registry_auth else None
        params = {"fromImage": repository, "tag": tag}
        async with self._transport.stream("POST", "/images/create", params=params, headers=headers) as pieces:
            async for line in read_lines(pieces):
                yield decode(line, PullProgress)

    async def list_volumes(self, labels: Mapping[str, str]) -> Sequence[VolumeSummary]:
        answer = await self._transport.request("GET", "/volumes", params=_label_filter(labels))
        return decode(answer, VolumeList).volumes or []

    async def remove_volume(self, name: str) -> None:
        with _ignoring(ErrorCode.NOT_FOUND):
            await self._transport.request("DELETE", f"/volumes/{quote(name, safe='')}")

    async def find_network(self, name: str) -> NetworkSummary | None:
        with _ignoring(ErrorCode.NOT_FOUND):
            return decode(await self._transport.request("GET", f"/networks/{quote(name, safe='')}"), NetworkSummary)
        return None

    async def list_networks(self, labels: Mapping[str, str]) -> list[NetworkSummary]:
        """The networks with these labels, the oldest first. Names of networks need not be unique."""
        answer = await self._transport.request("GET", "/networks", params=_label_filter(labels))
        return sorted(decode(answer, list[NetworkSummary]), key=lambda network: (network.created, network.id))

    async def has_network(self, name: str) -> bool:
        """Whether there is a network of this name or id."""
        with _ignoring(ErrorCode.NOT_FOUND):
            await self._transport.request("GET", f"/networks/{quote(name, safe='')}")
            return True
        return False

    async def create_network(self, name: str, labels: Mapping[str, str]) -> str:
        """Create a bridge network; its id. CONFLICT if it exists."""
        body = {"Name": name, "Driver": "bridge", "CheckDuplicate": True, "Labels": dict(labels)}
        return decode(await self._transport.request("POST", "/networks/create", body=body), NetworkSummary).id

    async def remove_network(self, network_id: str) -> None:
        """Remove a network; one that is in use is left alone."""
        with _ignoring(ErrorCode.NOT_FOUND, ErrorCode.FORBIDDEN, ErrorCode.CONFLICT):
            await self._transport.request("DELETE", f"/networks/{network_id}")

    async def create_exec(self, container: str, body: object) -> str:
        answer = await self._transport.request("POST", f"/containers/{container}/exec", body=body)
        return decode(answer, CreatedContainer).id

    async def start_exec(self, session: str, *, tty: bool) -> HijackedStream:
        return await self._transport.hijack(f"/exec/{session}/start", {"Detach": False, "Tty": tty})

    async def run_exec(self, session: str) -> None:
        """Start a command without its input and output."""
        await self._transport.request("POST", f"/exec/{session}/start", body={"Detach": True, "Tty": False})

    async def resize_exec(self, session: str, columns: int, rows: int) -> None:
        params = {"w": str(columns), "h": str(rows)}
        await self._transport.request("POST", f"/exec/{session}/resize", params=params)

    async def inspect_exec(self, session: str) -> ExecInspect:
        return decode(await self._transport.request("GET", f"/exec/{session}/json"), ExecInspect)


@contextlib.contextmanager
def _ignoring(*codes: ErrorCode) -> Iterator[None]:
    """Ignore errors with these codes."""
    try:
        yield
    except StokerError as error:
        if error.code not in codes:
            raise


def _label_filter(labels: Mapping[str, str] | None) -> dict[str, str]:
    if not labels:
        return {}
    filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
    return {"filters": msgspec.json.encode(filters).decode()}
