"""A harness for each test; what it starts is gone when the test is over, or the test fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.docker.daemon import DockerDaemon
from tests.engines.docker.harness import DockerHarness


@pytest.fixture
def harness(docker_daemon: DockerDaemon, tmp_path: Path) -> Iterator[DockerHarness]:
    made = DockerHarness(docker_daemon, tmp_path / "state")
    yield made
    made.finish()
