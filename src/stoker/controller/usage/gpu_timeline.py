"""The GPUs that a cluster had for some hours, and who held them: worked out once for all of these hours."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stoker.domain.quantity import MIB
from stoker.store.base import Transaction
from stoker.store.gpu_spans import Span, SpanState
from stoker.store.usage_facts import Held
from stoker.telemetry.measured import HourReadings, hour_readings
from stoker.usage.facts import GpuSpan, Hold, Spans, holds_of, spans_of

Gpu = tuple[str, int]
"""A node and a device of it."""


class Fleet:
    """A device at which a GPU was replaced by one of another kind is several GPUs, each for its time. `changes` says
    that there is one, so that the fleet cannot stand for hours in which there was none."""

    def __init__(self, spans: Sequence[Span], held: Sequence[Held]) -> None:
        there = [span for span in spans if span.state is SpanState.PRESENT]
        kinds = sorted({_kind(span) for span in there})
        self._gpus: list[Gpu] = [(node, device) for node, device, *_ in kinds]
        self._rows: dict[int, NDArray[np.intp]] = {}
        self.models = [model for *_, model, _ in kinds]
        self.memory_size = np.array([memory_bytes // MIB for *_, memory_bytes in kinds], np.int64)
        self._places: defaultdict[Gpu, list[int]] = defaultdict(list)
        for place, gpu in enumerate(self._gpus):
            self._places[gpu].append(place)
        number = {kind: place for place, kind in enumerate(kinds)}
        self._turns: defaultdict[Gpu, list[GpuSpan]] = defaultdict(list)
        for span in there:
            if len(self._places[span.node, span.device]) > 1:
                turn = GpuSpan(number[_kind(span)], span.from_at, span.to_at)
                self._turns[span.node, span.device].append(turn)
        self.present = spans_of(GpuSpan(number[_kind(span)], span.from_at, span.to_at) for span in there)
        self.faulty = self._all_of(span for span in spans if span.state is not SpanState.PRESENT)
        self.holds = holds_of(hold for each in held for hold in self._holds(each))

    @property
    def changes(self) -> bool:
        return bool(self._turns)

    def readings(self, transaction: Transaction, cluster_id: str, hour_at: int) -> HourReadings:
        """What a device said is said of each GPU that was there; it counts for the one that was held at that moment."""
        if not self.changes:
            return hour_readings(transaction, cluster_id, hour_at, self._gpus, self._rows)
        devices = sorted(self._places)
        row = {device: number for number, device in enumerate(devices)}
        found = hour_readings(transaction, cluster_id, hour_at, devices, self._rows)
        rows = [row[gpu] for gpu in self._gpus]
        return structs.replace(found, utilization=found.utilization[rows], memory=found.memory[rows])

    def _all_of(self, spans: Iterable[Span]) -> Spans:
        return spans_of(
            GpuSpan(place, span.from_at, span.to_at)
            for span in spans
            for place in self._places.get((span.node, span.device), ())
        )

    def _holds(self, held: Held) -> Iterator[Hold]:
        places = self._places.get((held.node, held.device), ())
        if len(places) == 1:
            yield _hold(held, places[0], held.from_at, held.to_at)
            return
        for turn in self._turns.get((held.node, held.device), ()):
            from_at, to_at = max(held.from_at, turn.from_at), min(held.to_at, turn.to_at)
            if from_at < to_at:
                yield _hold(held, turn.gpu, from_at, to_at)


def _kind(span: Span) -> tuple[str, int, str, int]:
    return span.node, span.device, span.model, span.memory_bytes


def _hold(held: Held, gpu: int, from_at: int, to_at: int) -> Hold:
    return Hold(gpu, held.workload_uid, held.pod_uid, held.gpu_milli, from_at, to_at, held.started_at)
