import time

import pytest
from tests.conftest import LoopRun
from tests.integration.webhooks.harness import HookHarness

from stoker.store.db.base import Store


@pytest.fixture
def hooks(store: Store, loop_run: LoopRun) -> HookHarness:
    """On each kind of database."""
    harness = HookHarness(store, time.time_ns() // 1_000_000)
    loop_run(harness.found())
    return harness
