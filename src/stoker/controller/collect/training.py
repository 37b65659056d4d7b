"""Extracts training metrics from the logs of pods, and writes the points of all pods together.

The log position is written with a pod's points, and always before the log lines themselves, so parsing continues there
after a crash. Large batches of lines are parsed in a thread, and wait until their own points are written.
"""

import asyncio
import logging
from collections.abc import Sequence

from stoker.controller.runtime.lease import LeaseLostError
from stoker.domain.cluster.engine_access import LogLine
from stoker.domain.errors import StokerError
from stoker.domain.metrics.training import TrainingSample
from stoker.domain.workload.pod import Pod
from stoker.store.db.base import Store
from stoker.store.telemetry import training
from stoker.store.telemetry.training import TrainingBatch
from stoker.telemetry.training_logs import TrainingParser

FLUSH_INTERVAL_SECONDS = 0.5
"""The longest that points are buffered, to be written with those of other pods."""
MAX_UNWRITTEN_POINTS = 2_000
"""How many lines with metrics may be buffered; parsing waits when there are more."""
MAX_INLINE_CHARACTERS = 16_384
"""Up to this size lines are parsed on the event loop, which takes one or two milliseconds."""
POD_BATCH_SIZE = 200

log = logging.getLogger("stoker.training")


class _ParserState:
    """The parse position of one pod's log, and the points that were found since it was written."""

    def __init__(self, pod: Pod, position: int) -> None:
        self.pod = pod
        self.position = position
        self.parser = TrainingParser()
        self.found: list[TrainingSample] = []

    def parse(self, lines: Sequence[LogLine]) -> list[TrainingSample]:
        return [each for line in lines for each in self.parser.parse(line.text, line.at)]


class TrainingCollector:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods: dict[str, _ParserState] = {}
        self._unwritten: dict[str, _ParserState] = {}
        self._flush_due = asyncio.Event()
        self._write_lock = asyncio.Lock()

    async def run(self) -> None:
        while True:
            await self._flush_due.wait()
            self._flush_due.clear()
            try:
                await self.flush()
            except LeaseLostError:
                raise
            except StokerError as error:
                log.warning("training metrics could not be written: %s", error.message)
                self._flush_due.set()
            await asyncio.sleep(FLUSH_INTERVAL_SECONDS)

    async def feed(self, pod: Pod, lines: Sequence[LogLine]) -> None:
        """Parse new lines. Every line is fed once, or again after a crash."""
        reading = self._pods.get(pod.uid)
        if reading is None:
            place = await self._store.read_inline(lambda tx: training.parsed_position(tx, pod.workload_uid, pod.uid))
            reading = self._pods.setdefault(pod.uid, _ParserState(pod, place))
        new = [line for line in lines if line.position > reading.position] if reading.position else lines
        if not new:
            return
        if sum(len(line.text) for line in new) <= MAX_INLINE_CHARACTERS:
            found = reading.parse(new)
        else:
            found = await asyncio.to_thread(reading.parse, new)
        reading.position = new[-1].position
        if found:
            reading.found += found
            self._unwritten[pod.uid] = reading
            self._flush_due.set()
            if len(reading.found) > MAX_UNWRITTEN_POINTS:
                await self.flush()

    async def flush(self) -> None:
        """Write all buffered points; they are durable when this returns."""
        async with self._write_lock:
            waiting = list(self._unwritten.values())
            for first in range(0, len(waiting), POD_BATCH_SIZE):
                await self._write(waiting[first : first + POD_BATCH_SIZE])

    async def finish_pod(self, pod_uid: str) -> None:
        """The pod has ended and its log was read to the end."""
        await self.flush()
        self._pods.pop(pod_uid, None)

    async def _write(self, readings: Sequence[_ParserState]) -> None:
        taken = [reading.found for reading in readings]
        batches = [
            TrainingBatch(reading.pod.workload_uid, reading.pod.uid, reading.pod.attempt, found, reading.position)
            for reading, found in zip(readings, taken, strict=True)
        ]
        for reading in readings:
            reading.found = []
            del self._unwritten[reading.pod.uid]
        writing = asyncio.ensure_future(self._store.write(lambda tx: training.add_batches(tx, batches)))
        try:
            await asyncio.shield(writing)
        finally:
            await asyncio.wait([writing])  # a caller that is cancelled must still learn whether the points were written
            if writing.cancelled() or writing.exception() is not None:
                for reading, found in zip(readings, taken, strict=True):
                    reading.found[:0] = found
                    self._unwritten[reading.pod.uid] = reading
