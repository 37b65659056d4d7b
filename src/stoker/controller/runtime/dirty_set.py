"""The set of workloads and nodes that changed since it was last drained.

It lets the live view of a large cluster be updated instead of rebuilt.
"""

import asyncio
import contextlib
from collections.abc import Iterable

from msgspec import Struct

from stoker.domain.cluster.node import Node


class Drained(Struct, frozen=True):
    """With `full_resync` the changes are not known and everything has to be read again."""

    full_resync: bool
    workloads: frozenset[str]
    nodes: tuple[Node, ...]


class DirtySet:
    """A new set asks for a full resync."""

    def __init__(self) -> None:
        self._all = True
        self._workloads: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._has_changes = asyncio.Event()
        self._has_changes.set()

    def mark_workload(self, uid: str) -> None:
        self._workloads.add(uid)
        self._has_changes.set()

    def mark_nodes(self, changed: Iterable[Node]) -> None:
        for node in changed:
            self._nodes[node.name] = node
            self._has_changes.set()

    def mark_all(self) -> None:
        self._all = True
        self._has_changes.set()

    async def wait(self, seconds: float) -> None:
        """Wait until there is a change, or for this long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_changes.wait()

    def drain(self) -> Drained:
        taken = Drained(self._all, frozenset(self._workloads), tuple(self._nodes.values()))
        self._all = False
        self._workloads.clear()
        self._nodes.clear()
        self._has_changes.clear()
        return taken
