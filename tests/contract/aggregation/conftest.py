"""Installations for the tests of `aggregation`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.aggregation.lab import UsageLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[UsageLab]:
    with UsageLab(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def any_lab(database_url: str, tmp_path: Path) -> Iterator[UsageLab]:
    """On each kind of database."""
    with UsageLab(tmp_path / "data", database_url) as opened:
        yield opened
