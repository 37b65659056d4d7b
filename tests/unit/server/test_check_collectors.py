"""`stoker check` tries the sources of readings."""

from pathlib import Path

import pytest

from stoker.domain.cluster.node import Device
from stoker.domain.diagnostics import CheckStatus
from stoker.domain.settings.schema import Settings
from stoker.engines import gpu_devices
from stoker.server.diagnostics import collectors
from stoker.server.diagnostics.collectors import check_collectors


def test_a_machine_without_gpus_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_devices, "detect", lambda: ())
    gpus, machine = check_collectors(Settings(data_dir=str(tmp_path / "absent")))
    assert (gpus.verdict, gpus.message) == (CheckStatus.OK, "This machine has no GPUs to read.")
    assert machine.verdict is CheckStatus.OK
    assert "RDMA ports" in machine.message
    assert not (tmp_path / "absent").exists()


def test_pretend_gpus_have_nothing_to_read(tmp_path: Path) -> None:
    gpus, _ = check_collectors(Settings(data_dir=str(tmp_path), gpus=3))
    assert (gpus.verdict, gpus.message) == (
        CheckStatus.OK,
        "The 3 GPUs are pretended (gpus): there is nothing to read.",
    )


def test_a_prometheus_that_does_not_answer_is_broken_and_keeps_its_password(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path), prometheus_url="http://ada:hunter2@127.0.0.1:9")
    gpus, _ = check_collectors(settings)
    assert gpus.verdict is CheckStatus.BROKEN
    assert "http://127.0.0.1:9" in gpus.message
    assert "hunter2" not in gpus.message


def test_gpus_that_their_driver_shows_no_more_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_devices, "detect", lambda: (Device(0, "GPU-0", "AMD Instinct MI300X"),))
    monkeypatch.setattr(collectors, "driver_collector", lambda settings, node, clock: None)
    gpus, _ = check_collectors(Settings(data_dir=str(tmp_path)))
    assert (gpus.verdict, gpus.advice) == (CheckStatus.WARNING, "Look at dmesg.")
