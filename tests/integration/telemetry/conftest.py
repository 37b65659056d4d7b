"""Real time series databases, for tests that read from them or are read by them."""

from collections.abc import Iterator

import pytest
from tests.debian import program
from tests.integration.telemetry.servers import VictoriaMetrics


@pytest.fixture(scope="session")
def victoria_program(pytestconfig: pytest.Config) -> str:
    return program(pytestconfig, "victoria-metrics", "victoria-metrics")


@pytest.fixture(scope="session")
def victoria(victoria_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VictoriaMetrics]:
    """One for all tests, which keep apart by the names of their nodes."""
    server = VictoriaMetrics(victoria_program, tmp_path_factory.mktemp("victoria"))
    yield server
    server.stop()


@pytest.fixture
def own_victoria(victoria_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VictoriaMetrics]:
    """One that a test may kill."""
    server = VictoriaMetrics(victoria_program, tmp_path_factory.mktemp("victoria"))
    yield server
    server.stop()
