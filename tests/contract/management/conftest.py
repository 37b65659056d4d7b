"""One installation of each kind for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.management.harness import QueueHarness, RunningHarness, big_node


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHarness]:
    """Nothing runs here, and no engine has ever reported."""
    with QueueHarness(tmp_path_factory.mktemp("queue") / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(scope="session")
def works(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHarness]:
    """Submitted workloads run here; the tests share it and stop what they started."""
    with RunningHarness(tmp_path_factory.mktemp("running") / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture
def any_harness(database_url: str, tmp_path: Path) -> Iterator[QueueHarness]:
    """A fresh installation on each kind of database."""
    with QueueHarness(tmp_path / "data", database_url) as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(scope="module")
def queue(harness: QueueHarness) -> QueueHarness:
    """The installation with two large nodes, as reported by an engine that does not run."""
    harness.add_nodes(big_node("node-001"), big_node("node-002"))
    return harness
