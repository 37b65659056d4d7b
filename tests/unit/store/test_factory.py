import sys
from pathlib import Path

import pytest

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store import open_store
from stoker.store.db.postgres.errors import DatabaseAddress

PLACE = DatabaseAddress(host="db.example", port="5432", database="stoker", user="ann")


@pytest.mark.parametrize("database", ["mysql://u:hunter2@h/d", "sqlite:///x.db", "host=h password=hunter2"])
def test_another_kind_of_database_is_refused_without_repeating_it(database: str, tmp_path: Path) -> None:
    with pytest.raises(StokerError, match="postgresql://user:password@host") as refused:
        open_store(database, tmp_path, pool=4)
    assert refused.value.code is ErrorCode.BAD_REQUEST
    assert refused.value.field == "database"
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "database",
    [
        "postgresql://ann:hunter2@db.example:port/stoker",
        "postgresql://ann:hunter2@db.example/stoker?hunter2=1",
        "postgresql://ann:half@hunter2@db.example/stoker",
        "postgresql://ann:hunter2/x@db.example/stoker",
        "postgresql://ann:hunter2%zz@db.example/stoker",
    ],
)
def test_a_url_that_cannot_be_read_gives_nothing_of_the_password_away(database: str, tmp_path: Path) -> None:
    with pytest.raises(StokerError) as refused:
        open_store(database, tmp_path, pool=4)
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"
    assert "%40" in refused.value.hint


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "stoker.store.db.postgres.store", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StokerError) as refused:
        open_store("postgresql://h/d", tmp_path, pool=4)
    assert "pip install 'stoker[postgres]'" in refused.value.hint


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ('FATAL:  password authentication failed for user "ann"', 'refuses user "ann" with the password given'),
        ("fe_sendauth: no password supplied", 'refuses user "ann"'),
        ('FATAL:  database "stoker" does not exist', 'has no database "stoker"'),
        ("failed to resolve host 'db.example': [Errno -2]", 'host "db.example" of the database cannot be resolved'),
        (
            "Connection refused\n\tIs the server running?",
            "db.example:5432/stoker cannot be reached: Connection refused.",
        ),
        ("connection timeout expired", "cannot be reached: connection timeout expired."),
    ],
)
def test_what_keeps_a_connection_from_being_made_is_said(reason: str, sentence: str) -> None:
    refused = PLACE.unreachable(reason)
    assert sentence in refused.message
    assert refused.code is ErrorCode.UNAVAILABLE
    assert refused.hint


def test_an_old_server_is_refused() -> None:
    refused = PLACE.unsupported(130_017, "UTF8")
    assert refused is not None
    assert "has version 13; Stoker needs 14 or newer" in refused.message
    assert PLACE.unsupported(140_000, "UTF8") is None
