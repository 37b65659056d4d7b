"""Collects the logs of pods into the store before the engine releases them.

Lines are read as they appear and buffered in chunks. A chunk is written when it is large enough, old enough or the
pod's last. Only a written chunk advances the stored position, so lines that were not written are read again after a
crash. While the disk is nearly full nothing is read: the lines stay in the pod's directory. Every line passes the
parser of training metrics.
"""

import asyncio
import logging
from collections.abc import Iterable

from stoker.controller.collect.training import TrainingCollector
from stoker.domain.clock import Clock
from stoker.domain.cluster.engine_access import LogLine
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.pod import Pod
from stoker.engines.model import LogRef
from stoker.engines.protocol import Engine
from stoker.store.db.base import Store, has_disk_space
from stoker.store.telemetry import log_chunks
from stoker.store.telemetry.log_chunks import LogChunk
from stoker.store.workloads import pods

READ_BATCH_SIZE = 5_000
CHUNK_BYTES = 256 * 1024
MAX_INLINE_WRITE_BYTES = 16 * 1024
MAX_CHUNK_AGE_MS = 15_000
LINE_OVERHEAD_BYTES = 15
"""Added per line for its timestamp and line end, so that empty lines fill a chunk too."""
FLUSH_INTERVAL_SECONDS = 5.0

log = logging.getLogger("stoker.logs")


class _LogBuffer:
    """The lines of one pod that were read and not yet written."""

    def __init__(self, pod: Pod, position: int) -> None:
        self.pod = pod
        self.position = position
        self.lines: list[LogLine] = []
        self.bytes = 0
        self.lock = asyncio.Lock()


class LogCollector:
    def __init__(self, store: Store, engine: Engine, clock: Clock, cap_bytes: int) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._max_log_bytes = cap_bytes
        self._buffers: dict[str, _LogBuffer] = {}
        self._reading: set[str] = set()
        self._training = TrainingCollector(store)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_activity())
            group.create_task(self._flush_loop())
            group.create_task(self._training.run())

    async def drain(self, ended: Iterable[Pod]) -> None:
        """Read the logs of ended pods to their end, and write them."""
        self._store.check_disk_space()
        for pod in ended:
            tail = await self._buffer(pod.uid)
            if tail is not None:
                async with tail.lock:
                    await self._read(tail)
                    await self._flush(tail)
            self._buffers.pop(pod.uid, None)
            await self._training.finish_pod(pod.uid)

    async def _follow_activity(self) -> None:
        """Read every pod in a task of its own, so that a pod that never stops printing does not delay others."""
        async with asyncio.TaskGroup() as group:
            async for source in self._engine.log_activity():
                pod_uid = source.pod_uid
                if pod_uid not in self._reading:
                    self._reading.add(pod_uid)
                    group.create_task(self._read_pod(pod_uid))

    async def _read_pod(self, pod_uid: str) -> None:
        try:
            tail = await self._buffer(pod_uid)
            if tail is not None:
                async with tail.lock:
                    await self._read(tail)
        finally:
            self._reading.discard(pod_uid)

    async def _flush_loop(self) -> None:
        paused = False
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_SECONDS)
            if not has_disk_space(self._store):
                paused = True
                continue
            if paused:
                paused = False
                for tail in list(self._buffers.values()):
                    async with tail.lock:
                        await self._read(tail)
            old = self._clock.now() - MAX_CHUNK_AGE_MS
            for tail in list(self._buffers.values()):
                if tail.lines and tail.lines[0].at <= old:
                    async with tail.lock:
                        await self._flush(tail)

    async def _buffer(self, pod_uid: str) -> _LogBuffer | None:
        if pod_uid not in self._buffers:
            pod, position = await self._store.read_inline(
                lambda tx: (pods.get(tx, pod_uid), log_chunks.collected_position(tx, pod_uid))
            )
            if pod is None:
                return None
            self._buffers.setdefault(pod_uid, _LogBuffer(pod, position))
        return self._buffers[pod_uid]

    async def _read(self, tail: _LogBuffer) -> None:
        """Read all lines that are available now."""
        while has_disk_space(self._store):
            try:
                found = await self._engine.read_logs(LogRef(tail.pod.uid), tail.position, READ_BATCH_SIZE)
            except StokerError as error:
                if error.code is not ErrorCode.NOT_FOUND:
                    raise
                if not tail.lines:  # the pod was released; this is a late activity report
                    self._buffers.pop(tail.pod.uid, None)
                return
            if not found:
                return
            await self._training.feed(tail.pod, found)
            tail.lines += found
            tail.bytes += sum(len(line.text) + LINE_OVERHEAD_BYTES for line in found)
            tail.position = found[-1].position
            if tail.bytes >= CHUNK_BYTES:
                await self._flush(tail)

    async def _flush(self, tail: _LogBuffer) -> None:
        if not tail.lines:
            return
        await self._training.flush()  # first, because a crash between the two writes would lose points
        lines = [(line.at, line.text) for line in tail.lines]
        chunk = LogChunk(tail.pod.uid, tail.pod.workload_uid, tail.pod.attempt, lines, tail.position)
        write = self._store.write_inline if tail.bytes <= MAX_INLINE_WRITE_BYTES else self._store.write
        await write(lambda tx: log_chunks.add_chunk(tx, chunk, self._max_log_bytes))
        tail.lines, tail.bytes = [], 0
