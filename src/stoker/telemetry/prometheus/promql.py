"""Builders of PromQL expressions. All names and values are escaped."""

import re
from collections.abc import Iterable, Mapping

_REGEX_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_ESCAPED = re.compile('["\\\\\x00-\x1f\x7f]')


def quote(text: str) -> str:
    """A PromQL string literal."""
    return '"' + _ESCAPED.sub(_escape_character, text) + '"'


def escape_regex(text: str) -> str:
    """A regular expression that matches only this text."""
    return _REGEX_SPECIAL.sub(lambda found: "\\" + found.group(), text)


def selector(name: str, matchers: Mapping[str, str]) -> str:
    """A vector selector; each matcher is a regular expression for the whole value of a label."""
    inside = ",".join(f"{label}=~{quote(expression)}" for label, expression in matchers.items())
    return f"{name}{{{inside}}}" if inside else name


def alternatives(expressions: Iterable[str]) -> str:
    return "|".join(expressions)


def avg_by(expression: str, labels: Iterable[str]) -> str:
    return f"avg by ({', '.join(labels)}) ({expression})"


def sum_by(expression: str, labels: Iterable[str]) -> str:
    return f"sum by ({', '.join(labels)}) ({expression})"


def max_by(expression: str, labels: Iterable[str]) -> str:
    return f"max by ({', '.join(labels)}) ({expression})"


def or_(expressions: Iterable[str]) -> str:
    """The union; of series with equal labels, that of the first expression counts."""
    return " or ".join(expressions)


def _escape_character(found: re.Match[str]) -> str:
    character = found.group()
    return {"\n": "\\n", '"': '\\"', "\\": "\\\\"}.get(character, f"\\x{ord(character):02x}")
