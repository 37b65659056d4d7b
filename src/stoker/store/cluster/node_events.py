"""Which nodes have something wrong with them, and telling webhooks when that changes."""

from collections.abc import Callable, Collection, Iterator

from stoker.domain.node import Node
from stoker.domain.webhooks import EventType, NodeNews, Told, node_event
from stoker.store import clusters, gpu_spans, nodes, outbox, webhooks
from stoker.store.base import Transaction

WELL = "Everything about the node is well again."


def telling(
    transaction: Transaction, cluster_id: str, names: Collection[str], at: int, write: Callable[[], None]
) -> None:
    """Write something about these nodes, and what it means to those who listen, if anybody does."""
    hooks = [
        hook
        for hook in webhooks.enabled(transaction)
        if hook.wants(EventType.NODE_FAULTY, None) or hook.wants(EventType.NODE_RECOVERED, None)
    ]
    if not hooks:
        write()
        return
    before = faults(transaction, cluster_id, names)
    write()
    after = faults(transaction, cluster_id, names)
    outbox.tell(transaction, hooks, _changes(transaction, cluster_id, before, after, at))


def faults(transaction: Transaction, cluster_id: str, names: Collection[str]) -> dict[str, str]:
    """What is wrong with each of these nodes: nothing, if that is empty."""
    said = gpu_spans.reported_of(transaction, cluster_id, names)
    known = nodes.named(transaction, cluster_id, names)
    return {name: (_fault(known[name]) if name in known else "") or said.get(name, "") for name in names}


def _changes(
    transaction: Transaction, cluster_id: str, before: dict[str, str], after: dict[str, str], at: int
) -> Iterator[Told]:
    cluster = clusters.find(transaction, cluster_id)
    for name, fault in after.items():
        if bool(fault) == bool(before[name]):
            continue
        kind = EventType.NODE_FAULTY if fault else EventType.NODE_RECOVERED
        yield node_event(kind, cluster_id, NodeNews(name, cluster.name if cluster else "", fault or WELL), at)


def _fault(node: Node) -> str:
    """The node's own fault before that of one of its GPUs."""
    if node.fault or not node.ready:
        return node.fault or gpu_spans.NOT_READY
    return next((f"GPU {each.index}: {each.fault}" for each in node.devices if each.fault), "")
