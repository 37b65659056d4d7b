"""Numbers as log lines write them. What is not finite is not a number here."""

import math
import re

NUMBER = (
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)|\d{1,24})(?:\.\d{0,24})?|\.\d{1,24})"
    r"(?:[eE][-+]?\d{1,4})?"
)
"""Every repetition is bounded, so that no line can make it slow."""
SCALES = {"k": 1e3, "K": 1e3, "M": 1e6}
"""What stands right behind a number to say that it is larger."""
_NUMBER = re.compile(NUMBER)
_SCALED = re.compile(rf"({NUMBER})([kKM](?![A-Za-z]))?")
LONGEST = 64


def number(text: str) -> float | None:
    """The value of a text that is one number, in quotes or not."""
    try:
        value = float(text) if len(text) <= LONGEST else math.nan
    except ValueError:
        bare = text.strip("'\" \t")
        if len(bare) > LONGEST or not (found := _NUMBER.fullmatch(bare)):
            return None
        value = float(found[0].replace(",", ""))
    return value if math.isfinite(value) else None


def numbers(text: str) -> list[float]:
    """Every number in a short text, such as the two of `654.5/735.1`."""
    found = _SCALED.findall(text[: 4 * LONGEST])
    values = [float(digits.replace(",", "")) * SCALES.get(scale, 1.0) for digits, scale in found]
    return [value for value in values if math.isfinite(value)]
