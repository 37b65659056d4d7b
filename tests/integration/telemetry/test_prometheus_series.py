"""Ranges from a real VictoriaMetrics and a real Prometheus: the mean of what was held, and of nothing else."""

import statistics
import subprocess
from collections.abc import Iterator, Sequence

import pytest
from tests.conftest import LoopRun
from tests.debian import program
from tests.engine.telemetry.servers import RealPrometheus, VictoriaMetrics

from stoker.domain.errors import StokerError
from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Holding, Range
from stoker.telemetry.exporters import Names
from stoker.telemetry.means import DECIMALS
from stoker.telemetry.prometheus import Prometheus
from stoker.telemetry.prometheus_series import PrometheusSeries

BEGIN = 1_700_000_040_000
"""A whole minute."""

PERIOD = 15_000
Samples = list[tuple[int, float]]


def ramp(count: int = 40, first: float = 1.0) -> Samples:
    """A reading each 15 s, each one higher than the last."""
    return [(BEGIN + number * PERIOD, first + number) for number in range(count)]


def mean(samples: Samples, after: int, up_to: int) -> float:
    return round(statistics.fmean(value for at, value in samples if after < at <= up_to), DECIMALS)


@pytest.fixture
def series(victoria: VictoriaMetrics, loop_run: LoopRun) -> Iterator[PrometheusSeries]:
    made = PrometheusSeries(Prometheus(victoria.url), Names())
    yield made
    loop_run(made.close())


def line(
    loop_run: LoopRun, series: PrometheusSeries, holdings: Sequence[Holding], span: Range, metric: Metric = Metric.POWER
) -> GpuLine:
    (found,) = loop_run(series.gpus("c", holdings, [metric], span))[metric]
    return found


def test_a_point_is_the_mean_of_the_time_before_it(
    victoria: VictoriaMetrics, series: PrometheusSeries, loop_run: LoopRun
) -> None:
    samples = ramp()
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "mean-1"}, samples)
    span = Range(BEGIN + 60_000, BEGIN + 300_000, 60_000)
    found = line(loop_run, series, [Holding("mean-1", 0, 0, None)], span)
    points = range(span.start, span.end + 1, span.step)
    assert found.points == [(mean(samples, at - 60_000, at), at) for at in points]


def test_a_moment_without_readings_has_no_point(
    victoria: VictoriaMetrics, series: PrometheusSeries, loop_run: LoopRun
) -> None:
    samples = [each for each in ramp() if not BEGIN + 60_000 < each[0] <= BEGIN + 120_000]
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "gap-1"}, samples)
    span = Range(BEGIN + 60_000, BEGIN + 180_000, 60_000)
    found = line(loop_run, series, [Holding("gap-1", 0, 0, None), Holding("gap-1", 0, 0, 1000)], span)
    assert [at for _, at in found.points] == [BEGIN + 60_000, BEGIN + 180_000]


def test_only_what_was_held_counts_even_within_a_point(
    victoria: VictoriaMetrics, series: PrometheusSeries, loop_run: LoopRun
) -> None:
    samples = ramp()
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "held-1"}, samples)
    holdings = [
        Holding("held-1", 0, BEGIN + 75_000, BEGIN + 105_000),
        Holding("held-1", 0, BEGIN + 105_500, BEGIN + 200_000),
    ]
    span = Range(BEGIN + 60_000, BEGIN + 300_000, 60_000)
    found = line(loop_run, series, holdings, span)
    held = [(at, value) for at, value in samples if 75_000 <= at - BEGIN < 200_000 and at - BEGIN != 105_000]
    points = [BEGIN + 120_000, BEGIN + 180_000, BEGIN + 240_000]
    assert found.points == [(mean(held, at - 60_000, at), at) for at in points]


def test_memory_is_a_fraction_whoever_exports_it(
    victoria: VictoriaMetrics, series: PrometheusSeries, loop_run: LoopRun
) -> None:
    for name, value in (("DCGM_FI_DEV_FB_USED", 30.0), ("DCGM_FI_DEV_FB_FREE", 90.0)):
        victoria.put(name, {"gpu": "0", "Hostname": "memory-1"}, [(at, value) for at, _ in ramp()])
    for name, value in (("gpu_used_vram", 30.0), ("gpu_total_vram", 60.0)):
        victoria.put(name, {"gpu_id": "1", "hostname": "memory-1"}, [(at, value) for at, _ in ramp()])
    victoria.put("gpu_gfx_activity", {"gpu_id": "1", "hostname": "memory-1"}, ramp())
    holdings = [Holding("memory-1", device, 0, None) for device in (0, 1, 2)]
    span = Range(BEGIN + 60_000, BEGIN + 60_000, 60_000)
    found = loop_run(series.gpus("c", holdings, [Metric.MEMORY_USED, Metric.UTILIZATION], span))
    assert found == {
        Metric.MEMORY_USED: [
            GpuLine("memory-1", 0, [(0.25, span.end)]),
            GpuLine("memory-1", 1, [(0.5, span.end)]),
        ],
        Metric.UTILIZATION: [GpuLine("memory-1", 1, [(mean(ramp(), BEGIN, span.end) / 100, span.end)])],
    }, "what has no reading has no line"


@pytest.mark.parametrize("host", ['q"} or vector(1) #', "b\\", "n\nl", "a.*", "(a|b)", "tab\t"])
def test_a_name_in_a_query_stays_a_name(
    host: str, victoria: VictoriaMetrics, series: PrometheusSeries, loop_run: LoopRun
) -> None:
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": host}, ramp())
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": f"{host}x"}, ramp(first=1000.0))
    span = Range(BEGIN + 60_000, BEGIN + 60_000, 60_000)
    found = line(loop_run, series, [Holding(host, 0, BEGIN + 20_000, None)], span)
    assert found.points == [(mean(ramp(), BEGIN + 20_000, span.end), span.end)]


def test_as_many_points_as_there_may_be_and_not_one_more(
    victoria: VictoriaMetrics, series: PrometheusSeries, loop_run: LoopRun
) -> None:
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "many-1"}, ramp())
    holdings = [Holding("many-1", 0, 0, None)]
    span = Range(BEGIN, BEGIN + 10_999 * 1000, 1000)
    assert len(line(loop_run, series, holdings, span).points) == len(ramp())
    with pytest.raises(StokerError, match="11000 points"):
        line(loop_run, series, holdings, Range(BEGIN, BEGIN + 11_000 * 1000, 1000))


def test_nothing_held_is_nothing_asked(loop_run: LoopRun) -> None:
    nowhere = PrometheusSeries(Prometheus("http://127.0.0.1:9"), Names())
    assert loop_run(nowhere.gpus("c", [], [Metric.POWER], Range(0, 1000, 1000))) == {Metric.POWER: []}


def test_prometheus_and_victoria_metrics_give_the_same_points(
    pytestconfig: pytest.Config,
    victoria: VictoriaMetrics,
    tmp_path_factory: pytest.TempPathFactory,
    loop_run: LoopRun,
) -> None:
    """Prometheus counts both ends of a range, VictoriaMetrics does not."""
    folder = tmp_path_factory.mktemp("prometheus")
    samples = ramp()
    text = "".join(
        f'gpu_package_power{{gpu_id="0",hostname="same-1"}} {value} {at / 1000:.3f}\n' for at, value in samples
    )
    (folder / "samples").write_text(f"# TYPE gpu_package_power gauge\n{text}# EOF\n")
    fill = [program(pytestconfig, "prometheus", "promtool"), "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run([*fill, folder / "samples", folder / "data"], check=True, capture_output=True)
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "same-1"}, samples)
    prometheus = RealPrometheus(program(pytestconfig, "prometheus", "prometheus"), folder, "global: {}\n")
    try:
        span = Range(BEGIN + 60_000, BEGIN + 300_000, 60_000)
        holdings = [Holding("same-1", 0, BEGIN + 45_000, BEGIN + 210_000)]
        found = []
        for url in (victoria.url, prometheus.url):
            series = PrometheusSeries(Prometheus(url), Names())
            found.append(line(loop_run, series, holdings, span).points)
            loop_run(series.close())
    finally:
        prometheus.stop()
    assert found[0] == found[1]
    assert len(found[0]) == 4
