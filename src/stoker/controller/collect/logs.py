"""Brings what pods print into the store, before the engine lets go of it.

Lines are read as they appear and kept in chunks. A chunk is written when it is large enough, old enough, or the
pod's last; what is not written yet is read again after a crash, because only a written chunk moves the position. While
the disk is nearly full nothing is read: what a pod printed waits in its own folder. Every line passes the parser of
training metrics on its way.
"""

import asyncio
import logging
from collections.abc import Iterable

from stoker.controller.training import TrainingCollector
from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.reach import LogLine
from stoker.domain.workload import Pod
from stoker.engines.base import Engine
from stoker.store import log_chunks, pods
from stoker.store.base import Store, has_room
from stoker.store.log_chunks import Chunk

AT_ONCE = 5_000
CHUNK_BYTES = 256 * 1024
SHORT_BYTES = 16 * 1024
CHUNK_AGE_MS = 15_000
STAMP_BYTES = 15
"""The time of a line and its end are kept too: empty lines fill a chunk as others do."""
SWEEP_SECONDS = 5.0

log = logging.getLogger("stoker.logs")


class _Tail:
    """What was read of one pod and is not written yet."""

    def __init__(self, pod: Pod, position: int) -> None:
        self.pod = pod
        self.position = position
        self.lines: list[LogLine] = []
        self.bytes = 0
        self.turn = asyncio.Lock()


class LogCollector:
    def __init__(self, store: Store, engine: Engine, clock: Clock, cap_bytes: int) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._cap_bytes = cap_bytes
        self._tails: dict[str, _Tail] = {}
        self._reading: set[str] = set()
        self._training = TrainingCollector(store)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._sweep())
            group.create_task(self._training.run())

    async def finish(self, ended: Iterable[Pod]) -> None:
        """Read to the end of pods that have ended, and write all of it."""
        self._store.check_room()
        for pod in ended:
            tail = await self._tail(pod.uid)
            if tail is not None:
                async with tail.turn:
                    await self._read(tail)
                    await self._write(tail)
            self._tails.pop(pod.uid, None)
            await self._training.finish(pod.uid)

    async def _follow(self) -> None:
        """Each pod is read by a task of its own, so that one which never stops printing holds up no other."""
        async with asyncio.TaskGroup() as group:
            async for pod_uid in self._engine.log_activity():
                if pod_uid not in self._reading:
                    self._reading.add(pod_uid)
                    group.create_task(self._read_one(pod_uid))

    async def _read_one(self, pod_uid: str) -> None:
        try:
            tail = await self._tail(pod_uid)
            if tail is not None:
                async with tail.turn:
                    await self._read(tail)
        finally:
            self._reading.discard(pod_uid)

    async def _sweep(self) -> None:
        paused = False
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            if not has_room(self._store):
                paused = True
                continue
            if paused:
                paused = False
                for tail in list(self._tails.values()):
                    async with tail.turn:
                        await self._read(tail)
            old = self._clock.now() - CHUNK_AGE_MS
            for tail in list(self._tails.values()):
                if tail.lines and tail.lines[0].at <= old:
                    async with tail.turn:
                        await self._write(tail)

    async def _tail(self, pod_uid: str) -> _Tail | None:
        if pod_uid not in self._tails:
            pod, position = await self._store.peek(
                lambda tx: (pods.get(tx, pod_uid), log_chunks.collected_up_to(tx, pod_uid))
            )
            if pod is None:
                return None
            self._tails.setdefault(pod_uid, _Tail(pod, position))
        return self._tails[pod_uid]

    async def _read(self, tail: _Tail) -> None:
        """Everything that is there now."""
        while has_room(self._store):
            try:
                found = await self._engine.logs(tail.pod.uid, tail.position, AT_ONCE)
            except StokerError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                if not tail.lines:  # let go of, and told of once more
                    self._tails.pop(tail.pod.uid, None)
                return
            if not found:
                return
            await self._training.feed(tail.pod, found)
            tail.lines += found
            tail.bytes += sum(len(line.text) + STAMP_BYTES for line in found)
            tail.position = found[-1].position
            if tail.bytes >= CHUNK_BYTES:
                await self._write(tail)

    async def _write(self, tail: _Tail) -> None:
        if not tail.lines:
            return
        await self._training.flush()  # first, or a crash between the two would lose points
        lines = [(line.at, line.text) for line in tail.lines]
        chunk = Chunk(tail.pod.uid, tail.pod.workload_uid, tail.pod.attempt, lines, tail.position)
        write = self._store.poke if tail.bytes <= SHORT_BYTES else self._store.write
        await write(lambda tx: log_chunks.add(tx, chunk, self._cap_bytes))
        tail.lines, tail.bytes = [], 0
