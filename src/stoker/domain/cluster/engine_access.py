"""What has to be asked of a running pod itself, because the store cannot know it: the few ways through to an engine."""

from typing import Protocol

from msgspec import Struct


class LogLine(Struct, frozen=True):
    """`position` is where the next line begins: reading can go on from there."""

    at: int
    text: str
    position: int


class Terminal(Protocol):
    """A command that runs in a pod, with a keyboard."""

    async def read(self) -> bytes:
        """What it printed; empty at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None:
        """There is nothing more to write: the command reads an end of file."""
        ...

    async def resize(self, columns: int, rows: int) -> None: ...

    async def exit_code(self) -> int:
        """Waits for the end; 128 + n for signal n."""
        ...

    async def close(self) -> None:
        """Let go; a command that still runs is ended."""
        ...


class LogSource(Protocol):
    async def tail(self, cluster_id: str, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        """What was printed since; nothing when the pod is not held any more."""
        ...


class Reach(LogSource, Protocol):
    """Through to the engine of a cluster. A pod that is no longer held is NOT_FOUND."""

    async def shells(self, cluster_id: str, pod_uid: str) -> list[str]: ...

    async def execute(
        self, cluster_id: str, pod_uid: str, command: list[str], *, tty: bool, columns: int, rows: int
    ) -> Terminal: ...

    async def service_address(self, cluster_id: str, workload_uid: str) -> str: ...
