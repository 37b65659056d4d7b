"""The protocol of engines, whether their pods are processes, containers or simulated.

An engine acts and reports; it makes no decision that its capabilities do not say. `apply` and `terminate` are
idempotent by (uid, attempt, revision) and may be repeated at any time, also after a crash of Stoker or of the engine.
What `watch` reports is the truth: pods that run are adopted, and what others made is reported as foreign.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

from stoker.domain.cluster.capabilities import Capabilities
from stoker.domain.cluster.engine_access import LogLine, Terminal
from stoker.domain.errors import ErrorCode
from stoker.engines.model import LaunchSpec, LogRef, Observation, ServiceEndpoint, WorkloadRef

PERMANENT_ERRORS = frozenset({ErrorCode.BAD_REQUEST, ErrorCode.FORBIDDEN, ErrorCode.TOO_LARGE, ErrorCode.UNSCHEDULABLE})
"""Codes of errors that a retry does not change."""


class Engine(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    def watch(self) -> AsyncIterator[Observation]:
        """A full sync, then deltas, for as long as the engine is open. While it cannot be reached, `Disconnected`
        once, and a full sync when contact is back."""
        ...

    async def apply(self, launch_spec: LaunchSpec) -> str:
        """Make this attempt exist at this revision; what exists is left alone. Returns the engine's own name for it,
        empty if it has none. After an error whose code is in `PERMANENT_ERRORS` the call is not repeated; after any
        other it is."""
        ...

    async def terminate(
        self, ref: WorkloadRef, *, grace_seconds: float, force: bool = False, only: Collection[str] | None = None
    ) -> None:
        """Ask the pods of the attempt to stop: all of them, or `only` those with these uids. Pods that have not
        started never will. Returns at once; `watch` reports when they have ended. `force` drops what does not end. A
        foreign workload is asked to stop if `engine_ref` names it, and is never removed."""
        ...

    async def pods_of(self, ref: WorkloadRef) -> frozenset[str]:
        """The uids of the attempt's pods that the engine has, whether or not `watch` has reported them yet."""
        ...

    async def release(self, ref: WorkloadRef) -> None:
        """Delete what is left of ended pods of the attempt. Their logs were collected before."""
        ...

    async def purge(self, ref: WorkloadRef) -> None:
        """Delete what a deleted workload has left: its working directory, if the engine has one."""
        ...

    async def read_logs(self, source: LogRef, cursor: int, limit: int) -> list[LogLine]:
        """Up to `limit` lines from a cursor on; empty if there are no new ones. Cursors grow and need not be dense."""
        ...

    def log_activity(self) -> AsyncIterator[LogRef]:
        """Logs that have grown; at first all logs that may have grown before the call. A log may be reported although
        nothing was added."""
        ...

    async def check_working_directory(self, directory: str, workspace_id: int) -> str:
        """Why a pod of this workspace could not start in a directory of the node; empty if it could."""
        ...

    async def service_address(self, workload_uid: str) -> str:
        """The `host:port` of the workload's service; empty while it does not answer."""
        ...

    def service_endpoints(self) -> Sequence[ServiceEndpoint]:
        """The ready pods of services that can be reached from this server."""
        ...

    async def list_shells(self, pod_uid: str, container: str = "") -> list[str]:
        """The shells that exist in the container."""
        ...

    async def execute(
        self,
        pod_uid: str,
        command: list[str],
        *,
        container: str = "",
        tty: bool,
        columns: int,
        rows: int,
        stderr: bool = False,
    ) -> Terminal:
        """Run a command in the container, next to its own. `stderr` separates it from stdout, unless there is a
        terminal."""
        ...

    async def close(self) -> None:
        """Close the engine's connections. Its pods keep running."""
        ...
