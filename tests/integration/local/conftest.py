"""A lab for each test; what it starts is gone when the test is over, or the test fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.local.lab import Lab

from stoker.engines.local import ContainmentMode
from stoker.engines.local.containment import probe

WALLS = not probe()
needs_walls = pytest.mark.skipif(not WALLS, reason="this machine has no namespaces")


@pytest.fixture(params=[pytest.param(ContainmentMode.NAMESPACES, marks=needs_walls), ContainmentMode.SUBREAPER])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """An engine of each kind of containment."""
    made = Lab(tmp_path / "data", request.param)
    yield made
    made.finish()


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[Lab]:
    """An engine with walls."""
    if not WALLS:
        pytest.skip("this machine has no namespaces")
    made = Lab(tmp_path / "data", ContainmentMode.NAMESPACES)
    yield made
    made.finish()


@pytest.fixture
def any_lab(tmp_path: Path) -> Iterator[Lab]:
    """An engine as this machine has it, where containment makes no difference."""
    made = Lab(tmp_path / "data", ContainmentMode.AUTO)
    yield made
    made.finish()
