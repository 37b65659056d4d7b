"""A harness for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.simulated.harness import Harness


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path / "simulated")
    yield made
    made.finish()
