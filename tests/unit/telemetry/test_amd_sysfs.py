"""AMD GPUs from a sysfs tree made for the test, and from a stand-in for amdsmi: there is no hardware behind either."""

import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.conftest import LoopRun

from stoker.domain.clock import SystemClock
from stoker.domain.cluster.samples import GpuSamples
from stoker.engines import gpu_devices
from stoker.telemetry.collectors import amd_smi
from stoker.telemetry.collectors.amd_sysfs import build_amd_collector

GIB = 1024**3
KFD = "sys/class/kfd/kfd/topology/nodes"


def put(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def add_gpu(root: Path, kfd_node: int, minor: int) -> Path:
    """One GPU; its folder is a link to its PCI address, as in a real tree."""
    put(root / KFD / f"{kfd_node}/properties", f"cpu_cores_count 0\nsimd_count 1216\ndrm_render_minor {minor}")
    card = root / f"sys/devices/0000:{minor - 118:02x}:00.0"
    put(card / "gpu_busy_percent", minor - 100)
    put(card / "mem_info_vram_used", minor * GIB)
    put(card / "mem_info_vram_total", 192 * GIB)
    link = root / f"sys/class/drm/renderD{minor}/device"
    link.parent.mkdir(parents=True)
    link.symlink_to(card)
    return card


def read(root: Path, loop_run: LoopRun, ecc_threshold: int = 1) -> GpuSamples:
    source = build_amd_collector("n1", SystemClock(), root, ecc_threshold)
    assert source is not None
    readings = loop_run(source.collect())
    loop_run(source.close())
    return readings


def test_a_machine_without_amd_gpus_has_no_source(tmp_path: Path) -> None:
    put(tmp_path / KFD / "0/properties", "cpu_cores_count 96\nsimd_count 0")
    assert build_amd_collector("n1", SystemClock(), tmp_path) is None


def test_gpus_are_counted_as_jobs_see_them(tmp_path: Path, loop_run: LoopRun) -> None:
    put(tmp_path / KFD / "0/properties", "cpu_cores_count 96\nsimd_count 0")
    for node, minor in ((10, 130), (2, 129), (1, 128)):
        put(add_gpu(tmp_path, node, minor) / "unique_id", f"{minor}")
    found = gpu_devices.detect(tmp_path)
    readings = read(tmp_path, loop_run)
    assert readings.device.tolist() == [device.index for device in found]
    assert [device.uuid for device in found] == [f"GPU-{minor:016x}" for minor in (0x128, 0x129, 0x130)]
    assert readings.utilization.tolist() == pytest.approx([0.28, 0.29, 0.30])
    assert readings.memory_used.tolist() == [128 * GIB, 129 * GIB, 130 * GIB]


def test_sensors_are_read_in_base_units(tmp_path: Path, loop_run: LoopRun) -> None:
    new, old = add_gpu(tmp_path, 1, 128), add_gpu(tmp_path, 2, 129)
    put(new / "hwmon/hwmon4/power1_input", 612_000_000)
    put(new / "hwmon/hwmon4/temp1_label", "edge")
    put(new / "hwmon/hwmon4/temp1_input", 41_000)
    put(new / "hwmon/hwmon4/temp3_label", "junction")
    put(new / "hwmon/hwmon4/temp3_input", 73_000)
    put(old / "hwmon/hwmon7/power1_average", 500_000_000)
    put(old / "hwmon/hwmon7/temp1_input", 39_000)
    readings = read(tmp_path, loop_run)
    assert readings.power.tolist() == [612.0, 500.0]
    assert readings.temperature.tolist() == [73.0, 39.0]
    assert readings.memory_total.tolist() == [192 * GIB, 192 * GIB]


def test_what_cannot_be_read_is_not_known(tmp_path: Path, loop_run: LoopRun) -> None:
    card = add_gpu(tmp_path, 1, 128)
    put(card / "gpu_busy_percent", "busy")
    for name in ("mem_info_vram_used", "mem_info_vram_total"):
        (card / name).unlink()
    readings = read(tmp_path, loop_run)
    assert math.isnan(readings.utilization[0])
    assert math.isnan(readings.memory_used[0])
    assert readings.memory_total[0] == 0
    assert readings.faults == ()


def test_uncorrectable_errors_and_a_gpu_that_vanished_are_faults(tmp_path: Path, loop_run: LoopRun) -> None:
    bad, well, gone = (add_gpu(tmp_path, node, 127 + node) for node in (1, 2, 3))
    put(bad / "ras/umc_err_count", "ue: 2\nce: 7")
    put(bad / "ras/gfx_err_count", "ue: 0\nce: 0")
    put(well / "ras/umc_err_count", "ue: 0\nce: 12")
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    faults = {fault.device: fault.message for fault in read(tmp_path, loop_run).faults}
    assert faults == {0: "Its umc had 2 uncorrectable errors.", 2: "Its driver no longer shows it."}


def test_uncorrectable_errors_are_a_fault_from_the_threshold_on(
    tmp_path: Path, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdSmi("amdsmi"))
    card = add_gpu(tmp_path, 1, 128)
    put(card / "ras/umc_err_count", "ue: 2\nce: 7")
    put(card / "ras/gfx_err_count", "ue: 1\nce: 0")
    found = read(tmp_path, loop_run, ecc_threshold=3).faults
    assert [fault.message for fault in found] == [
        "Its gfx had 1 uncorrectable error.",
        "Its umc had 2 uncorrectable errors.",
    ]
    assert read(tmp_path, loop_run, ecc_threshold=4).faults == ()


class FakeAmdSmi(ModuleType):
    """As much of amdsmi as Stoker asks for."""

    AmdSmiException = RuntimeError
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT=1)
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT=0)

    def amdsmi_init(self) -> None: ...
    def amdsmi_shut_down(self) -> None: ...

    def amdsmi_get_processor_handles(self) -> list[int]:
        return [7]

    def amdsmi_get_gpu_device_bdf(self, handle: int) -> str:
        return "0000:0A:00.0"

    def amdsmi_get_gpu_activity(self, handle: int) -> dict[str, Any]:
        return {"gfx_activity": 77, "umc_activity": 3}

    def amdsmi_get_gpu_vram_usage(self, handle: int) -> dict[str, Any]:
        return {"vram_used": 1024, "vram_total": 196592}

    def amdsmi_get_power_info(self, handle: int) -> dict[str, Any]:
        return {"current_socket_power": "N/A", "average_socket_power": 345}

    def amdsmi_get_temp_metric(self, handle: int, kind: int, metric: int) -> int:
        raise RuntimeError("not supported")

    def amdsmi_get_gpu_total_ecc_count(self, handle: int) -> dict[str, Any]:
        return {"uncorrectable_count": 1}


def test_amdsmi_fills_the_gaps_of_sysfs_only(
    tmp_path: Path, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdSmi("amdsmi"))
    card = add_gpu(tmp_path, 1, 128)
    (card / "mem_info_vram_used").unlink()
    add_gpu(tmp_path, 2, 129)
    readings = read(tmp_path, loop_run)
    assert readings.utilization.tolist() == pytest.approx([0.28, 0.29]), "sysfs comes first"
    assert readings.memory_used[0] == GIB
    assert readings.power[0] == 345.0
    assert math.isnan(readings.temperature[0])
    assert math.isnan(readings.power[1]), "amdsmi does not know this one"
    assert [fault.message for fault in readings.faults] == ["Its memory had 1 uncorrectable error."]


@pytest.mark.parametrize("error", [KeyError("ROCM_PATH"), OSError("libamd_smi.so"), ImportError("amdsmi")])
def test_an_amdsmi_that_cannot_be_imported_is_done_without(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    put(tmp_path / "amdsmi.py", f"raise {error!r}")
    assert amd_smi.load_amd_smi() is None
