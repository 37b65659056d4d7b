import time

import pytest
from tests.conftest import LoopRun
from tests.engine.webhooks.lab import HookLab

from stoker.store.base import Store


@pytest.fixture
def hooks(store: Store, loop_run: LoopRun) -> HookLab:
    """On each kind of database."""
    lab = HookLab(store, time.time_ns() // 1_000_000)
    loop_run(lab.found())
    return lab
