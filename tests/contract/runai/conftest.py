"""Installations for the tests of the Run:ai contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.runai.harness import RunaiHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RunaiHarness]:
    with RunaiHarness(tmp_path / "data", explain_rate_limit=0) as opened:
        opened.add_staff()
        yield opened


@pytest.fixture
def any_harness(database_url: str, tmp_path: Path) -> Iterator[RunaiHarness]:
    """On each kind of database."""
    with RunaiHarness(tmp_path / "data", database_url, explain_rate_limit=0) as opened:
        opened.add_staff()
        yield opened
