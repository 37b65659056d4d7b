"""A harness for each test; what it starts is gone when the test is over, or the test fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.local.harness import Harness

from stoker.engines.local import ContainmentMode
from stoker.engines.local.isolation.containment import probe_namespaces

WALLS = not probe_namespaces()
needs_walls = pytest.mark.skipif(not WALLS, reason="this machine has no namespaces")


@pytest.fixture(params=[pytest.param(ContainmentMode.NAMESPACES, marks=needs_walls), ContainmentMode.SUBREAPER])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """An engine of each kind of containment."""
    made = Harness(tmp_path / "data", request.param)
    yield made
    made.finish()


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[Harness]:
    """An engine with walls."""
    if not WALLS:
        pytest.skip("this machine has no namespaces")
    made = Harness(tmp_path / "data", ContainmentMode.NAMESPACES)
    yield made
    made.finish()


@pytest.fixture
def any_harness(tmp_path: Path) -> Iterator[Harness]:
    """An engine as this machine has it, where containment makes no difference."""
    made = Harness(tmp_path / "data", ContainmentMode.AUTO)
    yield made
    made.finish()
