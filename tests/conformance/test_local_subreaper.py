"""The conformance suite on the local engine with containment by a subreaper."""

from collections.abc import Iterator

import pytest
from tests.conformance.local_fixture import LocalFixture
from tests.conformance.suite import *  # noqa: F403

from stoker.engines.local import ContainmentMode


@pytest.fixture
def engine_fixture() -> Iterator[LocalFixture]:
    made = LocalFixture(ContainmentMode.SUBREAPER)
    yield made
    made.close()
