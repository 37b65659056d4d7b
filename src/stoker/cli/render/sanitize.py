"""Text of others on its way to a terminal or a spreadsheet: it may be read, it may not drive anything.

A control character becomes `�`. What a job prints keeps its colours on a terminal, and nothing else: no movement of
the cursor, no title, no clipboard. In a pipe it stays as it was printed.
"""

import re

from stoker.domain.spreadsheet import defused

REPLACEMENT = "�"
_RESET = "\x1b[0m"

_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_ALL = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_ALL_BUT_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
_UNESCAPED = re.compile(f"[{_BEYOND_ASCII}]")
_COLOUR_OR_CONTROL = re.compile(
    rf"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # another sequence of the cursor or the screen, whole
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # a title, a clipboard, a device: up to its end
    rf"|[\x00-\x08\x0a-\x1f{_BEYOND_ASCII}]"
)


def printable(text: str) -> str:
    """A name or a message on one line."""
    return _ALL.sub(REPLACEMENT, text)


def paragraph(text: str) -> str:
    """A message of several lines."""
    return _ALL_BUT_LINES.sub(REPLACEMENT, text)


def log_line(text: str) -> str:
    """A line of a log for a terminal: what a bar of progress showed last, in its colours."""
    last = text.rstrip("\r").rpartition("\r")[2]
    shown = _COLOUR_OR_CONTROL.sub(lambda found: found["colour"] or REPLACEMENT, last)
    return shown + _RESET if "\x1b" in shown else shown


def cell(text: str) -> str:
    """A cell of a CSV file."""
    return paragraph(defused(text))


def json_text(encoded: str) -> str:
    """JSON that stays the same and has no control character in it."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded)
