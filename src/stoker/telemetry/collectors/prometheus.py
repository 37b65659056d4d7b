"""Collects the GPUs of a cluster from Prometheus, with one query per field for all GPUs."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import Clock
from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.cluster.samples import GpuFault, GpuSamples, encode_uuids
from stoker.telemetry.collectors.nvml import APPLICATION_XIDS
from stoker.telemetry.prometheus.client import PrometheusClient, SeriesResult, gather_or_cancel
from stoker.telemetry.prometheus.exporter_schemas import UNIT_SCALES, ExporterField, ExporterSchema, GpuSelector
from stoker.telemetry.prometheus.node_matching import NodeMatcher
from stoker.telemetry.prometheus.promql import avg_by

COLLECTOR_NAME = "prometheus"
BLANK_COUNT = 0x7FFF_FFF0
"""DCGM exports this count, or a higher one, for a field that a GPU does not have."""
MAX_NODES_IN_QUERY = 50
"""A query for more nodes than this selects all of them, which is cheaper than naming each."""
QUERIED_FIELDS = tuple(field for field in ExporterField if field is not ExporterField.MEMORY_FREE)
"""MEMORY_FREE is only part of the query for the memory size."""


class PrometheusCollector:
    def __init__(
        self,
        prometheus: PrometheusClient,
        names: ExporterSchema,
        nodes: Callable[[], Collection[str]],
        clock: Clock,
        ecc_threshold: int = 1,
    ) -> None:
        """A GPU with `ecc_threshold` or more uncorrected errors is faulty."""
        self._ecc_threshold = ecc_threshold
        self._client = prometheus
        self._schema = names
        self._nodes = nodes
        self._clock = clock
        self._known_nodes: tuple[str, ...] = ()
        self._resolve_labels = names.label_resolver(NodeMatcher(()))

    @property
    def name(self) -> str:
        return COLLECTOR_NAME

    async def collect(self) -> GpuSamples:
        nodes = tuple(sorted(self._nodes()))
        if nodes != self._known_nodes:
            self._known_nodes, self._resolve_labels = nodes, self._schema.label_resolver(NodeMatcher(nodes))
        wanted = GpuSelector(nodes if len(nodes) <= MAX_NODES_IN_QUERY else ())
        at = self._clock.now()
        sampled_at, *answers = await gather_or_cancel(
            self._client.query(self._schema.sampled_at_query(wanted)),
            *(self._query_field(field, wanted) for field in QUERIED_FIELDS),
        )
        found = dict(zip(QUERIED_FIELDS, answers, strict=True))
        return await asyncio.to_thread(
            build_samples, at, nodes, found, sampled_at, self._resolve_labels, self._ecc_threshold
        )

    async def close(self) -> None:
        await self._client.close()

    async def _query_field(self, field: ExporterField, wanted: GpuSelector) -> list[SeriesResult]:
        if field is ExporterField.MEMORY_TOTAL:
            return await self._client.query(self._schema.memory_total_query(wanted))
        query = self._schema.build_query(field, wanted, lambda series: avg_by(series, self._schema.gpu_labels))
        return await self._client.query(query)


def build_samples(
    at: int,
    nodes: tuple[str, ...],
    answers: Mapping[ExporterField, list[SeriesResult]],
    sampled_at: list[SeriesResult],
    find: Callable[[dict[str, str]], GpuId | None],
    ecc_threshold: int = 1,
) -> GpuSamples:
    """One row for each GPU with any value, by node and device. The values of `sampled_at` are in seconds."""
    rows = _GpuRows()
    known = {field: _values_by_row(found, find, rows) for field, found in answers.items()}
    times = _values_by_row(sampled_at, find, rows)
    place = {node: index for index, node in enumerate(nodes)}
    node = np.array([place[gpu.node] for gpu in rows.gpus], np.int32)
    device = np.array([gpu.device for gpu in rows.gpus], np.int16)
    sampled = np.nan_to_num(np.fmin(np.rint(_by_row(len(rows.gpus), *times) * 1000), at), nan=at).astype(np.int64)
    order = np.lexsort((sampled, device, node))
    order = order[_is_newest([rows.gpus[row].uuid for row in order.tolist()], sampled[order])]

    def column(field: ExporterField) -> NDArray[np.float64]:
        return _by_row(len(rows.gpus), *known[field])[order] * UNIT_SCALES.get(field, 1.0)

    gpus = [rows.gpus[row] for row in order.tolist()]
    return GpuSamples(
        at=at,
        nodes=nodes,
        node=node[order],
        device=device[order],
        utilization=clamp_fraction(column(ExporterField.UTILIZATION)).astype(np.float32),
        memory_used=column(ExporterField.MEMORY_USED),
        memory_total=np.nan_to_num(column(ExporterField.MEMORY_TOTAL)),
        power=column(ExporterField.POWER).astype(np.float32),
        temperature=column(ExporterField.TEMPERATURE).astype(np.float32),
        faults=(
            *_ecc_faults(gpus, column(ExporterField.UNCORRECTED_ERRORS), ecc_threshold),
            *_faults(gpus, column(ExporterField.XID), column(ExporterField.HEALTH)),
        ),
        sampled_at=sampled[order],
        uuid=encode_uuids(gpu.uuid for gpu in gpus) if rows.has_uuids else None,
    )


class _GpuRows:
    """Numbers the GPUs of series. Series with and without a UUID at one place are of one GPU. Several UUIDs at one
    place are several GPUs, of which one was there before the other."""

    def __init__(self) -> None:
        self.gpus: list[GpuId] = []
        self.has_uuids = False
        self._first_at_place: dict[tuple[str, int], int] = {}
        self._others: dict[GpuId, int] = {}

    def row(self, gpu: GpuId) -> int:
        place = (gpu.node, gpu.device)
        row = self._first_at_place.get(place)
        if row is None:
            row = self._first_at_place[place] = self._add(gpu)
        elif gpu.uuid and gpu.uuid != self.gpus[row].uuid:
            if self.gpus[row].uuid:
                row = self._others.get(gpu)
                if row is None:
                    row = self._others[gpu] = self._add(gpu)
            else:
                self.gpus[row], self.has_uuids = gpu, True
        return row

    def _add(self, gpu: GpuId) -> int:
        self.gpus.append(gpu)
        self.has_uuids = self.has_uuids or bool(gpu.uuid)
        return len(self.gpus) - 1


def _by_row(count: int, places: NDArray[np.intp], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.full(count, np.nan)
    values[places[::-1]] = numbers[::-1]  # of several values the first counts
    return values


def _is_newest(uuids: list[str], sampled_at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """False for the older samples of a GPU that has several: its series at a place where it was before still exist."""
    newest: dict[str, int] = {}
    is_newest = np.ones(len(uuids), np.bool_)
    for row, uuid in enumerate(uuids):
        other = newest.setdefault(uuid, row) if uuid else row
        if other != row:
            older = row if sampled_at[row] < sampled_at[other] else other
            is_newest[older], newest[uuid] = False, row + other - older
    return is_newest


def clamp_fraction(fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clip values slightly over 1, which come from rounding. Higher ones, such as 65535 for "unknown", are missing."""
    return np.where(fractions <= 1.01, np.minimum(fractions, 1.0), np.nan)


def _values_by_row(
    found: list[SeriesResult], find: Callable[[dict[str, str]], GpuId | None], rows: _GpuRows
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows and values of the series; GPUs that `rows` does not have are added to it."""
    places: list[int] = []
    numbers: list[float] = []
    for series in found:
        number, gpu = series.instant_value, find(series.metric)
        if number is not None and gpu is not None:
            places.append(rows.row(gpu))
            numbers.append(number)
    return np.array(places, np.intp), np.array(numbers, np.float64)


def _ecc_faults(gpus: list[GpuId], errors: NDArray[np.float64], threshold: int) -> Iterator[GpuFault]:
    for row in np.flatnonzero((errors >= threshold) & (errors < BLANK_COUNT)).tolist():
        count = humanize_count(int(errors[row]), "uncorrected error")
        yield _fault(gpus[row], f"Its memory had {count} since its driver started.")


def _faults(gpus: list[GpuId], xids: NDArray[np.float64], health: NDArray[np.float64]) -> Iterator[GpuFault]:
    for row in np.flatnonzero(xids > 0).tolist():
        if xids[row] not in APPLICATION_XIDS:
            yield _fault(gpus[row], f"Its driver reported XID {xids[row]:.0f}.")
    for row in np.flatnonzero(health == 0).tolist():
        yield _fault(gpus[row], "Its exporter says that it is not healthy.")


def _fault(gpu: GpuId, message: str) -> GpuFault:
    return GpuFault(gpu.node, gpu.device, message, gpu.uuid)
