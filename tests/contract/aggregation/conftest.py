"""Installations for the tests of `aggregation`."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.contract.aggregation.harness import UsageHarness
from tests.postgres import TEMPLATE, PostgresServer


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[UsageHarness]:
    with UsageHarness(tmp_path / "data") as opened:
        yield opened


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared_harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsageHarness]:
    """One on each kind of database, for the tests of a module that only read."""
    folder: Path = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        url = ""
        if request.param == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            url = stack.enter_context(server.database(TEMPLATE))
        yield stack.enter_context(UsageHarness(folder / "data", url))


@pytest.fixture
def any_harness(database_url: str, tmp_path: Path) -> Iterator[UsageHarness]:
    """On each kind of database."""
    with UsageHarness(tmp_path / "data", database_url) as opened:
        yield opened
