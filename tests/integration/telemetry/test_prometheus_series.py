"""Range queries to a real VictoriaMetrics and a real Prometheus: the means cover exactly the allocations."""

import statistics
import subprocess
from collections.abc import Iterator, Sequence

import pytest
from tests.conftest import LoopRun
from tests.debian import program
from tests.integration.telemetry.servers import RealPrometheus, VictoriaMetrics

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import StokerError
from stoker.domain.metrics.series import DeviceAllocation, GpuSeries, TimeRange
from stoker.telemetry.prometheus.client import PrometheusClient
from stoker.telemetry.prometheus.exporter_schemas import ExporterSchema
from stoker.telemetry.query.downsample import DECIMALS
from stoker.telemetry.query.prometheus import PrometheusBackend

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
def series(victoria: VictoriaMetrics, loop_run: LoopRun) -> Iterator[PrometheusBackend]:
    made = PrometheusBackend(PrometheusClient(victoria.url), ExporterSchema())
    yield made
    loop_run(made.close())


def line(
    loop_run: LoopRun,
    series: PrometheusBackend,
    holdings: Sequence[DeviceAllocation],
    span: TimeRange,
    metric: GpuMetric = GpuMetric.POWER,
) -> GpuSeries:
    (found,) = loop_run(series.query_range("c", holdings, [metric], span))[metric]
    return found


def test_a_point_is_the_mean_of_the_time_before_it(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    samples = ramp()
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "mean-1"}, samples)
    span = TimeRange(BEGIN + 60_000, BEGIN + 300_000, 60_000)
    found = line(loop_run, series, [DeviceAllocation("mean-1", 0, 0, None)], span)
    points = range(span.start, span.end + 1, span.step)
    assert found.points == [(mean(samples, at - 60_000, at), at) for at in points]


def test_a_moment_without_readings_has_no_point(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    samples = [each for each in ramp() if not BEGIN + 60_000 < each[0] <= BEGIN + 120_000]
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "gap-1"}, samples)
    span = TimeRange(BEGIN + 60_000, BEGIN + 180_000, 60_000)
    found = line(loop_run, series, [DeviceAllocation("gap-1", 0, 0, None), DeviceAllocation("gap-1", 0, 0, 1000)], span)
    assert [at for _, at in found.points] == [BEGIN + 60_000, BEGIN + 180_000]


def test_only_what_was_held_counts_even_within_a_point(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    samples = ramp()
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "held-1"}, samples)
    holdings = [
        DeviceAllocation("held-1", 0, BEGIN + 75_000, BEGIN + 105_000),
        DeviceAllocation("held-1", 0, BEGIN + 105_500, BEGIN + 200_000),
    ]
    span = TimeRange(BEGIN + 60_000, BEGIN + 300_000, 60_000)
    found = line(loop_run, series, holdings, span)
    held = [(at, value) for at, value in samples if 75_000 <= at - BEGIN < 200_000 and at - BEGIN != 105_000]
    points = [BEGIN + 120_000, BEGIN + 180_000, BEGIN + 240_000]
    assert found.points == [(mean(held, at - 60_000, at), at) for at in points]


def test_memory_is_a_fraction_whoever_exports_it(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    for name, value in (("DCGM_FI_DEV_FB_USED", 30.0), ("DCGM_FI_DEV_FB_FREE", 90.0)):
        victoria.put(name, {"gpu": "0", "Hostname": "memory-1"}, [(at, value) for at, _ in ramp()])
    for name, value in (("gpu_used_vram", 30.0), ("gpu_total_vram", 60.0)):
        victoria.put(name, {"gpu_id": "1", "hostname": "memory-1"}, [(at, value) for at, _ in ramp()])
    victoria.put("gpu_gfx_activity", {"gpu_id": "1", "hostname": "memory-1"}, ramp())
    holdings = [DeviceAllocation("memory-1", device, 0, None) for device in (0, 1, 2)]
    span = TimeRange(BEGIN + 60_000, BEGIN + 60_000, 60_000)
    found = loop_run(series.query_range("c", holdings, [GpuMetric.MEMORY_USED, GpuMetric.UTILIZATION], span))
    assert found == {
        GpuMetric.MEMORY_USED: [
            GpuSeries("memory-1", 0, [(0.25, span.end)]),
            GpuSeries("memory-1", 1, [(0.5, span.end)]),
        ],
        GpuMetric.UTILIZATION: [GpuSeries("memory-1", 1, [(mean(ramp(), BEGIN, span.end) / 100, span.end)])],
    }, "what has no reading has no line"


@pytest.mark.parametrize("host", ['q"} or vector(1) #', "b\\", "n\nl", "a.*", "(a|b)", "tab\t"])
def test_a_name_in_a_query_stays_a_name(
    host: str, victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": host}, ramp())
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": f"{host}x"}, ramp(first=1000.0))
    span = TimeRange(BEGIN + 60_000, BEGIN + 60_000, 60_000)
    found = line(loop_run, series, [DeviceAllocation(host, 0, BEGIN + 20_000, None)], span)
    assert found.points == [(mean(ramp(), BEGIN + 20_000, span.end), span.end)]


def test_as_many_points_as_there_may_be_and_not_one_more(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    victoria.put("gpu_package_power", {"gpu_id": "0", "hostname": "many-1"}, ramp())
    holdings = [DeviceAllocation("many-1", 0, 0, None)]
    span = TimeRange(BEGIN, BEGIN + 10_999 * 1000, 1000)
    assert len(line(loop_run, series, holdings, span).points) == len(ramp())
    with pytest.raises(StokerError, match="11000 points"):
        line(loop_run, series, holdings, TimeRange(BEGIN, BEGIN + 11_000 * 1000, 1000))


def test_nothing_held_is_nothing_asked(loop_run: LoopRun) -> None:
    nowhere = PrometheusBackend(PrometheusClient("http://127.0.0.1:9"), ExporterSchema())
    assert loop_run(nowhere.query_range("c", [], [GpuMetric.POWER], TimeRange(0, 1000, 1000))) == {GpuMetric.POWER: []}


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
        span = TimeRange(BEGIN + 60_000, BEGIN + 300_000, 60_000)
        holdings = [DeviceAllocation("same-1", 0, BEGIN + 45_000, BEGIN + 210_000)]
        found = []
        for url in (victoria.url, prometheus.url):
            series = PrometheusBackend(PrometheusClient(url), ExporterSchema())
            found.append(line(loop_run, series, holdings, span).points)
            loop_run(series.close())
    finally:
        prometheus.stop()
    assert found[0] == found[1]
    assert len(found[0]) == 4


def put_card(server: VictoriaMetrics, uuid: str, host: str, gpu: int, samples: Samples) -> None:
    server.put("DCGM_FI_DEV_POWER_USAGE", {"gpu": str(gpu), "Hostname": host, "UUID": uuid}, samples)


def test_the_series_of_a_gpu_goes_on_when_it_is_renumbered_and_when_it_moves(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    x, y = ramp(), ramp(first=1000.0)
    put_card(victoria, "GPU-aa01", "ren-1", 0, x[:10])
    put_card(victoria, "GPU-aa02", "ren-1", 1, y[:10])
    put_card(victoria, "GPU-aa01", "ren-1", 1, x[10:20])
    put_card(victoria, "GPU-aa02", "ren-1", 0, y[10:])
    put_card(victoria, "GPU-aa01", "ren-2", 0, x[20:])
    span = TimeRange(BEGIN + 60_000, BEGIN + 540_000, 60_000)
    holdings = [
        DeviceAllocation("ren-1", 0, 0, BEGIN + 150_000, "GPU-aa01"),
        DeviceAllocation("ren-1", 1, BEGIN + 150_000, None, "GPU-aa01"),
        DeviceAllocation("ren-1", 0, BEGIN + 75_000, None, "GPU-aa02"),
    ]
    second, first = loop_run(series.query_range("c", holdings, [GpuMetric.POWER], span))[GpuMetric.POWER]
    assert (first.node, first.device, first.uuid) == ("ren-1", 1, "GPU-aa01")
    assert (second.node, second.device, second.uuid) == ("ren-1", 0, "GPU-aa02")
    points = range(span.start, span.end + 1, span.step)
    # within the steps of the two changes, a point is the mean of the means at both places
    steady = [at for at in points if at not in (BEGIN + 180_000, BEGIN + 300_000)]
    assert [(value, at) for value, at in first.points if at in steady] == [
        (mean(x, at - 60_000, at), at) for at in steady
    ]
    held = [(at, value) for at, value in y if at >= BEGIN + 75_000]
    assert [(value, at) for value, at in second.points if at in steady[1:]] == [
        (mean(held, at - 60_000, at), at) for at in steady[1:]
    ]


def test_a_gpu_has_nothing_of_another_one_at_its_place(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    put_card(victoria, "GPU-bb02", "swap-1", 0, ramp())
    span = TimeRange(BEGIN + 60_000, BEGIN + 120_000, 60_000)
    of_x = [DeviceAllocation("swap-1", 0, 0, None, "GPU-bb01")]
    assert loop_run(series.query_range("c", of_x, [GpuMetric.POWER], span))[GpuMetric.POWER] == []
    for uuid in ("", "serial 7"):
        of_place = [DeviceAllocation("swap-1", 0, 0, None, uuid)]
        assert len(line(loop_run, series, of_place, span).points) == 2


def test_an_exporter_without_uuids_is_read_by_place(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    victoria.put("DCGM_FI_DEV_POWER_USAGE", {"gpu": "3", "Hostname": "plain-1"}, ramp())
    span = TimeRange(BEGIN + 60_000, BEGIN + 120_000, 60_000)
    found = line(loop_run, series, [DeviceAllocation("plain-1", 3, 0, None, "GPU-cc01")], span)
    assert [value for value, _ in found.points] == [mean(ramp(), at - 60_000, at) for _, at in found.points]


def test_the_uuid_of_an_amd_gpu_is_found_as_its_exporter_writes_it(
    victoria: VictoriaMetrics, series: PrometheusBackend, loop_run: LoopRun
) -> None:
    labels = {"gpu_id": "5", "hostname": "mi-77", "gpu_uuid": "72ff740f-0000-1000-804c-3b58bf67050e"}
    victoria.put("gpu_package_power", labels, ramp())
    span = TimeRange(BEGIN + 60_000, BEGIN + 120_000, 60_000)
    found = line(loop_run, series, [DeviceAllocation("mi-78", 0, 0, None, "GPU-724c3b58bf67050e")], span)
    assert (found.node, found.device, len(found.points)) == ("mi-78", 0, 2)
