"""Kubernetes quantities, exact: whole numbers and fractions only, rounded up at the very end."""

import functools
import json
import math
import re
from fractions import Fraction

from stoker.domain.errors import StokerError, bad_request

MIB = 2**20
GIB = 2**30
LARGEST = 2**63 - 1
LONGEST = 64
REMEMBERED = 4096
"""Workloads ask for the same few amounts again and again."""

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkKMGTPE]?))"
)
# Past this no text of 64 characters can come back into range, so the answer is the same and 10**exponent stays small.
_EXPONENT_LIMIT = 200

_MEMORY_USE = 'Use a number with Ki, Mi, Gi, Ti or K, M, G, T, for example "256Gi".'
_COUNT_USE = 'Use a number such as "2", "0.5" or "500m".'


@functools.lru_cache(REMEMBERED)
def milli(text: str, field: str) -> int:
    """CPUs or GPUs in thousandths; anything finer is rounded up."""
    value = math.ceil(_parse(text, field, _COUNT_USE) * 1000)
    if value > LARGEST:
        raise _too_large(text, field, f"{LARGEST}m")
    return value


@functools.lru_cache(REMEMBERED)
def bytes_of(text: str, field: str) -> int:
    """Memory in bytes; a part of a byte is rounded up."""
    value = math.ceil(_parse(text, field, _MEMORY_USE))
    if value > LARGEST:
        raise _too_large(text, field, f"{LARGEST} bytes")
    return value


def show_milli(value: int) -> str:
    """Whole units where they are whole, else thousandths."""
    return str(value // 1000) if value % 1000 == 0 else f"{value}m"


def show_bytes(value: int) -> str:
    """The largest binary suffix that loses nothing."""
    for suffix, size in reversed(_BINARY.items()):
        if value and value % size == 0:
            return f"{value // size}{suffix}"
    return str(value)


def spoken_bytes(value: int) -> str:
    """Memory in a sentence: `64 MiB`, `23.539 GiB`."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{spoken_number(value / size)} {unit}"
    return f"{value} bytes"


def spoken_number(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _parse(text: str, field: str, use: str) -> Fraction:
    if len(text) > LONGEST:
        raise bad_request(field, f"a quantity has at most {LONGEST} characters, this one has {len(text)}. {use}")
    found = _GRAMMAR.fullmatch(text)
    if found is None:
        raise bad_request(field, f"{_quoted(text)} is not a quantity. {use}")
    value = Fraction(found["number"]) * _scale(found["exponent"], found["suffix"] or "")
    if value < 0:
        raise bad_request(field, f"{_quoted(text)} is less than zero. Use 0 or more.")
    return value


def _scale(exponent: str | None, suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(_BINARY[suffix])
    power = _DECIMAL[suffix] if exponent is None else int(exponent)
    return Fraction(10) ** max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, power))


def _too_large(text: str, field: str, most: str) -> StokerError:
    return bad_request(field, f"{_quoted(text)} is too large. Use at most {most}.")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
