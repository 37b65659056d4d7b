"""Formats amounts: fractions, watts, bytes, ages."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stoker.cli.input.time_params import SECONDS_PER_UNIT
from stoker.domain.cluster.quantity import humanize_bytes, humanize_count, humanize_number, parse_bytes, parse_milli
from stoker.domain.errors import StokerError

if TYPE_CHECKING:
    from stoker.wire.fleet import FleetView

EMPTY_CELL = "-"
BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def format_optional(amount: float | None, show: Callable[[float], str]) -> str:
    """An amount, or a dash if it is unknown."""
    return EMPTY_CELL if amount is None else show(amount)


def format_percent(share: float) -> str:
    return f"{share:.0%}"


def format_watts(power: float) -> str:
    if power < 1000:
        return f"{power:.0f} W"
    return f"{power / 1000:.1f} kW" if power < 1e6 else f"{power / 1e6:.2f} MW"


def format_celsius(temperature: float) -> str:
    return f"{temperature:.0f} °C"


def format_bytes(amount: float) -> str:
    for unit in BYTE_UNITS[:-1]:
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} {BYTE_UNITS[-1]}"


def format_byte_rate(amount: float) -> str:
    """Bytes per second."""
    return f"{format_bytes(amount)}/s"


def format_number(number: float) -> str:
    """A number without insignificant digits: 8, 2.5."""
    return f"{number:g}"


def format_quantity(quantity: str) -> str:
    """A quantity of CPUs or GPUs as a number: `500m` is 0.5; text that is not a quantity is returned unchanged."""
    amount = _parse_milli(quantity)
    return quantity if amount is None else humanize_number(amount / 1000)


def format_total_gpus(row: Any) -> str:
    """The GPUs of all replicas of a workload."""
    asked = row["resource"]
    amount = _parse_milli(asked["gpu"])
    return asked["gpu"] if amount is None else humanize_number(amount * asked["replica"] / 1000)


def format_replica_gpus(row: Any) -> str:
    """The GPUs of all replicas and, with several replicas, of each."""
    asked = row["resource"]
    each = f" ({format_quantity(asked['gpu'])} for each replica)" if asked["replica"] > 1 else ""
    return f"{format_total_gpus(row)}{each}"


def format_unschedulable_gpus(now: "FleetView") -> str:
    """The number of unschedulable GPUs by cause; empty if there are none."""
    reasons = (
        (now.faulty_gpus, "faulty"),
        (now.not_ready_gpus, "on nodes that are not ready"),
        (now.cordoned_gpus, "on cordoned nodes"),
    )
    return ", ".join(f"{humanize_number(gpus)} {why}" for gpus, why in reasons if gpus)


def format_resource(resource: str, quantity: str) -> str:
    """An amount in a sentence: `12 GPUs`, `0.1 CPU`, `64 GiB of memory`."""
    if resource == "memory":
        return f"{format_resource_cell(resource, quantity)} of memory"
    amount = _parse_milli(quantity)
    noun = resource.upper()
    return f"{quantity} {noun}" if amount is None else humanize_count(amount / 1000, noun)


def format_resource_cell(resource: str, quantity: str | None) -> str:
    """The same for a column whose title names the resource."""
    if quantity is None:
        return EMPTY_CELL
    if resource != "memory":
        return format_quantity(quantity)
    try:
        return humanize_bytes(parse_bytes(quantity, resource))
    except StokerError:
        return quantity


def _parse_milli(quantity: str) -> int | None:
    try:
        return parse_milli(quantity, "")
    except StokerError:
        return None


def format_age(seconds: int) -> str:
    """The largest unit that fits at least twice: 90s, 5m, 3h, 2d."""
    for unit, length in reversed(SECONDS_PER_UNIT.items()):
        if seconds >= 2 * length and unit != "w":
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
