"""Installations for the tests of the Run:ai contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.runai.lab import RunaiLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[RunaiLab]:
    with RunaiLab(tmp_path / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture
def any_lab(database_url: str, tmp_path: Path) -> Iterator[RunaiLab]:
    """On each kind of database."""
    with RunaiLab(tmp_path / "data", database_url) as opened:
        opened.add_staff()
        yield opened
