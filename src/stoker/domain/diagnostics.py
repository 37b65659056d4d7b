"""The findings of a check: what was found, and what to do about it."""

from enum import StrEnum

from msgspec import Struct


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


STATUS_SIGNS = {CheckStatus.OK: "✓", CheckStatus.WARNING: "!", CheckStatus.BROKEN: "✗"}


class Finding(Struct, frozen=True):
    """`advice` is how to fix the problem."""

    name: str
    verdict: CheckStatus
    message: str
    advice: str = ""


def ok(name: str, message: str) -> Finding:
    return Finding(name, CheckStatus.OK, message)


def warning(name: str, message: str, advice: str) -> Finding:
    return Finding(name, CheckStatus.WARNING, message, advice)


def broken(name: str, message: str, advice: str) -> Finding:
    return Finding(name, CheckStatus.BROKEN, message, advice)
