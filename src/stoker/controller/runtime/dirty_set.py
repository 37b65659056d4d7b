"""What happened in a cluster since somebody last looked: workloads that moved, nodes that changed.

It says where to look, so that a picture of a large cluster is mended and not made again.
"""

import asyncio
import contextlib
from collections.abc import Iterable

from msgspec import Struct

from stoker.domain.node import Node


class Taken(Struct, frozen=True):
    """With `everything`, what changed is not known and all is to be read again."""

    everything: bool
    workloads: frozenset[str]
    nodes: tuple[Node, ...]


class News:
    """Everything is new at first."""

    def __init__(self) -> None:
        self._everything = True
        self._workloads: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._any = asyncio.Event()
        self._any.set()

    def workload(self, uid: str) -> None:
        self._workloads.add(uid)
        self._any.set()

    def nodes(self, changed: Iterable[Node]) -> None:
        for node in changed:
            self._nodes[node.name] = node
            self._any.set()

    def everything(self) -> None:
        self._everything = True
        self._any.set()

    async def wait(self, seconds: float) -> None:
        """Until there is something, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._any.wait()

    def take(self) -> Taken:
        taken = Taken(self._everything, frozenset(self._workloads), tuple(self._nodes.values()))
        self._everything = False
        self._workloads.clear()
        self._nodes.clear()
        self._any.clear()
        return taken
