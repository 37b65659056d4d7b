"""The sync and the async client, with the same resources.

httpx is imported when the first client is created, so that importing the SDK stays fast.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stoker.client.resources.clusters import ClustersResource
from stoker.client.resources.credentials import ApplicationsResource, KeysResource
from stoker.client.resources.fleet import FleetResource
from stoker.client.resources.identity import DepartmentsResource, MembersResource, UsersResource, WorkspacesResource
from stoker.client.resources.operations import Async, F, Sync, Transport
from stoker.client.resources.system import AuditResource, RootResource
from stoker.client.resources.usage import UsageResource
from stoker.client.resources.webhooks import WebhooksResource
from stoker.client.resources.workloads import WorkloadsResource

if TYPE_CHECKING:
    import httpx

    from stoker.client.exec import RemoteCommand
    from stoker.client.follow import LogOutput, LogSelection
    from stoker.wire.management import WorkloadDetailView

TIMEOUT_SECONDS = 60.0


class ApiClient(RootResource[F]):
    """All operations of a server."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.users: UsersResource[F] = UsersResource(transport)
        self.departments: DepartmentsResource[F] = DepartmentsResource(transport)
        self.workspaces: WorkspacesResource[F] = WorkspacesResource(transport)
        self.members: MembersResource[F] = MembersResource(transport)
        self.keys: KeysResource[F] = KeysResource(transport)
        self.applications: ApplicationsResource[F] = ApplicationsResource(transport)
        self.workloads: WorkloadsResource[F] = WorkloadsResource(transport)
        self.webhooks: WebhooksResource[F] = WebhooksResource(transport)
        self.clusters: ClustersResource[F] = ClustersResource(transport)
        self.audit: AuditResource[F] = AuditResource(transport)
        self.fleet: FleetResource[F] = FleetResource(transport)
        self.usage: UsageResource[F] = UsageResource(transport)


class Stoker(ApiClient[Sync]):
    """The sync client. Several threads may share one."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: "httpx.BaseTransport | None" = None,
        agent: str = "stoker",
    ) -> None:
        """Without an address the client connects to the server of this machine, through the socket in its data dir if
        there is one. `token` is an API key, or the access token of a log-in or an application; `agent` names the
        program in the User-Agent header."""
        from stoker.client.transport.httpx_transport import SyncTransport

        self._http = SyncTransport(server, token, timeout_seconds, transport, agent)
        super().__init__(self._http)

    @property
    def server(self) -> str:
        return self._http.target.server

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        pod: str = "",
        tty: bool = False,
        stderr: bool = False,
        columns: int = 80,
        rows: int = 24,
    ) -> "RemoteCommand":
        """Run a command in a pod of a workload, by default its first pod. `stderr` separates stderr from stdout, which
        a terminal does not support."""
        from stoker.client.exec import start_command

        target = self._http.target
        headers = {"User-Agent": target.user_agent}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        size = {"columns": columns, "rows": rows}
        return start_command(target.server, headers, name, command, pod=pod, tty=tty, stderr=stderr, **size)

    def watch(self, name: str, *, deadline: float | None = None) -> "Iterator[WorkloadDetailView]":
        """The workload after each change, until it has finished; raises TimeoutError at the monotonic `deadline`."""
        from stoker.client.follow import LogOutput, WorkloadFollower

        return (item for item in WorkloadFollower(self, name, deadline=deadline) if not isinstance(item, LogOutput))

    def follow(self, name: str, logs: "LogSelection") -> "Iterator[WorkloadDetailView | LogOutput]":
        """The workload after each change and the selected log lines, until it has finished and all lines were read."""
        from stoker.client.follow import WorkloadFollower

        return iter(WorkloadFollower(self, name, logs))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncStoker(ApiClient[Async]):
    """The async client, for coroutines of one event loop."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        """Without an address the client connects to the server of this machine, through the socket in its data dir if
        there is one. `token` is an API key, or the access token of a log-in or an application."""
        from stoker.client.transport.httpx_transport import AsyncTransport

        self._http = AsyncTransport(server, token, timeout_seconds, transport)
        super().__init__(self._http)

    @property
    def server(self) -> str:
        return self._http.target.server

    async def close(self) -> None:
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
