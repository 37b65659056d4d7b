"""Webhook events of nodes that become faulty or recover."""

from collections.abc import Callable, Collection, Iterator

from stoker.domain.cluster.node import Node
from stoker.domain.webhooks.model import NodeEventData, WebhookEvent, WebhookEventType, build_node_event
from stoker.store.cluster import clusters, gpu_availability, nodes
from stoker.store.db.base import Transaction
from stoker.store.webhooks import outbox, subscriptions

RECOVERED_MESSAGE = "The node and all its GPUs are healthy again."


def write_with_events(
    transaction: Transaction, cluster_id: str, names: Collection[str], at: int, write: Callable[[], object]
) -> None:
    """Run `write`, which changes these nodes, and enqueue an event for every node that became faulty or recovered."""
    hooks = [
        hook
        for hook in subscriptions.enabled_for(transaction)
        if hook.subscribes_to(WebhookEventType.NODE_FAULTY, None)
        or hook.subscribes_to(WebhookEventType.NODE_RECOVERED, None)
    ]
    if not hooks:
        write()
        return
    before = current_faults(transaction, cluster_id, names)
    write()
    after = current_faults(transaction, cluster_id, names)
    outbox.enqueue(transaction, hooks, _fault_events(transaction, cluster_id, before, after, at))


def current_faults(transaction: Transaction, cluster_id: str, names: Collection[str]) -> dict[str, str]:
    """The fault of each node; empty for a healthy node."""
    known = nodes.by_name(transaction, cluster_id, names)
    return {name: _fault_of(known[name]) if name in known else "" for name in names}


def _fault_events(
    transaction: Transaction, cluster_id: str, before: dict[str, str], after: dict[str, str], at: int
) -> Iterator[WebhookEvent]:
    cluster = clusters.find(transaction, cluster_id)
    for name, fault in after.items():
        if bool(fault) == bool(before[name]):
            continue
        kind = WebhookEventType.NODE_FAULTY if fault else WebhookEventType.NODE_RECOVERED
        yield build_node_event(
            kind, cluster_id, NodeEventData(name, cluster.name if cluster else "", fault or RECOVERED_MESSAGE), at
        )


def _fault_of(node: Node) -> str:
    """The fault of the node or, if it has none, of its first faulty GPU."""
    if node.fault or not node.ready:
        return node.fault or gpu_availability.NODE_NOT_READY_MESSAGE
    return next((f"GPU {device.index}: {device.fault}" for device in node.devices if device.fault), "")
