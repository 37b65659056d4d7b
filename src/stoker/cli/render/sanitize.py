"""Sanitizes untrusted text for terminals and spreadsheets, so that it is displayed but not interpreted.

Control characters become `�`. Log lines keep their colours on a terminal but no other escape sequences: no cursor
movement, title or clipboard. In a pipe they are unchanged.
"""

import re

from stoker.domain.spreadsheet import escape_formula

REPLACEMENT = "�"
_RESET = "\x1b[0m"

_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_CONTROL = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_CONTROL_EXCEPT_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
_UNESCAPED = re.compile(f"[{_BEYOND_ASCII}]")
_COLOUR_OR_CONTROL = re.compile(
    rf"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # other cursor and screen sequences
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboard and device sequences up to their end
    rf"|[\x00-\x08\x0a-\x1f{_BEYOND_ASCII}]"
)


def sanitize_line(text: str) -> str:
    """A name or message on one line."""
    return _CONTROL.sub(REPLACEMENT, text)


def sanitize_paragraph(text: str) -> str:
    """A message of several lines."""
    return _CONTROL_EXCEPT_LINES.sub(REPLACEMENT, text)


def sanitize_log_line(text: str) -> str:
    """A log line for a terminal: the last state of a progress bar, with its colours."""
    last = text.rstrip("\r").rpartition("\r")[2]
    shown = _COLOUR_OR_CONTROL.sub(lambda found: found["colour"] or REPLACEMENT, last)
    return shown + _RESET if "\x1b" in shown else shown


def sanitize_csv_cell(text: str) -> str:
    """A cell of a CSV file."""
    return sanitize_paragraph(escape_formula(text))


def escape_json(encoded: str) -> str:
    """JSON with control characters escaped; its value is unchanged."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded)
