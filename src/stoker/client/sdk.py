"""The two clients. They have the same resources; one waits, the other is awaited.

httpx is imported with the first client, so that what only mentions the SDK starts without it.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stoker.client.address import DEFAULT_SERVER
from stoker.client.fleet import Fleet
from stoker.client.operation import Async, Carrier, F, Sync
from stoker.client.resources import (
    Applications,
    Audit,
    Clusters,
    Departments,
    Installation,
    Keys,
    Members,
    Users,
    Webhooks,
    Workspaces,
)
from stoker.client.usage import Usage
from stoker.client.workloads import Workloads

if TYPE_CHECKING:
    import httpx

    from stoker.client.follow import LogChoice, Output
    from stoker.client.remote import RemoteCommand
    from stoker.client.workload_shapes import WorkloadDetail

TIMEOUT_SECONDS = 60.0


class Api(Installation[F]):
    """Everything that can be asked of a server."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(carrier)
        self.users: Users[F] = Users(carrier)
        self.departments: Departments[F] = Departments(carrier)
        self.workspaces: Workspaces[F] = Workspaces(carrier)
        self.members: Members[F] = Members(carrier)
        self.keys: Keys[F] = Keys(carrier)
        self.applications: Applications[F] = Applications(carrier)
        self.workloads: Workloads[F] = Workloads(carrier)
        self.webhooks: Webhooks[F] = Webhooks(carrier)
        self.clusters: Clusters[F] = Clusters(carrier)
        self.audit: Audit[F] = Audit(carrier)
        self.fleet: Fleet[F] = Fleet(carrier)
        self.usage: Usage[F] = Usage(carrier)


class Stoker(Api[Sync]):
    """A server, for ordinary code. Several threads may share one."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        token: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: "httpx.BaseTransport | None" = None,
        agent: str = "stoker",
    ) -> None:
        """`token` is an API key, or the access token of a log-in or an application; `agent` is what the program is."""
        from stoker.client.transport import SyncCarrier

        self._connection = SyncCarrier(server, token, timeout_seconds, transport, agent)
        super().__init__(self._connection)

    @property
    def server(self) -> str:
        return self._connection.destination.server

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        pod: str = "",
        tty: bool = False,
        columns: int = 80,
        rows: int = 24,
    ) -> "RemoteCommand":
        """Run a command beside what a pod of a workload runs; in its first pod when none is named."""
        from stoker.client.remote import start

        destination = self._connection.destination
        headers = {"User-Agent": destination.user_agent}
        if destination.token:
            headers["Authorization"] = f"Bearer {destination.token}"
        return start(destination.server, headers, name, command, pod=pod, tty=tty, columns=columns, rows=rows)

    def watch(self, name: str, *, deadline: float | None = None) -> "Iterator[WorkloadDetail]":
        """A workload each time it changes, until it has ended; TimeoutError at the deadline, in monotonic time."""
        from stoker.client.follow import Follow, Output

        return (each for each in Follow(self, name, deadline=deadline) if not isinstance(each, Output))

    def follow(self, name: str, logs: "LogChoice") -> "Iterator[WorkloadDetail | Output]":
        """A workload each time it changes and the lines that are chosen, until it has ended and all was read."""
        from stoker.client.follow import Follow

        return iter(Follow(self, name, logs))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncStoker(Api[Async]):
    """A server, for coroutines of one event loop."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        token: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        """`token` is an API key, or the access token of a log-in or an application."""
        from stoker.client.transport import AsyncCarrier

        self._connection = AsyncCarrier(server, token, timeout_seconds, transport)
        super().__init__(self._connection)

    @property
    def server(self) -> str:
        return self._connection.destination.server

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
