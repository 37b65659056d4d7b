"""The conformance suite on a real dockerd."""

from collections.abc import Iterator

import pytest
from tests.conformance.suite import *  # noqa: F403
from tests.engines.docker.daemon import DockerDaemon
from tests.engines.docker.engine_fixture import DockerFixture


@pytest.fixture
def engine_fixture(docker_daemon: DockerDaemon) -> Iterator[DockerFixture]:
    made = DockerFixture(docker_daemon)
    yield made
    made.close()
