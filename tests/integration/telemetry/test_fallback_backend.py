"""History from Prometheus, and from the store where Prometheus has none."""

import logging
from collections.abc import Mapping, Sequence

import pytest
from tests.conftest import LoopRun

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import LOCAL_CAPABILITIES, SIMULATED_CAPABILITIES
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.metrics.series import DeviceAllocation, GpuSeries, TimeRange
from stoker.store.cluster import clusters
from stoker.store.db.base import Store
from stoker.telemetry.query.fallback import FallbackBackend

DOWN = StokerError(ErrorCode.UNAVAILABLE, "Prometheus at http://p:9090 cannot be reached.")


class FixedBackend:
    def __init__(self, name: str) -> None:
        self.name = name
        self.error: StokerError | None = None

    async def query_range(
        self, cluster_id: str, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        if self.error is not None:
            raise self.error
        return {GpuMetric.POWER: [GpuSeries(self.name, 0, [(1.0, 0)])]}


@pytest.fixture
def remote(store: Store, loop_run: LoopRun) -> FixedBackend:
    for name, capabilities in (("real", LOCAL_CAPABILITIES), ("demo", SIMULATED_CAPABILITIES)):
        cluster = Cluster(f"id-{name}", name, "any", "", 0, capabilities=capabilities)
        loop_run(store.write(lambda tx, cluster=cluster: clusters.add(tx, cluster)))
    return FixedBackend("remote")


def asked(loop_run: LoopRun, series: FallbackBackend, cluster_id: str) -> str:
    (line,) = loop_run(series.query_range(cluster_id, [], [GpuMetric.POWER], TimeRange(0, 0, 1)))[GpuMetric.POWER]
    return line.node


def test_what_is_simulated_is_not_in_prometheus(store: Store, remote: FixedBackend, loop_run: LoopRun) -> None:
    series = FallbackBackend(store, FixedBackend("stored"), remote)
    assert asked(loop_run, series, "id-real") == "remote"
    assert asked(loop_run, series, "id-demo") == "stored"


def test_while_prometheus_is_down_the_store_answers(
    store: Store, remote: FixedBackend, loop_run: LoopRun, caplog: pytest.LogCaptureFixture
) -> None:
    series = FallbackBackend(store, FixedBackend("stored"), remote)
    remote.error = DOWN
    with caplog.at_level(logging.WARNING):
        assert {asked(loop_run, series, "id-real") for _ in range(3)} == {"stored"}
    assert len(caplog.records) == 1
    remote.error = None
    assert asked(loop_run, series, "id-real") == "remote"


def test_what_was_asked_wrongly_is_refused(store: Store, remote: FixedBackend, loop_run: LoopRun) -> None:
    remote.error = bad_request("step", "is too short.")
    with pytest.raises(StokerError, match="step"):
        asked(loop_run, FallbackBackend(store, FixedBackend("stored"), remote), "id-real")


class RecordingBackend:
    """A series that has these points of each GPU, and remembers what it was asked for."""

    def __init__(self, lines: Mapping[GpuMetric, list[GpuSeries]]) -> None:
        self.lines = lines
        self.asked: list[TimeRange] = []

    async def query_range(
        self, cluster_id: str, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        self.asked.append(span)
        moments = range(span.start, span.end + 1, span.step)
        return {
            metric: [
                GpuSeries(line.node, line.device, inside)
                for line in self.lines.get(metric, [])
                if (inside := [point for point in line.points if point[1] in moments])
            ]
            for metric in metrics
        }


class TestHoles:
    SPAN = TimeRange(60_000, 300_000, 60_000)
    HELD = (DeviceAllocation("n1", 0, 0, None), DeviceAllocation("n1", 1, 0, 180_000))

    def read(
        self, store: Store, loop_run: LoopRun, stored: RecordingBackend, remote: RecordingBackend, *metrics: GpuMetric
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        wanted = metrics or (GpuMetric.POWER,)
        return loop_run(FallbackBackend(store, stored, remote).query_range("id-real", self.HELD, wanted, self.SPAN))

    @pytest.mark.usefixtures("remote")
    def test_history_that_prometheus_has_forgotten_comes_from_the_store(self, store: Store, loop_run: LoopRun) -> None:
        kept = RecordingBackend({GpuMetric.POWER: [line(0, 1.0, 60, 120, 180, 240, 300), line(1, 1.0, 60, 120, 180)]})
        there = RecordingBackend({GpuMetric.POWER: [line(0, 2.0, 240, 300)]})
        found = self.read(store, loop_run, kept, there)
        assert found == {
            GpuMetric.POWER: [
                GpuSeries("n1", 0, [*line(0, 1.0, 60, 120, 180).points, *line(0, 2.0, 240, 300).points]),
                line(1, 1.0, 60, 120, 180),
            ]
        }
        assert kept.asked == [TimeRange(60_000, 180_000, 60_000)], "the store is asked for no more than is missing"

    @pytest.mark.usefixtures("remote")
    def test_a_hole_in_the_middle_is_filled_for_its_metric_alone(self, store: Store, loop_run: LoopRun) -> None:
        whole = [line(0, 2.0, 60, 120, 180, 240, 300), line(1, 2.0, 60, 120, 180)]
        there = RecordingBackend(
            {GpuMetric.UTILIZATION: whole, GpuMetric.POWER: [line(0, 2.0, 60, 120, 240, 300), whole[1]]}
        )
        kept = RecordingBackend({metric: [line(0, 1.0, 60, 120, 180, 240, 300)] for metric in GpuMetric})
        found = self.read(store, loop_run, kept, there, GpuMetric.UTILIZATION, GpuMetric.POWER)
        assert found[GpuMetric.UTILIZATION] == whole
        assert [point for point in found[GpuMetric.POWER][0].points if point[1] == 180_000] == [(1.0, 180_000)]
        assert len(found[GpuMetric.POWER][0].points) == 5

    @pytest.mark.usefixtures("remote")
    def test_nothing_is_asked_of_the_store_where_prometheus_has_every_point(
        self, store: Store, loop_run: LoopRun
    ) -> None:
        kept = RecordingBackend({})
        there = RecordingBackend({GpuMetric.POWER: [line(0, 2.0, 60, 120, 180, 240, 300), line(1, 2.0, 60, 120, 180)]})
        assert self.read(store, loop_run, kept, there) == there.lines
        assert kept.asked == []

    @pytest.mark.usefixtures("remote")
    def test_what_neither_has_stays_a_gap(self, store: Store, loop_run: LoopRun) -> None:
        found = self.read(
            store, loop_run, RecordingBackend({}), RecordingBackend({GpuMetric.POWER: [line(0, 2.0, 300)]})
        )
        assert found == {GpuMetric.POWER: [line(0, 2.0, 300)]}


def line(device: int, value: float, *seconds: int) -> GpuSeries:
    return GpuSeries("n1", device, [(value, second * 1000) for second in seconds])
