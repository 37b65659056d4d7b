"""Amounts as people read them: shares, watts, bytes, ages."""

from collections.abc import Callable

from stoker.cli.when import SECONDS

NOTHING = "-"
SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def known(amount: float | None, show: Callable[[float], str]) -> str:
    """An amount, or a dash where it is not known."""
    return NOTHING if amount is None else show(amount)


def percent(share: float) -> str:
    return f"{share:.0%}"


def watts(power: float) -> str:
    if power < 1000:
        return f"{power:.0f} W"
    return f"{power / 1000:.1f} kW" if power < 1e6 else f"{power / 1e6:.2f} MW"


def degrees(temperature: float) -> str:
    return f"{temperature:.0f} °C"


def size(amount: float) -> str:
    for unit in SIZES[:-1]:
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} {SIZES[-1]}"


def count(number: float) -> str:
    """A number without digits that say nothing: 8, 2.5."""
    return f"{number:g}"


def age(seconds: int) -> str:
    """The largest unit that fits at least twice: 90s, 5m, 3h, 2d."""
    for unit, length in reversed(SECONDS.items()):
        if seconds >= 2 * length and unit != "w":
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
