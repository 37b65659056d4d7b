"""The conformance suite on the local engine with containment by namespaces."""

from collections.abc import Iterator

import pytest
from tests.conformance.local_fixture import LocalFixture
from tests.conformance.suite import *  # noqa: F403

from stoker.engines.local import ContainmentMode
from stoker.engines.local.isolation.containment import probe_namespaces

pytestmark = pytest.mark.skipif(bool(probe_namespaces()), reason="this machine has no namespaces")


@pytest.fixture
def engine_fixture() -> Iterator[LocalFixture]:
    made = LocalFixture(ContainmentMode.NAMESPACES)
    yield made
    made.close()
