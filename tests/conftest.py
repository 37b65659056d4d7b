"""Fixtures of all tests: an event loop, and a store or a database of both kinds."""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from hypothesis import settings

from stoker.store import open_store
from stoker.store.db.base import Store

T = TypeVar("T")

pytest_plugins = ["tests.postgres"]
pytest.register_assert_rewrite("tests.conformance")

signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it from birth

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=10)
settings.load_profile(os.environ.get("STOKER_TEST_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, so that no worker is left with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


class LoopRun(Protocol):
    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


@pytest.fixture
def loop_run() -> Iterator[LoopRun]:
    """Runs a coroutine to its end, all of one test's on the same loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that jobs can write to: /tmp is private to each pod, and jobs may run as another user."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/var/tmp"))
    folder.chmod(0o777)
    yield folder
    for _ in range(100):  # a job that is still being stopped may write into it
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"something writes into {folder} on and on")


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The value of `--database`: empty for SQLite, and a PostgreSQL with the current schema."""
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def store(database_url: str, tmp_path: Path, loop_run: LoopRun) -> Iterator[Store]:
    """An open store of each kind; use it with `loop_run`."""
    opened = open_store(database_url, tmp_path, pool=8)
    yield opened
    loop_run(opened.close())
