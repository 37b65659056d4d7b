"""Readings from a real VictoriaMetrics, filled through its import API as exporters would fill it."""

import math
from collections.abc import Collection

import pytest
from tests.conftest import LoopRun
from tests.engine.telemetry.servers import VictoriaMetrics

from stoker.domain.clock import SystemClock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.readings import Readings
from stoker.telemetry.exporters import MIB, Names
from stoker.telemetry.prometheus import Prometheus
from stoker.telemetry.prometheus_readings import PrometheusSource


def now(server: VictoriaMetrics, name: str, labels: dict[str, str], value: float) -> None:
    """A second ago, as VictoriaMetrics takes the present second for the future."""
    server.put(name, labels, [(SystemClock().now() - 1000, value)])


def source_of(url: str, nodes: Collection[str], names: Names | None = None) -> PrometheusSource:
    return PrometheusSource(Prometheus(url), names or Names(), lambda: nodes, SystemClock())


def read(loop_run: LoopRun, server: VictoriaMetrics, nodes: Collection[str], names: Names | None = None) -> Readings:
    async def main() -> Readings:
        source = source_of(server.url, nodes, names)
        try:
            return await source.readings()
        finally:
            await source.close()

    return loop_run(main())


def test_gpus_of_dcgm_and_of_amd_are_read_in_base_units(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    labels = {"gpu": "3", "UUID": "GPU-1", "modelName": "NVIDIA H100", "Hostname": "dgx-1", "instance": "x:9400"}
    for name, value in (
        ("DCGM_FI_DEV_GPU_UTIL", 93),
        ("DCGM_FI_DEV_FB_USED", 60_000),
        ("DCGM_FI_DEV_FB_FREE", 20_000),
        ("DCGM_FI_DEV_POWER_USAGE", 612.5),
        ("DCGM_FI_DEV_GPU_TEMP", 71),
        ("DCGM_FI_DEV_XID_ERRORS", 79),
    ):
        now(victoria, name, labels, value)
    for name, value in (
        ("gpu_gfx_activity", 55),
        ("gpu_used_vram", 1000),
        ("gpu_total_vram", 196_592),
        ("gpu_package_power", 640),
        ("gpu_junction_temperature", 66),
        ("gpu_health", 0),
    ):
        now(victoria, name, {"gpu_id": "0", "hostname": "mi-1.example.com"}, value)
    found = read(loop_run, victoria, ["dgx-1", "mi-1"])
    assert found.nodes == ("dgx-1", "mi-1")
    assert (found.node.tolist(), found.device.tolist()) == ([0, 1], [3, 0])
    assert found.utilization.tolist() == pytest.approx([0.93, 0.55])
    assert found.memory_used.tolist() == [60_000 * MIB, 1000 * MIB]
    assert found.memory_total.tolist() == [80_000 * MIB, 196_592 * MIB]
    assert (found.power.tolist(), found.temperature.tolist()) == ([612.5, 640.0], [71.0, 66.0])
    assert {(fault.node, fault.device, fault.message) for fault in found.faults} == {
        ("dgx-1", 3, "Its driver reported XID 79."),
        ("mi-1", 0, "Its exporter says that it is not healthy."),
    }


def test_what_is_no_measurement_is_dropped(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    for gpu, value in (("0", -1.0), ("1", 65535.0), ("2", 40.0), ("", 10.0), ("x", 10.0)):
        now(victoria, "DCGM_FI_DEV_GPU_UTIL", {"gpu": gpu, "Hostname": "bad-1"}, value)
    now(victoria, "DCGM_FI_DEV_GPU_UTIL", {"gpu": "7"}, 10.0)
    now(victoria, "DCGM_FI_DEV_POWER_USAGE", {"gpu": "0", "Hostname": "bad-1"}, 100.0)
    now(victoria, "DCGM_FI_DEV_XID_ERRORS", {"gpu": "2", "Hostname": "bad-1"}, 31)
    now(victoria, "gpu_health", {"gpu_id": "2", "hostname": "bad-1"}, 1)
    found = read(loop_run, victoria, ["bad-1"])
    assert found.device.tolist() == [0, 1, 2]
    assert math.isnan(found.utilization[0])
    assert math.isnan(found.utilization[1])
    assert found.utilization[2] == pytest.approx(0.4)
    assert found.faults == ()


def test_nodes_of_other_clusters_are_not_ours(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    for host in ("own-1", "own-10", "other-1", "own-1x"):
        now(victoria, "gpu_gfx_activity", {"gpu_id": "0", "hostname": host}, 5)
    assert len(read(loop_run, victoria, ["own-1"]).device) == 1
    many = ["own-1", *(f"absent-{number}" for number in range(100))]
    assert len(read(loop_run, victoria, many).device) == 1, "nor when there are too many to name"


def test_a_prefix_and_another_label_are_followed(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    now(victoria, "site_gpu_gfx_activity", {"gpu_id": "0", "hostname": "pod-7", "instance": "pre-1:5000"}, 30)
    assert len(read(loop_run, victoria, ["pre-1"]).device) == 0
    found = read(loop_run, victoria, ["pre-1"], Names("site_", "instance"))
    assert found.utilization.tolist() == pytest.approx([0.3])


def test_of_two_names_for_one_quantity_the_first_counts(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    for name, value in (("gpu_utilization", 10), ("gpu_gfx_activity", 20)):
        now(victoria, name, {"gpu_id": "0", "hostname": "twice-1"}, value)
    assert read(loop_run, victoria, ["twice-1"]).utilization.tolist() == pytest.approx([0.2])


@pytest.mark.parametrize("host", ['q"} or vector(1) #', "b\\", "n\nl", "a.*", "(a|b)", "ü[", "tab\t", "%d{{"])
def test_a_node_may_be_called_anything(host: str, victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    now(victoria, "gpu_gfx_activity", {"gpu_id": "0", "hostname": host}, 64)
    now(victoria, "gpu_gfx_activity", {"gpu_id": "1", "hostname": f"not-{host}"}, 65)
    assert read(loop_run, victoria, [host]).utilization.tolist() == pytest.approx([0.64])


def test_a_source_that_dies_says_so_and_is_there_again_when_it_is(
    own_victoria: VictoriaMetrics, loop_run: LoopRun
) -> None:
    now(own_victoria, "gpu_gfx_activity", {"gpu_id": "0", "hostname": "n1"}, 5)
    source = source_of(own_victoria.url.replace("127", "ada:hunter2@127"), ["n1"])
    assert len(loop_run(source.readings()).device) == 1
    own_victoria.stop()
    with pytest.raises(StokerError) as refused:
        loop_run(source.readings())
    assert refused.value.code is ErrorCode.BACKEND_DOWN
    assert own_victoria.url in refused.value.message
    assert "hunter2" not in f"{refused.value.message} {refused.value.hint}"
    own_victoria.start()
    now(own_victoria, "gpu_gfx_activity", {"gpu_id": "0", "hostname": "n1"}, 6)
    assert loop_run(source.readings()).utilization.tolist() == pytest.approx([0.06])
    loop_run(source.close())
