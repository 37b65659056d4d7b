"""Readings that were unpacked not long ago. What is kept never changes, so it need not be unpacked for every reader."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.readings import Metric
from stoker.store import samples
from stoker.store.base import Transaction
from stoker.store.samples import Segment
from stoker.telemetry.chunks import SCALES, decode_times, unpack, unpack_ticks

MISSING = int(np.iinfo(np.int32).min)
PLACES = {metric: place for place, metric in enumerate(Metric)}
MOST_BYTES = 64 << 20
LITTLE = 4
"""So many moments are unpacked for whoever asks `warm`, such as those that have come since somebody else asked."""
OPEN_MS = 2 * HOUR_MS
"""Ticks wait for so long until their hour is packed, if somebody is there to do it; older ones are kept only while they
are asked for."""


class ColdError(Exception):
    """What is asked for would have to be unpacked first."""


class Steps(Struct, frozen=True):
    """Whole numbers [metric, gpu, at] at growing moments, `MISSING` where there is no reading."""

    ats: NDArray[np.int64]
    numbers: NDArray[np.int32]

    @property
    def size(self) -> int:
        return self.ats.nbytes + self.numbers.nbytes

    def of(self, metrics: Sequence[Metric], gpus: NDArray[np.intp]) -> NDArray[np.int32]:
        """Only these metrics of these GPUs."""
        return self.numbers[np.array([PLACES[metric] for metric in metrics])[:, np.newaxis], gpus]

    def at(self, ats: NDArray[np.int64]) -> "Steps":
        """Only these moments; a view where they follow each other."""
        these = self._following(ats)
        return self._taken(np.isin(self.ats, ats) if these is None else these)

    def has(self, ats: NDArray[np.int64]) -> bool:
        """Whether all of these moments are among ours."""
        return self._following(ats) is not None or bool(np.isin(ats, self.ats).all())

    def _following(self, ats: NDArray[np.int64]) -> slice | None:
        """Where these moments are, if they follow each other, as they do when nothing was missed."""
        first = int(np.searchsorted(self.ats, ats[0])) if len(ats) else 0
        these = slice(first, first + len(ats))
        return these if np.array_equal(self.ats[these], ats) else None

    def between(self, first: int, last: int) -> "Steps":
        """A view of the moments from the first to the last."""
        return self._taken(slice(*np.searchsorted(self.ats, (first, last + 1)).tolist()))

    def since(self, at: int) -> "Steps":
        """A copy: a view would keep what is older."""
        return self._taken(self.ats >= at)

    def _taken(self, places: slice | NDArray[np.bool_]) -> "Steps":
        return Steps(self.ats[places], self.numbers[..., places])

    def joined(self, other: "Steps") -> "Steps":
        """With the moments of another, none of which is one of ours."""
        ats = np.concatenate([self.ats, other.ats])
        order = np.argsort(ats)
        return Steps(ats[order], np.concatenate([self.numbers, other.numbers], axis=2)[..., order])


def _stacked(metrics: Mapping[Metric, NDArray[np.signedinteger]]) -> NDArray[np.int32]:
    numbers = np.stack([metrics[metric] for metric in Metric], dtype=np.int32)
    for metric, place in PLACES.items():
        np.copyto(numbers[place], MISSING, where=metrics[metric] == SCALES[metric].missing)
    return numbers


class Unpacked:
    """The readings that were asked for last, by any thread, within a bound of memory. Who asks `warm` wants only those:
    all else is `ColdError`."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self.size = 0
        self._kept: OrderedDict[Hashable, Steps] = OrderedDict()
        self._lock = threading.Lock()
        self._unpacking = threading.Lock()

    def chunk(self, transaction: Transaction, segment: Segment, first_gpu: int, *, warm: bool) -> Steps | None:
        """A piece of a closed hour, if it has one that begins with this GPU."""

        def lacks(kept: Steps | None) -> int:
            return segment.ticks if kept is None else 0

        def read(_: Steps | None) -> Steps | None:
            chunks = samples.chunks(transaction, segment.id, first_gpu, first_gpu + 1)
            return Steps(decode_times(segment.times), _stacked(unpack(chunks[0].data))) if chunks else None

        return self._found(("chunk", segment.id, first_gpu), lacks, read, warm=warm)

    def ticks(
        self,
        transaction: Transaction,
        cluster_id: str,
        roster_id: int,
        first_gpu: int,
        ats: NDArray[np.int64],
        *,
        warm: bool,
    ) -> Steps | None:
        """The stripe of the open hours that begins with this GPU, at these moments; only what is new is read."""

        def new_to(kept: Steps | None) -> NDArray[np.int64]:
            return ats if kept is None else np.setdiff1d(ats, kept.ats)

        def lacks(kept: Steps | None) -> int:
            return 0 if kept is not None and kept.has(ats) else len(new_to(kept))

        def read(kept: Steps | None) -> Steps | None:
            new = new_to(kept)
            stripes = samples.stripes(transaction, cluster_id, first_gpu, int(new[0]), int(new[-1]) + 1)
            wanted = set(new.tolist())
            found = [(at, data) for at, data in stripes if at in wanted]
            if not found:
                return kept
            numbers = _stacked(unpack_ticks([data for _, data in found]))
            steps = Steps(np.array([at for at, _ in found], np.int64), numbers)
            if kept is None:
                return steps
            return kept.joined(steps).since(min(ats[0], max(kept.ats[-1], ats[-1]) - OPEN_MS))

        kept = self._found(("ticks", cluster_id, roster_id, first_gpu), lacks, read, warm=warm)
        return kept and kept.at(ats)

    def _found(
        self,
        key: Hashable,
        lacks: Callable[[Steps | None], int],
        read: Callable[[Steps | None], Steps | None],
        *,
        warm: bool,
    ) -> Steps | None:
        """What is kept, or what `read` makes of it if it lacks any moment."""
        kept = self._get(key)
        if not (missing := lacks(kept)):
            return kept
        if warm and missing > LITTLE:
            raise ColdError
        if not self._unpacking.acquire(blocking=not warm):  # what many ask for at once is unpacked once
            raise ColdError
        try:
            kept = self._get(key)
            if not lacks(kept):
                return kept
            found = read(kept)
            if found is not None:
                self._keep(key, found)
            return found
        finally:
            self._unpacking.release()

    def _get(self, key: Hashable) -> Steps | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    def _keep(self, key: Hashable, steps: Steps) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._kept[key] = steps
            self.size += steps.size - (before.size if before else 0)
            while self.size > self._most_bytes:
                self.size -= self._kept.popitem(last=False)[1].size
