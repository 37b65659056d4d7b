"""Labs: installations that a test builds and asks in its own process."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.api.lab import Lab


class OpenLab(Protocol):
    def __call__(self, **settings: Any) -> Lab: ...


@pytest.fixture
def open_lab(tmp_path: Path) -> Iterator[OpenLab]:
    """Opens labs on SQLite with settings of the test's choice."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Lab(tmp_path / "data", **settings))


@pytest.fixture
def lab(open_lab: OpenLab) -> Lab:
    """A fresh installation on SQLite."""
    return open_lab()


@pytest.fixture
def any_lab(database_url: str, tmp_path: Path) -> Iterator[Lab]:
    """A fresh installation on each kind of database."""
    with Lab(tmp_path / "data", database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One installation for the tests of a module that leave nothing behind for each other."""
    with Lab(tmp_path_factory.mktemp("lab") / "data") as opened:
        opened.add_staff()
        yield opened
