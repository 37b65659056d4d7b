"""The operations on running pods that go directly to an engine instead of through the store: logs, exec, addresses."""

from typing import Protocol

from msgspec import Struct


class LogLine(Struct, frozen=True):
    """A log line. `position` is the offset of the next line."""

    at: int
    text: str
    position: int


class Terminal(Protocol):
    """An interactive command that runs in a pod."""

    async def read(self) -> bytes:
        """Output; empty at the end."""
        ...

    async def read_stderr(self) -> bytes:
        """Stderr output if it is separate; empty at the end, and always empty if it is not."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None:
        """Close stdin: the command reads an end of file."""
        ...

    async def resize(self, columns: int, rows: int) -> None: ...

    async def exit_code(self) -> int:
        """Wait for the exit code; 128 + n for signal n."""
        ...

    async def close(self) -> None:
        """Close the session; a command that still runs is killed."""
        ...


class LogTailer(Protocol):
    async def tail(self, cluster_id: str, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        """Lines from a position on; empty if the engine no longer has the pod."""
        ...


class EngineAccess(LogTailer, Protocol):
    """Access to the engine of a cluster. A pod that the engine no longer has raises NOT_FOUND."""

    async def list_shells(self, cluster_id: str, pod_uid: str) -> list[str]: ...

    async def execute(
        self,
        cluster_id: str,
        pod_uid: str,
        command: list[str],
        *,
        tty: bool,
        columns: int,
        rows: int,
        stderr: bool = False,
    ) -> Terminal: ...

    async def service_address(self, cluster_id: str, workload_uid: str) -> str: ...

    async def working_directory_error(self, cluster_id: str, workspace_id: int, directory: str) -> str:
        """Why a pod of this workspace cannot start in a directory of the engine's machine; empty if it can."""
        ...
