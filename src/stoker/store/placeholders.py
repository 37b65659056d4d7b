"""The `:name` parameters of Stoker's SQL as the `%(name)s` that psycopg takes.

Casts, string literals, quoted names and comments keep their text.
"""

import functools
import re

TOKEN = re.compile(
    r"""
      '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | --[^\n]*
    | /\*.*?\*/
    | ::
    | %
    | :(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    """,
    re.VERBOSE | re.DOTALL,
)


@functools.lru_cache(maxsize=1024)
def to_psycopg(sql: str) -> bytes:
    """The statement as psycopg reads it: it looks for `%` everywhere, so each one is doubled."""
    return TOKEN.sub(_translate, sql).encode()


def _translate(token: re.Match[str]) -> str:
    name = token["name"]
    return f"%({name})s" if name else token[0].replace("%", "%%")
