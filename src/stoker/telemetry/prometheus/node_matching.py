"""Nodes as exporters call them: with or without a domain, in any case, and perhaps with a port."""

import ipaddress
import re
from collections.abc import Iterable

from stoker.telemetry.promql import literally

REMEMBERED = 100_000
_PORT = re.compile(r":[0-9]+$")


class NodeNames:
    """A name fits a node if they differ in nothing but a domain that only one of them has."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._known: dict[str, str | None] = {}
        self._exact: dict[str, str] = {}
        self._short: dict[str, list[str]] = {}
        for node in nodes:
            self._exact[node.lower()] = node
            self._short.setdefault(short(node.lower()), []).append(node)

    def find(self, label: str) -> str | None:
        """The node that is meant; None if that is none of ours, or could be several."""
        if label not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[label] = self._look_up(label)
        return self._known[label]

    def _look_up(self, label: str) -> str | None:
        name = label.lower()
        for candidate in (name, _PORT.sub("", name)):
            if candidate in self._exact:
                return self._exact[candidate]
            there = [
                node
                for node in self._short.get(short(candidate), ())
                if short(candidate) == candidate or short(node) == node
            ]
            if len(there) == 1:
                return there[0]
        return None


def short(name: str) -> str:
    """The name without its domain; an address has none."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return name


def expression(node: str) -> str:
    """A regular expression for every name that may mean this node."""
    host = short(node)
    if host != node:
        names = f"{literally(node)}|{literally(host)}"
    elif "." in node or ":" in node:
        names = literally(node)
    else:
        names = rf"{literally(node)}(\..*)?"
    return f"(?i:({names})(:[0-9]+)?)"
