"""Protects exported text from being evaluated as a formula by spreadsheet programs."""

import re

_FORMULA_PREFIX = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""The last four are the full-width forms of = + - @."""


def escape_formula(text: str) -> str:
    """Prefix text that a spreadsheet would evaluate with an apostrophe."""
    return f"'{text}" if _FORMULA_PREFIX.match(text) else text
