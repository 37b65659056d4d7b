"""One installation of each kind for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.safe.lab import QueueLab, RunningLab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueLab]:
    """Nothing runs here; no engine has ever reported."""
    with QueueLab(tmp_path_factory.mktemp("queue") / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(scope="session")
def works(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """What is submitted here is run; tests share it and stop what they started."""
    with RunningLab(tmp_path_factory.mktemp("running") / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture
def any_lab(database_url: str, tmp_path: Path) -> Iterator[QueueLab]:
    """A fresh installation on each kind of database."""
    with QueueLab(tmp_path / "data", database_url) as opened:
        opened.add_staff()
        yield opened
