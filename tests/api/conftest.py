"""Installations in the test's own process."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.api.harness import Harness


class OpenHarness(Protocol):
    def __call__(self, **settings: Any) -> Harness: ...


@pytest.fixture
def open_harness(tmp_path: Path) -> Iterator[OpenHarness]:
    """Opens installations on SQLite with the given settings."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Harness(tmp_path / "data", **settings))


@pytest.fixture
def harness(open_harness: OpenHarness) -> Harness:
    """A fresh installation on SQLite."""
    return open_harness()


@pytest.fixture
def any_harness(database_url: str, tmp_path: Path) -> Iterator[Harness]:
    """A fresh installation on each kind of database."""
    with Harness(tmp_path / "data", database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """One installation for the tests of a module that do not affect each other."""
    with Harness(tmp_path_factory.mktemp("harness") / "data") as opened:
        opened.add_staff()
        yield opened
