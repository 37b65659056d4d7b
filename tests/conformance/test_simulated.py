"""The conformance suite on the simulated engine."""

from collections.abc import Iterator

import pytest
from tests.conformance.simulated_fixture import SimulatedFixture
from tests.conformance.suite import *  # noqa: F403


@pytest.fixture
def engine_fixture() -> Iterator[SimulatedFixture]:
    made = SimulatedFixture()
    yield made
    made.close()
