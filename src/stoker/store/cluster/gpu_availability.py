"""Which GPUs there were, and which of them were faulty, from when to when. Capacity is counted from this."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from stoker.domain.node import Node
from stoker.domain.readings import GpuFault
from stoker.store.base import Transaction
from stoker.store.keys import by_keys

OPEN = """
SELECT device, state, model, memory_bytes, message
FROM gpu_span
WHERE cluster_id = :cluster_id
  AND node = :node
  AND state <> 'reported'
  AND to_at IS NULL
"""
REPORTED = """
SELECT node, device, message
FROM gpu_span
WHERE cluster_id = :cluster_id
  AND state = 'reported'
  AND to_at IS NULL
"""
REPORTED_OF = f"{REPORTED} AND node IN (:keys)"
ADD = """
INSERT INTO gpu_span (cluster_id, node, device, state, from_at, to_at, model, memory_bytes, message)
VALUES (:cluster_id, :node, :device, :state, :at, NULL, :model, :memory_bytes, :message)
ON CONFLICT (cluster_id, node, device, state, from_at) DO UPDATE
SET to_at = NULL, model = excluded.model, memory_bytes = excluded.memory_bytes, message = excluded.message
"""
END = """
UPDATE gpu_span
SET to_at = :at
WHERE cluster_id = :cluster_id
  AND node = :node
  AND device = :device
  AND state = :state
  AND to_at IS NULL
"""
LEAVE = """
UPDATE gpu_span
SET to_at = :at
WHERE cluster_id = :cluster_id
  AND node = :node
  AND to_at IS NULL
"""
DURING = """
SELECT node, device, state, from_at, COALESCE(to_at, :to_at), model, memory_bytes
FROM gpu_span
WHERE cluster_id = :cluster_id
  AND from_at < :to_at
  AND (to_at IS NULL OR to_at > :from_at)
ORDER BY node, device, state, from_at
"""
FIRST = "SELECT MIN(from_at) FROM gpu_span WHERE cluster_id = :cluster_id"
NOT_READY = "The node is not ready."


class SpanState(StrEnum):
    """REPORTED is faulty too: the GPU says so itself, while its node looks well."""

    PRESENT = "present"
    FAULTY = "faulty"
    REPORTED = "reported"


class Span(Struct, frozen=True, gc=False):
    """A GPU that was there, or was faulty, from one moment to another."""

    node: str
    device: int
    state: SpanState
    from_at: int
    to_at: int
    model: str
    memory_bytes: int


def observe(transaction: Transaction, cluster_id: str, nodes: Iterable[Node], at: int) -> None:
    """Follow what these nodes look like now; a GPU that became another one ends and begins."""
    begun: list[dict[str, object]] = []
    over: list[dict[str, object]] = []
    for node in nodes:
        key = {"cluster_id": cluster_id, "node": node.name}
        known = {(row[0], row[1]): (row[2], row[3], row[4]) for row in transaction.all(OPEN, key)}
        wanted = _wanted(node)
        for (device, state), facts in known.items():
            if wanted.get((device, state)) != facts:
                over.append({**key, "device": device, "state": state, "at": at})
        for (device, state), facts in wanted.items():
            if known.get((device, state)) != facts:
                model, memory, message = facts
                place = {**key, "device": device, "state": state, "at": at}
                begun.append({**place, "model": model, "memory_bytes": memory, "message": message})
    transaction.many(END, over)
    transaction.many(ADD, begun)


def report(transaction: Transaction, cluster_id: str, faults: Iterable[GpuFault], at: int) -> None:
    """These GPUs, and no others, say of themselves that they are faulty."""
    key = {"cluster_id": cluster_id, "state": SpanState.REPORTED, "at": at}
    wanted = {(fault.node, fault.device): fault.message for fault in faults}
    known = {(node, device) for node, device, _ in reported(transaction, cluster_id)}
    transaction.many(
        END,
        [{**key, "node": node, "device": device} for node, device in known if (node, device) not in wanted],
    )
    facts = {"model": "", "memory_bytes": 0}
    transaction.many(
        ADD,
        [
            {**key, **facts, "node": node, "device": device, "message": message}
            for (node, device), message in wanted.items()
            if (node, device) not in known
        ],
    )


def reported(transaction: Transaction, cluster_id: str) -> list[tuple[str, int, str]]:
    """Node, GPU and words of everything that GPUs now say is wrong with them."""
    return [(row[0], row[1], row[2]) for row in transaction.all(REPORTED, {"cluster_id": cluster_id})]


def reported_of(transaction: Transaction, cluster_id: str, nodes: Collection[str]) -> dict[str, str]:
    """What GPUs of these nodes now say is wrong with them; one word for each node that has one."""
    return {row[0]: row[2] for row in by_keys(transaction, REPORTED_OF, nodes, {"cluster_id": cluster_id})}


def leave(transaction: Transaction, cluster_id: str, nodes: Iterable[str], at: int) -> None:
    """These nodes have gone, and their GPUs with them."""
    transaction.many(LEAVE, [{"cluster_id": cluster_id, "node": node, "at": at} for node in nodes])


def during(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[Span]:
    """Every span that reaches into this stretch of time; an open one lasts to its end."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at}
    return [Span(row[0], row[1], SpanState(row[2]), *row[3:]) for row in transaction.all(DURING, params)]


def first_at(transaction: Transaction, cluster_id: str) -> int | None:
    """When the cluster had its first GPU."""
    row = transaction.one(FIRST, {"cluster_id": cluster_id})
    return row[0] if row else None


def _wanted(node: Node) -> Mapping[tuple[int, str], tuple[str, int, str]]:
    whole = node.fault or ("" if node.ready else NOT_READY)
    found: dict[tuple[int, str], tuple[str, int, str]] = {}
    for device in node.devices:
        found[device.index, SpanState.PRESENT] = (device.model, device.memory_bytes, "")
        if fault := whole or device.fault:
            found[device.index, SpanState.FAULTY] = (device.model, device.memory_bytes, fault)
    return found
