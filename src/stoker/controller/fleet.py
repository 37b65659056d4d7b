"""The GPUs that a cluster had for some hours, and who held them: worked out once for all of these hours."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.domain.quantity import MIB
from stoker.store.base import Transaction
from stoker.store.gpu_spans import Span, SpanState
from stoker.store.usage_facts import Held
from stoker.telemetry.measured import HourReadings, hour_readings
from stoker.usage.facts import GpuSpan, Hold, Spans, holds_of, spans_of


class Fleet:
    """`changes` says that a GPU was replaced by one of another kind, so that it cannot stand for all the hours."""

    def __init__(self, spans: Sequence[Span], held: Sequence[Held]) -> None:
        there: dict[tuple[str, int], Span] = {}
        self.changes = False
        for span in spans:
            if span.state is SpanState.PRESENT:
                before = there.get((span.node, span.device), span)
                self.changes |= (before.model, before.memory_bytes) != (span.model, span.memory_bytes)
                there[span.node, span.device] = span
        self._gpus = sorted(there)
        self._place = {gpu: number for number, gpu in enumerate(self._gpus)}
        self._rows: dict[int, NDArray[np.intp]] = {}
        self.models = [there[gpu].model for gpu in self._gpus]
        self.memory_size = np.array([there[gpu].memory_bytes // MIB for gpu in self._gpus], np.int64)
        self.present = self._of(spans, {SpanState.PRESENT})
        self.faulty = self._of(spans, {SpanState.FAULTY, SpanState.REPORTED})
        self.holds = holds_of(
            Hold(place, each.workload_uid, each.pod_uid, each.gpu_milli, each.from_at, each.to_at, each.started_at)
            for each in held
            if (place := self._place.get((each.node, each.device))) is not None
        )

    def readings(self, transaction: Transaction, cluster_id: str, hour_at: int) -> HourReadings:
        return hour_readings(transaction, cluster_id, hour_at, self._gpus, self._rows)

    def _of(self, spans: Sequence[Span], states: set[SpanState]) -> Spans:
        return spans_of(
            GpuSpan(place, span.from_at, span.to_at)
            for span in spans
            if span.state in states and (place := self._place.get((span.node, span.device))) is not None
        )
