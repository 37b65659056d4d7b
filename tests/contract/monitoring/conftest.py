"""Installations for the tests of `lens`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.lens.lab import LensLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LensLab]:
    with LensLab(tmp_path / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture
def any_lab(database_url: str, tmp_path: Path) -> Iterator[LensLab]:
    """On each kind of database."""
    with LensLab(tmp_path / "data", database_url) as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests is not a reason to see the picture of before."""
    monkeypatch.setattr("stoker.services.live.PATIENCE_SECONDS", 20.0)
