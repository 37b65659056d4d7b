import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.store.db.postgres.connection import to_psycopg_sql


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("SELECT :a, :b_2", b"SELECT %(a)s, %(b_2)s"),
        ("WHERE id=:id;", b"WHERE id=%(id)s;"),
        ("SELECT CAST(:n AS BIGINT), :n::bigint", b"SELECT CAST(%(n)s AS BIGINT), %(n)s::bigint"),
        ("SELECT 1::text", b"SELECT 1::text"),
        ("SELECT ':a', 'it''s :b'", b"SELECT ':a', 'it''s :b'"),
        ('SELECT ":a" FROM ":b"', b'SELECT ":a" FROM ":b"'),
        ("SELECT 1 -- not :a\n, :b", b"SELECT 1 -- not :a\n, %(b)s"),
        ("SELECT /* :a\n:b */ :c", b"SELECT /* :a\n:b */ %(c)s"),
        ("SELECT 7 % :m", b"SELECT 7 %% %(m)s"),
        ("LIKE '%:a%' ESCAPE '!' -- 100%", b"LIKE '%%:a%%' ESCAPE '!' -- 100%%"),
        ("SELECT '%s', '%(a)s'", b"SELECT '%%s', '%%(a)s'"),
        ("SELECT 'é', :ä", "SELECT 'é', :ä".encode()),
        ("VALUES (:a,:a)", b"VALUES (%(a)s,%(a)s)"),
    ],
)
def test_only_parameters_are_translated(written: str, sent: bytes) -> None:
    assert to_psycopg_sql(written) == sent


@given(st.text(alphabet=string.ascii_letters + " :%\n*/-,()", max_size=40))
def test_text_inside_a_literal_reaches_the_server_as_it_was_written(text: str) -> None:
    statement = f"SELECT '{text}'"
    assert to_psycopg_sql(statement).decode().replace("%%", "%") == statement


def test_a_statement_is_translated_once() -> None:
    assert to_psycopg_sql("SELECT :once") is to_psycopg_sql("SELECT :once")
