"""History from Prometheus, and from the store where Prometheus has none."""

import logging
from collections.abc import Mapping, Sequence

import pytest
from tests.conftest import LoopRun

from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.identity import SIMULATED, Cluster
from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Holding, Range
from stoker.store import clusters
from stoker.store.base import Store
from stoker.telemetry.chosen import ChosenSeries

DOWN = StokerError(ErrorCode.BACKEND_DOWN, "Prometheus at http://p:9090 cannot be reached.")


class Given:
    def __init__(self, name: str) -> None:
        self.name = name
        self.error: StokerError | None = None

    async def gpus(
        self, cluster_id: str, holdings: Sequence[Holding], metrics: Sequence[Metric], span: Range
    ) -> Mapping[Metric, list[GpuLine]]:
        if self.error is not None:
            raise self.error
        return {Metric.POWER: [GpuLine(self.name, 0, [(1.0, 0)])]}


@pytest.fixture
def remote(store: Store, loop_run: LoopRun) -> Given:
    for name, engine in (("real", "local"), ("demo", SIMULATED)):
        cluster = Cluster(f"id-{name}", name, engine, "", 0)
        loop_run(store.write(lambda tx, cluster=cluster: clusters.add(tx, cluster)))
    return Given("remote")


def asked(loop_run: LoopRun, series: ChosenSeries, cluster_id: str) -> str:
    (line,) = loop_run(series.gpus(cluster_id, [], [Metric.POWER], Range(0, 0, 1)))[Metric.POWER]
    return line.node


def test_what_is_simulated_is_not_in_prometheus(store: Store, remote: Given, loop_run: LoopRun) -> None:
    series = ChosenSeries(store, Given("stored"), remote)
    assert asked(loop_run, series, "id-real") == "remote"
    assert asked(loop_run, series, "id-demo") == "stored"


def test_while_prometheus_is_down_the_store_answers(
    store: Store, remote: Given, loop_run: LoopRun, caplog: pytest.LogCaptureFixture
) -> None:
    series = ChosenSeries(store, Given("stored"), remote)
    remote.error = DOWN
    with caplog.at_level(logging.WARNING):
        assert {asked(loop_run, series, "id-real") for _ in range(3)} == {"stored"}
    assert len(caplog.records) == 1
    remote.error = None
    assert asked(loop_run, series, "id-real") == "remote"


def test_what_was_asked_wrongly_is_refused(store: Store, remote: Given, loop_run: LoopRun) -> None:
    remote.error = bad_request("step", "is too short.")
    with pytest.raises(StokerError, match="step"):
        asked(loop_run, ChosenSeries(store, Given("stored"), remote), "id-real")
