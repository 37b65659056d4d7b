"""Queries put together so that no name in them can be anything but a name."""

import re
from collections.abc import Iterable, Mapping

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_ESCAPED = re.compile('["\\\\\x00-\x1f\x7f]')


def quoted(text: str) -> str:
    """A string of PromQL that holds just this text."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def literally(text: str) -> str:
    """A regular expression that matches just this text."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)


def selector(name: str, matchers: Mapping[str, str]) -> str:
    """The series of a metric; each matcher is a regular expression for the whole of a label's value."""
    inside = ",".join(f"{label}=~{quoted(expression)}" for label, expression in matchers.items())
    return f"{name}{{{inside}}}" if inside else name


def one_of(expressions: Iterable[str]) -> str:
    return "|".join(expressions)


def averaged(expression: str, labels: Iterable[str]) -> str:
    return f"avg by ({', '.join(labels)}) ({expression})"


def summed(expression: str, labels: Iterable[str]) -> str:
    return f"sum by ({', '.join(labels)}) ({expression})"


def first_of(expressions: Iterable[str]) -> str:
    """Of series that more than one of them has, the first one's."""
    return " or ".join(expressions)


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return {"\n": "\\n", '"': '\\"', "\\": "\\\\"}.get(character, f"\\x{ord(character):02x}")
