"""Text of others on its way to a spreadsheet: it may be read, it may not be computed."""

import re

_FORMULA = re.compile(r"[=+\-@\t\r]")


def defused(text: str) -> str:
    """A spreadsheet computes what begins with = + - or @, so that gets a ' before it."""
    return f"'{text}" if _FORMULA.match(text) else text
