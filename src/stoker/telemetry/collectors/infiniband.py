"""The RDMA ports of this machine, and what goes through them from one look to the next."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from stoker.domain.readings import Rdma

_WORD_BYTES = 4
"""Ports count words, not bytes."""


class Port(Struct, frozen=True):
    active: bool
    bits_per_second: int
    received_bytes: int
    sent_bytes: int


class Ports:
    def __init__(self, node: str, root: Path = Path("/"), now: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._root = root
        self._now = now
        self._before: tuple[float, dict[str, Port]] = (now(), {})

    def read(self) -> tuple[Rdma, ...]:
        """One row, or none where there are no ports. A port that is new, or counts from 0 again, adds no rate."""
        now, ports = self._now(), dict(ports_of(self._root))
        since, before = self._before
        self._before = (now, ports)
        if not ports:
            return ()
        pairs = [(port, before[name]) for name, port in ports.items() if name in before]
        seconds = max(now - since, 0.001)
        active = [port for port in ports.values() if port.active]
        return (
            Rdma(
                self._node,
                len(ports),
                len(active),
                max(port.bits_per_second for port in active or ports.values()),
                sum(max(port.received_bytes - old.received_bytes, 0) for port, old in pairs) / seconds,
                sum(max(port.sent_bytes - old.sent_bytes, 0) for port, old in pairs) / seconds,
            ),
        )


def ports_of(root: Path) -> Iterator[tuple[str, Port]]:
    for folder in sorted(root.glob("sys/class/infiniband/*/ports/*")):
        yield (
            f"{folder.parent.parent.name}/{folder.name}",
            Port(
                "ACTIVE" in _text(folder / "state"),
                _bits_per_second(_text(folder / "rate")),
                _count(folder / "counters/port_rcv_data") * _WORD_BYTES,
                _count(folder / "counters/port_xmit_data") * _WORD_BYTES,
            ),
        )


def _bits_per_second(rate: str) -> int:
    """`400 Gb/sec (4X NDR)`"""
    number, _, unit = rate.partition(" ")
    try:
        return int(float(number) * 1_000_000_000) if unit.startswith("Gb/sec") else 0
    except ValueError:
        return 0


def _count(file: Path) -> int:
    text = _text(file)
    return int(text) if text.isdigit() else 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
