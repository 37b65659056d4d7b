"""Parses numbers in log lines. Only finite numbers are accepted."""

import math
import re

NUMBER_PATTERN = (
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)|\d{1,24})(?:\.\d{0,24})?|\.\d{1,24})"
    r"(?:[eE][-+]?\d{1,4})?"
)
"""Every repetition is bounded, so that matching time is bounded for any line."""
SUFFIX_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6}
"""Scale suffixes of numbers."""
_NUMBER = re.compile(NUMBER_PATTERN)
_SCALED = re.compile(rf"({NUMBER_PATTERN})([kKM](?![A-Za-z]))?")
MAX_NUMBER_LENGTH = 64


def parse_number(text: str) -> float | None:
    """The value of a text that is one number, with or without quotes."""
    try:
        value = float(text) if len(text) <= MAX_NUMBER_LENGTH else math.nan
    except ValueError:
        bare = text.strip("'\" \t")
        if len(bare) > MAX_NUMBER_LENGTH or not (found := _NUMBER.fullmatch(bare)):
            return None
        value = float(found[0].replace(",", ""))
    return value if math.isfinite(value) else None


def parse_numbers(text: str) -> list[float]:
    """Every number in a short text, such as the two of `654.5/735.1`."""
    found = _SCALED.findall(text[: 4 * MAX_NUMBER_LENGTH])
    values = [float(digits.replace(",", "")) * SUFFIX_SCALES.get(scale, 1.0) for digits, scale in found]
    return [value for value in values if math.isfinite(value)]
