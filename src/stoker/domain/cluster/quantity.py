"""Kubernetes quantities. Arithmetic is exact; only the result is rounded up."""

import functools
import json
import math
import re
from fractions import Fraction

from stoker.domain.errors import StokerError, bad_request

MIB = 2**20
GIB = 2**30
MAX_QUANTITY = 2**63 - 1
MAX_QUANTITY_LENGTH = 64
PARSE_CACHE_SIZE = 4096

_BINARY_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL_EXPONENTS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY_REGEX = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkKMGTPE]?))"
)
# Beyond this exponent no text of 64 characters is in range, so clamping changes no result and keeps 10**exponent small.
_MAX_EXPONENT = 200

_MEMORY_HINT = 'Use a number with Ki, Mi, Gi, Ti or K, M, G, T, for example "256Gi".'
_COUNT_HINT = 'Use a number such as "2", "0.5" or "500m".'


@functools.lru_cache(PARSE_CACHE_SIZE)
def parse_milli(text: str, field: str) -> int:
    """CPUs or GPUs in thousandths, rounded up."""
    value = math.ceil(_parse(text, field, _COUNT_HINT) * 1000)
    if value > MAX_QUANTITY:
        raise _too_large_error(text, field, f"{MAX_QUANTITY}m")
    return value


@functools.lru_cache(PARSE_CACHE_SIZE)
def parse_bytes(text: str, field: str) -> int:
    """Memory in bytes, rounded up."""
    value = math.ceil(_parse(text, field, _MEMORY_HINT))
    if value > MAX_QUANTITY:
        raise _too_large_error(text, field, f"{MAX_QUANTITY} bytes")
    return value


def format_milli(value: int) -> str:
    """Whole units if exact, else thousandths."""
    return str(value // 1000) if value % 1000 == 0 else f"{value}m"


def format_bytes(value: int) -> str:
    """Bytes with the largest binary suffix that is exact."""
    for suffix, size in reversed(_BINARY_SUFFIXES.items()):
        if value and value % size == 0:
            return f"{value // size}{suffix}"
    return str(value)


def humanize_bytes(value: int) -> str:
    """Memory for messages: `64 MiB`, `23.539 GiB`."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{humanize_number(value / size)} {unit}"
    return f"{value} bytes"


def humanize_count(amount: float, noun: str, plural: str = "") -> str:
    """An amount with its noun: `1 GPU`, `0.1 CPU`, `2 GPUs`, `0 GPUs`. The default plural adds an s."""
    return f"{humanize_number(amount)} {noun if 0 < amount <= 1 else plural or f'{noun}s'}"


def humanize_number(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _parse(text: str, field: str, hint: str) -> Fraction:
    if len(text) > MAX_QUANTITY_LENGTH:
        raise bad_request(
            field, f"a quantity has at most {MAX_QUANTITY_LENGTH} characters, this one has {len(text)}. {hint}"
        )
    match = _QUANTITY_REGEX.fullmatch(text)
    if match is None:
        raise bad_request(field, f"{_quote(text)} is not a quantity. {hint}")
    value = Fraction(match["number"]) * _multiplier(match["exponent"], match["suffix"] or "")
    if value < 0:
        raise bad_request(field, f"{_quote(text)} is less than zero. Use 0 or more.")
    return value


def _multiplier(exponent: str | None, suffix: str) -> Fraction:
    if suffix in _BINARY_SUFFIXES:
        return Fraction(_BINARY_SUFFIXES[suffix])
    power = _DECIMAL_EXPONENTS[suffix] if exponent is None else int(exponent)
    return Fraction(10) ** max(-_MAX_EXPONENT, min(_MAX_EXPONENT, power))


def _too_large_error(text: str, field: str, maximum: str) -> StokerError:
    return bad_request(field, f"{_quote(text)} is too large. Use at most {maximum}.")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
