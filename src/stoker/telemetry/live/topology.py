"""The nodes of a cluster and their GPUs as arrays, so that a whole fleet is counted at once.

A layout depends on the nodes alone and is made again when one of them changes.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from stoker.domain.node import Node
from stoker.telemetry.roster import Roster, roster_of


class Layout(Struct, frozen=True, eq=False):
    """One row of `healthy` and `gpus` is one node, by name; `node` holds these rows for the GPUs of the roster."""

    nodes: tuple[Node, ...]
    roster: Roster
    row: dict[str, int]
    node: NDArray[np.intp]
    gpus: NDArray[np.int64]
    healthy: NDArray[np.bool_]
    faults: tuple[str, ...]
    """What is wrong with each node, or nothing."""
    models: tuple[tuple[str, ...], ...]
    places: dict[tuple[str, int], int]
    """The row of each GPU in the roster."""


def layout_of(nodes: Iterable[Node], like: Layout | None = None) -> Layout:
    """The layout of these nodes; what has not changed is taken from an earlier one."""
    ordered = tuple(sorted(nodes, key=lambda node: node.name))
    healthy = np.fromiter((node.healthy for node in ordered), bool, len(ordered))
    faults = tuple("" if well else _fault(node) for node, well in zip(ordered, healthy.tolist(), strict=True))
    if like is not None and _same_gpus(like.nodes, ordered):
        return structs.replace(like, nodes=ordered, healthy=healthy, faults=faults)
    roster = roster_of(ordered)
    row = {node.name: place for place, node in enumerate(ordered)}
    rows = np.array([row[name] for name in roster.nodes], np.intp)
    names = [roster.nodes[place] for place in roster.node.tolist()]
    return Layout(
        nodes=ordered,
        roster=roster,
        row=row,
        node=rows[roster.node],
        gpus=np.fromiter((len(node.devices) for node in ordered), np.int64, len(ordered)),
        healthy=healthy,
        faults=faults,
        models=tuple(tuple(dict.fromkeys(device.model for device in node.devices)) for node in ordered),
        places={key: place for place, key in enumerate(zip(names, roster.device.tolist(), strict=True))},
    )


def _fault(node: Node) -> str:
    return node.fault or next((f"GPU {each.index}: {each.fault}" for each in node.devices if each.fault), "")


def _same_gpus(before: tuple[Node, ...], after: tuple[Node, ...]) -> bool:
    return len(before) == len(after) and all(
        old is new
        or (
            old.name == new.name
            and len(old.devices) == len(new.devices)
            and all(
                (a.index, a.model, a.memory_bytes) == (b.index, b.model, b.memory_bytes)
                for a, b in zip(old.devices, new.devices, strict=True)
            )
        )
        for old, new in zip(before, after, strict=True)
    )
