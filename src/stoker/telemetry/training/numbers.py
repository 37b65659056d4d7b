"""Numbers as log lines write them. What is not finite is not a number here."""

import math
import re

NUMBER = (
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)|\d{1,24})(?:\.\d{0,24})?|\.\d{1,24})"
    r"(?:[eE][-+]?\d{1,4})?"
)
"""Every repetition is bounded, so that no line can make it slow."""
_NUMBER = re.compile(NUMBER)
_LONGEST = 64


def number(text: str) -> float | None:
    """The value of a text that is one number, in quotes or not."""
    try:
        value = float(text) if len(text) <= _LONGEST else math.nan
    except ValueError:
        bare = text.strip("'\" \t")
        if len(bare) > _LONGEST or not (found := _NUMBER.fullmatch(bare)):
            return None
        value = float(found[0].replace(",", ""))
    return value if math.isfinite(value) else None


def numbers(text: str) -> list[float]:
    """Every number in a short text, such as the two of `654.5/735.1`."""
    found = (float(each.replace(",", "")) for each in _NUMBER.findall(text[: 4 * _LONGEST]))
    return [value for value in found if math.isfinite(value)]
