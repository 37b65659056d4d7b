"""One Docker engine for all tests of a worker; nothing is skipped here."""

from collections.abc import Iterator

import pytest
from tests.engines.docker.daemon import DockerDaemon, running_daemon


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[DockerDaemon]:
    with running_daemon() as daemon:
        yield daemon
