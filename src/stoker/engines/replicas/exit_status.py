"""Describes how the command of a pod has ended."""

import signal

from stoker.domain.cluster.quantity import humanize_bytes

SIGNAL_BASE = 128
"""A command that was ended by signal n has the exit code 128 + n, as in a shell."""


def signal_of(exit_code: int) -> int | None:
    """The signal that an exit code of a shell or of a container stands for."""
    number = exit_code - SIGNAL_BASE
    return number if number in set(signal.Signals) else None


def describe_exit(exit_code: int, signal_number: int | None) -> str:
    """Empty for success."""
    if signal_number:
        name = signal.Signals(signal_number).name if signal_number in set(signal.Signals) else "unnamed"
        return f"The command was ended by signal {signal_number} ({name})."
    return "" if exit_code == 0 else f"The command ended with exit code {exit_code}."


def describe_out_of_memory(memory_bytes: int) -> str:
    return f"It needed more memory than the {humanize_bytes(memory_bytes)} it asked for. Ask for more."
