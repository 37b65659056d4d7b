"""Finds training metrics in what pods print, as they print it, and writes the points of all pods together.

The position of a pod's log is written with its points, and always before the log lines themselves are: after a crash
parsing goes on where it was. A flood of lines is parsed beside the event loop, and has to wait for its own points.
"""

import asyncio
import logging
from collections.abc import Sequence

from stoker.controller.lease import LeaseLostError
from stoker.domain.errors import StokerError
from stoker.domain.reach import LogLine
from stoker.domain.training import Measured
from stoker.domain.workload import Pod
from stoker.store import training
from stoker.store.base import Store
from stoker.store.training import Batch
from stoker.telemetry.training import TrainingParser

EVERY_SECONDS = 0.5
"""The longest that points wait for those of other pods."""
MOST_HELD = 2_000
"""Lines with metrics that wait to be written; more have to wait to be parsed."""
INLINE_CHARACTERS = 16_384
"""What is parsed on the event loop; it takes a millisecond or two at worst."""
PODS_AT_ONCE = 200

log = logging.getLogger("stoker.training")


class _Reading:
    """How far the log of one pod was parsed, and what was found since that was written."""

    def __init__(self, pod: Pod, position: int) -> None:
        self.pod = pod
        self.position = position
        self.parser = TrainingParser()
        self.found: list[Measured] = []

    def parse(self, lines: Sequence[LogLine]) -> list[Measured]:
        return [each for line in lines for each in self.parser.parse(line.text, line.at)]


class TrainingCollector:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods: dict[str, _Reading] = {}
        self._unwritten: dict[str, _Reading] = {}
        self._due = asyncio.Event()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self.flush()
            except LeaseLostError:
                raise
            except StokerError as error:
                log.warning("training metrics could not be written: %s", error.message)
                self._due.set()
            await asyncio.sleep(EVERY_SECONDS)

    async def feed(self, pod: Pod, lines: Sequence[LogLine]) -> None:
        """Parse lines that were printed; each line comes once, or again after a crash."""
        reading = self._pods.get(pod.uid)
        if reading is None:
            place = await self._store.peek(lambda tx: training.parsed_up_to(tx, pod.workload_uid, pod.uid))
            reading = self._pods.setdefault(pod.uid, _Reading(pod, place))
        new = [line for line in lines if line.position > reading.position] if reading.position else lines
        if not new:
            return
        if sum(len(line.text) for line in new) <= INLINE_CHARACTERS:
            found = reading.parse(new)
        else:
            found = await asyncio.to_thread(reading.parse, new)
        reading.position = new[-1].position
        if found:
            reading.found += found
            self._unwritten[pod.uid] = reading
            self._due.set()
            if len(reading.found) > MOST_HELD:
                await self.flush()

    async def flush(self) -> None:
        """Write everything that was found; when this returns it is durable."""
        async with self._writing:
            waiting = list(self._unwritten.values())
            for first in range(0, len(waiting), PODS_AT_ONCE):
                await self._write(waiting[first : first + PODS_AT_ONCE])

    async def finish(self, pod_uid: str) -> None:
        """The pod has ended and all of it was read."""
        await self.flush()
        self._pods.pop(pod_uid, None)

    async def _write(self, readings: Sequence[_Reading]) -> None:
        taken = [reading.found for reading in readings]
        batches = [
            Batch(reading.pod.workload_uid, reading.pod.uid, reading.pod.attempt, found, reading.position)
            for reading, found in zip(readings, taken, strict=True)
        ]
        for reading in readings:
            reading.found = []
            del self._unwritten[reading.pod.uid]
        writing = asyncio.ensure_future(self._store.write(lambda tx: training.add(tx, batches)))
        try:
            await asyncio.shield(writing)
        finally:
            await asyncio.wait([writing])  # whoever is cancelled must still know whether it was written
            if writing.cancelled() or writing.exception() is not None:
                for reading, found in zip(readings, taken, strict=True):
                    reading.found[:0] = found
                    self._unwritten[reading.pod.uid] = reading
