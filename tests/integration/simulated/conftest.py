"""A lab for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.simulated.lab import Lab


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path / "simulated")
    yield made
    made.finish()
