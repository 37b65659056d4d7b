"""Installations for the tests of the monitoring family."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.monitoring.harness import MonitoringHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[MonitoringHarness]:
    with MonitoringHarness(tmp_path / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture
def any_harness(database_url: str, tmp_path: Path) -> Iterator[MonitoringHarness]:
    """On each kind of database."""
    with MonitoringHarness(tmp_path / "data", database_url) as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for a new version of the view, because the machine may be busy with other tests."""
    monkeypatch.setattr("stoker.services.fleet.live.STALE_WAIT_SECONDS", 20.0)
