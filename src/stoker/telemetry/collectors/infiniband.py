"""The RDMA ports of the machine and their traffic between two reads."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from stoker.domain.cluster.samples import RdmaSample

_WORD_BYTES = 4
"""The counters of a port are in words of 4 bytes."""


class InfinibandPort(Struct, frozen=True):
    active: bool
    bits_per_second: int
    received_bytes: int
    sent_bytes: int


class InfinibandPorts:
    def __init__(self, node: str, root: Path = Path("/"), now: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._root = root
        self._now = now
        self._last_read: tuple[float, dict[str, InfinibandPort]] = (now(), {})

    def read(self) -> tuple[RdmaSample, ...]:
        """One sample for the machine, or none if it has no ports. A new port, or one whose counters were reset, adds no
        traffic."""
        now, ports = self._now(), dict(read_ports(self._root))
        since, before = self._last_read
        self._last_read = (now, ports)
        if not ports:
            return ()
        pairs = [(port, before[name]) for name, port in ports.items() if name in before]
        seconds = max(now - since, 0.001)
        active = [port for port in ports.values() if port.active]
        return (
            RdmaSample(
                self._node,
                len(ports),
                len(active),
                max(port.bits_per_second for port in active or ports.values()),
                sum(max(port.received_bytes - old.received_bytes, 0) for port, old in pairs) / seconds,
                sum(max(port.sent_bytes - old.sent_bytes, 0) for port, old in pairs) / seconds,
            ),
        )


def read_ports(root: Path) -> Iterator[tuple[str, InfinibandPort]]:
    for folder in sorted(root.glob("sys/class/infiniband/*/ports/*")):
        yield (
            f"{folder.parent.parent.name}/{folder.name}",
            InfinibandPort(
                "ACTIVE" in _read_text(folder / "state"),
                _parse_rate(_read_text(folder / "rate")),
                _read_counter(folder / "counters/port_rcv_data") * _WORD_BYTES,
                _read_counter(folder / "counters/port_xmit_data") * _WORD_BYTES,
            ),
        )


def _parse_rate(rate: str) -> int:
    """`400 Gb/sec (4X NDR)`"""
    number, _, unit = rate.partition(" ")
    try:
        return int(float(number) * 1_000_000_000) if unit.startswith("Gb/sec") else 0
    except ValueError:
        return 0


def _read_counter(file: Path) -> int:
    text = _read_text(file)
    return int(text) if text.isdigit() else 0


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
