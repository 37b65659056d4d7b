"""Matches node names in labels of exporters, which may have a domain, a port, or different case."""

import ipaddress
import re
from collections.abc import Iterable

from stoker.telemetry.prometheus.promql import escape_regex

MAX_CACHED_LABELS = 100_000
_PORT = re.compile(r":[0-9]+$")


class NodeMatcher:
    """A label matches a node if they differ only in a domain that one of them has."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._cache: dict[str, str | None] = {}
        self._exact: dict[str, str] = {}
        self._short: dict[str, list[str]] = {}
        for node in nodes:
            self._exact[node.lower()] = node
            self._short.setdefault(short_name(node.lower()), []).append(node)

    def match(self, label: str) -> str | None:
        """The node of a label; None if none or several match."""
        if label not in self._cache:
            if len(self._cache) >= MAX_CACHED_LABELS:
                self._cache.clear()
            self._cache[label] = self._look_up(label)
        return self._cache[label]

    def _look_up(self, label: str) -> str | None:
        name = label.lower()
        for candidate in (name, _PORT.sub("", name)):
            if candidate in self._exact:
                return self._exact[candidate]
            candidates = [
                node
                for node in self._short.get(short_name(candidate), ())
                if short_name(candidate) == candidate or short_name(node) == node
            ]
            if len(candidates) == 1:
                return candidates[0]
        return None


def short_name(name: str) -> str:
    """The name without its domain; an IP address stays whole."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return name


def node_regex(node: str) -> str:
    """A regular expression for every label that matches this node."""
    host = short_name(node)
    if host != node:
        names = f"{escape_regex(node)}|{escape_regex(host)}"
    elif "." in node or ":" in node:
        names = escape_regex(node)
    else:
        names = rf"{escape_regex(node)}(\..*)?"
    return f"(?i:({names})(:[0-9]+)?)"
