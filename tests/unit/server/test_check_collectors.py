"""`stoker check` tries the sources of readings."""

from pathlib import Path

import pytest

from stoker.domain.node import Device
from stoker.domain.settings import Settings
from stoker.engines.local import devices
from stoker.server.checks import sources
from stoker.server.checks.finding import Verdict
from stoker.server.checks.sources import readings


def test_a_machine_without_gpus_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "found", lambda: ())
    gpus, machine = readings(Settings(data_dir=str(tmp_path / "absent")))
    assert (gpus.verdict, gpus.message) == (Verdict.OK, "This machine has no GPUs to read.")
    assert machine.verdict is Verdict.OK
    assert "RDMA ports" in machine.message
    assert not (tmp_path / "absent").exists()


def test_pretend_gpus_have_nothing_to_read(tmp_path: Path) -> None:
    gpus, _ = readings(Settings(data_dir=str(tmp_path), gpus=3))
    assert (gpus.verdict, gpus.message) == (Verdict.OK, "The 3 GPUs are pretended (gpus): there is nothing to read.")


def test_a_prometheus_that_does_not_answer_is_broken_and_keeps_its_password(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path), prometheus_url="http://ada:hunter2@127.0.0.1:9")
    gpus, _ = readings(settings)
    assert gpus.verdict is Verdict.BROKEN
    assert "http://127.0.0.1:9" in gpus.message
    assert "hunter2" not in gpus.message


def test_gpus_without_their_library_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "found", lambda: (Device(0, "GPU-0", "NVIDIA H100"),))
    monkeypatch.setattr(sources, "driver_source", lambda node, clock: None)
    gpus, _ = readings(Settings(data_dir=str(tmp_path)))
    assert (gpus.verdict, gpus.advice) == (Verdict.WARNING, "pip install 'stoker[nvidia]'")
