"""What one check found."""

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


SIGNS = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.BROKEN: "✗"}


class Finding(Struct, frozen=True):
    """`advice` is what to do about it."""

    name: str
    verdict: Verdict
    message: str
    advice: str = ""


def ok(name: str, message: str) -> Finding:
    return Finding(name, Verdict.OK, message)


def warning(name: str, message: str, advice: str) -> Finding:
    return Finding(name, Verdict.WARNING, message, advice)


def broken(name: str, message: str, advice: str) -> Finding:
    return Finding(name, Verdict.BROKEN, message, advice)
