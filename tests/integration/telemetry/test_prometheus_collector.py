"""Readings from a real VictoriaMetrics, filled through its import API as exporters would fill it."""

import math
from collections.abc import Collection

import pytest
from tests.conftest import LoopRun
from tests.integration.telemetry.servers import VictoriaMetrics

from stoker.domain.clock import SystemClock
from stoker.domain.cluster.samples import GpuSamples
from stoker.domain.errors import ErrorCode, StokerError
from stoker.telemetry.collectors.prometheus import PrometheusCollector
from stoker.telemetry.prometheus.client import PrometheusClient
from stoker.telemetry.prometheus.exporter_schemas import MIB, ExporterSchema

DCGM_INT32_BLANK, DCGM_INT64_BLANK = 0x7FFF_FFF0, 0x7FFF_FFFF_FFFF_FFF0


def now(server: VictoriaMetrics, name: str, labels: dict[str, str], value: float, at: int | None = None) -> None:
    """A second ago, as VictoriaMetrics takes the present second for the future."""
    server.put(name, labels, [((at or SystemClock().now()) - 1000, value)])


def source_of(
    url: str, nodes: Collection[str], names: ExporterSchema | None = None, ecc_threshold: int = 1
) -> PrometheusCollector:
    return PrometheusCollector(
        PrometheusClient(url), names or ExporterSchema(), lambda: nodes, SystemClock(), ecc_threshold
    )


def read(
    loop_run: LoopRun,
    server: VictoriaMetrics,
    nodes: Collection[str],
    names: ExporterSchema | None = None,
    ecc_threshold: int = 1,
) -> GpuSamples:
    async def main() -> GpuSamples:
        source = source_of(server.url, nodes, names, ecc_threshold)
        try:
            return await source.collect()
        finally:
            await source.close()

    return loop_run(main())


def test_gpus_of_dcgm_and_of_amd_are_read_in_base_units(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    scraped_at = SystemClock().now()
    labels = {"gpu": "3", "UUID": "GPU-1", "modelName": "NVIDIA H100", "Hostname": "dgx-1", "instance": "x:9400"}
    for name, value in (
        ("DCGM_FI_DEV_GPU_UTIL", 93),
        ("DCGM_FI_DEV_FB_USED", 60_000),
        ("DCGM_FI_DEV_FB_FREE", 20_000),
        ("DCGM_FI_DEV_POWER_USAGE", 612.5),
        ("DCGM_FI_DEV_GPU_TEMP", 71),
        ("DCGM_FI_DEV_XID_ERRORS", 79),
    ):
        now(victoria, name, labels, value, scraped_at)
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


def test_uncorrected_errors_are_a_fault_from_the_threshold_on(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    for gpu, errors in enumerate((0, 1, 3, DCGM_INT32_BLANK, DCGM_INT64_BLANK)):
        now(victoria, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", {"gpu": str(gpu), "Hostname": "ecc-1"}, errors)
        now(victoria, "gpu_ecc_uncorrect_total", {"gpu_id": str(gpu), "hostname": "ecc-2"}, errors)

    def faults(ecc_threshold: int) -> list[tuple[str, int, str]]:
        found = read(loop_run, victoria, ["ecc-1", "ecc-2"], ecc_threshold=ecc_threshold).faults
        return [(fault.node, fault.device, fault.message) for fault in found]

    three = "Its memory had 3 uncorrected errors since its driver started."
    one = "Its memory had 1 uncorrected error since its driver started."
    assert faults(3) == [("ecc-1", 2, three), ("ecc-2", 2, three)]
    assert faults(1) == [("ecc-1", 1, one), ("ecc-1", 2, three), ("ecc-2", 1, one), ("ecc-2", 2, three)]


class TestMemoryTotal:
    """DCGM tells what is used and what is free, and its total only where it is switched on."""

    def put(self, server: VictoriaMetrics, host: str, at: int, **mib: float) -> None:
        for name, value in mib.items():
            server.put(f"DCGM_FI_DEV_FB_{name.upper()}", {"gpu": "0", "Hostname": host}, [(at, value)])

    def test_used_and_free_of_one_scrape_make_it(self, victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
        at = SystemClock().now()
        self.put(victoria, "one-1", at - 30_000, used=10_000, free=70_000)
        self.put(victoria, "one-1", at - 2000, used=60_000, free=20_000)
        assert read(loop_run, victoria, ["one-1"]).memory_total.tolist() == [80_000 * MIB]

    def test_used_and_free_of_different_scrapes_do_not(self, victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
        at = SystemClock().now()
        self.put(victoria, "two-1", at - 30_000, used=10_000, free=70_000)
        self.put(victoria, "two-1", at - 2000, used=60_000)
        found = read(loop_run, victoria, ["two-1"])
        assert found.memory_used.tolist() == [60_000 * MIB]
        assert found.memory_total.tolist() == [0.0], "130,000 MiB is no GPU's; what was known before is kept"

    def test_a_total_that_is_told_counts(self, victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
        self.put(victoria, "told-1", SystemClock().now() - 2000, used=60_000, free=20_000, total=81_559)
        assert read(loop_run, victoria, ["told-1"]).memory_total.tolist() == [81_559 * MIB]


def test_samples_have_the_time_at_which_they_were_scraped(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    scraped_at = SystemClock().now() // 1000 * 1000
    for gpu, name, age in (("0", "UTIL", 45_000), ("1", "UTIL", 2000), ("2", "TEMP", 30_000), ("0", "TEMP", 1000)):
        at = scraped_at - age
        victoria.put(f"DCGM_FI_DEV_GPU_{name}", {"gpu": gpu, "Hostname": "times-1"}, [(at - 60_000, 1), (at, 5)])
    found = read(loop_run, victoria, ["times-1"])
    assert found.sampled_at is not None
    assert (scraped_at - found.sampled_at).tolist() == [45_000, 2000, 30_000], "that of the utilization before others"


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
    found = read(loop_run, victoria, ["pre-1"], ExporterSchema("site_", "instance"))
    assert found.utilization.tolist() == pytest.approx([0.3])


def test_of_two_names_for_one_quantity_the_first_counts(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    for name, value in (("gpu_utilization", 10), ("gpu_gfx_activity", 20)):
        now(victoria, name, {"gpu_id": "0", "hostname": "twice-1"}, value)
    assert read(loop_run, victoria, ["twice-1"]).utilization.tolist() == pytest.approx([0.2])


def test_samples_have_the_uuids_of_their_gpus(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    amd = "72ff740f-0000-1000-804c-3b58bf67050e"
    now(victoria, "DCGM_FI_DEV_GPU_UTIL", {"gpu": "0", "Hostname": "id-1", "UUID": "GPU-1"}, 10)
    now(victoria, "DCGM_FI_DEV_XID_ERRORS", {"gpu": "0", "Hostname": "id-1", "UUID": "GPU-1"}, 79)
    now(victoria, "gpu_gfx_activity", {"gpu_id": "1", "hostname": "id-1", "gpu_uuid": amd}, 20)
    now(victoria, "gpu_package_power", {"gpu_id": "1", "hostname": "id-1"}, 300)
    now(victoria, "gpu_gfx_activity", {"gpu_id": "2", "hostname": "id-1"}, 30)
    found = read(loop_run, victoria, ["id-1"])
    assert found.uuid is not None
    assert found.uuid.tolist() == [b"GPU-1", b"GPU-724c3b58bf67050e", b""]
    assert found.utilization.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert found.power[1] == 300, "a series without the label is of the GPU at its place"
    assert [fault.uuid for fault in found.faults] == ["GPU-1"]


def test_the_newest_sample_of_a_renumbered_gpu_counts(victoria: VictoriaMetrics, loop_run: LoopRun) -> None:
    """The series of the places before the renumbering still exist for a while."""
    at = SystemClock().now()
    for uuid, gpu, value, age in (("X", "0", 1, 60_000), ("Y", "1", 2, 60_000), ("X", "1", 3, 0), ("Y", "0", 4, 0)):
        labels = {"gpu": gpu, "Hostname": "swapped-1", "UUID": uuid}
        now(victoria, "DCGM_FI_DEV_GPU_UTIL", labels, value, at - age)
    found = read(loop_run, victoria, ["swapped-1"])
    assert found.uuid is not None
    assert (found.device.tolist(), found.uuid.tolist()) == ([0, 1], [b"Y", b"X"])
    assert found.utilization.tolist() == pytest.approx([0.04, 0.03])


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
    assert len(loop_run(source.collect()).device) == 1
    own_victoria.stop()
    with pytest.raises(StokerError) as refused:
        loop_run(source.collect())
    assert refused.value.code is ErrorCode.UNAVAILABLE
    assert own_victoria.url in refused.value.message
    assert "hunter2" not in f"{refused.value.message} {refused.value.hint}"
    own_victoria.start()
    now(own_victoria, "gpu_gfx_activity", {"gpu_id": "0", "hostname": "n1"}, 6)
    assert loop_run(source.collect()).utilization.tolist() == pytest.approx([0.06])
    loop_run(source.close())
