"""The transactional outbox of webhook deliveries.

An event is written in the transaction of the change that caused it, once per subscribed webhook, so there is a
delivery exactly if the change was committed. Without webhooks nothing is written.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.webhooks.model import (
    DeliveryState,
    Webhook,
    WebhookDelivery,
    WebhookEvent,
    WebhookEventType,
    build_workload_event,
    event_type_of,
)
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.pod import Pod
from stoker.store.cluster import clusters
from stoker.store.db.base import Row, Transaction
from stoker.store.identity import workspaces
from stoker.store.sql.pagination import fetch_page, where_clause
from stoker.store.webhooks import subscriptions
from stoker.store.workloads import pods

ADD = """
INSERT INTO webhook_delivery (webhook_id, event_id, event, at, payload, state, attempts, next_attempt_at, error)
VALUES (:webhook_id, :event_id, :event, :at, :payload, 'pending', 0, 0, '')
"""
NEXT_DUE_BY_WEBHOOK = """
SELECT webhook.id, (
    SELECT webhook_delivery.next_attempt_at
    FROM webhook_delivery
    WHERE webhook_delivery.webhook_id = webhook.id
      AND webhook_delivery.state = 'pending'
    ORDER BY webhook_delivery.next_attempt_at, webhook_delivery.number
    LIMIT 1
)
FROM webhook
WHERE webhook.enabled = 1
"""
NEXT_PENDING = """
SELECT webhook_delivery.number, webhook_delivery.event_id, webhook_delivery.payload, webhook_delivery.attempts,
       webhook.url
FROM webhook_delivery
JOIN webhook ON webhook.id = webhook_delivery.webhook_id
WHERE webhook_delivery.webhook_id = :webhook_id
  AND webhook_delivery.state = 'pending'
  AND webhook_delivery.next_attempt_at <= :now
ORDER BY webhook_delivery.next_attempt_at, webhook_delivery.number
LIMIT 1
"""
RECORD_RESULT = """
UPDATE webhook_delivery
SET state = :state, attempts = :tries, next_attempt_at = :next_at, last_attempt_at = :tried_at, status = :status,
    error = :error
WHERE number = :number
  AND state = 'pending'
"""
CANCEL_PENDING = """
UPDATE webhook_delivery
SET state = 'given-up', next_attempt_at = NULL, error = :error
WHERE webhook_id = :webhook_id
  AND state = 'pending'
"""
COLUMNS = "number, webhook_id, event_id, event, at, state, attempts, next_attempt_at, last_attempt_at, status, error"
ADD_RETURNING = f"{ADD} RETURNING {COLUMNS}"
REQUEUE = f"""
UPDATE webhook_delivery
SET state = 'pending', attempts = 0, next_attempt_at = 0
WHERE number = :number
  AND webhook_id = :webhook_id
RETURNING {COLUMNS}
"""


class PendingDelivery(Struct, frozen=True):
    """A delivery that is due, with its URL and the secrets that sign it."""

    number: int
    event_id: str
    payload: bytes
    tries: int
    url: str
    secrets: tuple[str, ...]


class DeliveryResult(Struct, frozen=True):
    """The result of an attempt; `next_at` is the time of the next attempt, or None."""

    state: DeliveryState
    tries: int
    next_at: int | None
    tried_at: int
    status: int | None
    error: str


def enqueue_transitions(transaction: Transaction, changes: Iterable[tuple[Workload, Transition]]) -> None:
    """Enqueue the events of workload transitions for the subscribed webhooks."""
    events = [(kind, change) for before, change in changes if (kind := event_type_of(before, change)) is not None]
    hooks = (
        subscriptions.enabled_for(transaction, {change.workload.workspace_id for _, change in events}) if events else []
    )
    subscribed = [
        (kind, change)
        for kind, change in events
        if any(hook.subscribes_to(kind, change.workload.workspace_id) for hook in hooks)
    ]
    if subscribed:
        enqueue(transaction, hooks, _build_events(transaction, subscribed))


def enqueue(transaction: Transaction, hooks: Sequence[Webhook], events: Iterable[WebhookEvent]) -> None:
    """Enqueue events for those of the webhooks that subscribe to them."""
    rows = [
        _delivery_row(hook, event)
        for event in events
        for hook in hooks
        if hook.subscribes_to(event.type, event.workspace_id)
    ]
    transaction.execute_many(ADD, rows)


def enqueue_one(transaction: Transaction, hook: Webhook, event: WebhookEvent) -> WebhookDelivery:
    """Enqueue an event for one webhook, regardless of its subscription."""
    row = transaction.fetch_one(ADD_RETURNING, _delivery_row(hook, event))
    if row is None:
        raise RuntimeError("the delivery was not inserted")
    return _delivery_from_row(row)


def requeue(transaction: Transaction, webhook_id: str, number: int) -> WebhookDelivery | None:
    """Make a delivery pending again, whatever its state; None if the webhook has no delivery of this number."""
    row = transaction.fetch_one(REQUEUE, {"webhook_id": webhook_id, "number": number})
    return _delivery_from_row(row) if row else None


def next_due_by_webhook(transaction: Transaction) -> dict[str, int]:
    """The time of the next attempt of each webhook with pending deliveries."""
    return {row[0]: row[1] for row in transaction.fetch_all(NEXT_DUE_BY_WEBHOOK) if row[1] is not None}


def next_pending(transaction: Transaction, webhook_id: str, now: int) -> PendingDelivery | None:
    """The oldest delivery of a webhook that is due."""
    row = transaction.fetch_one(NEXT_PENDING, {"webhook_id": webhook_id, "now": now})
    if row is None:
        return None
    number, event_id, payload, tries, url = row
    return PendingDelivery(
        number, event_id, payload.encode(), tries, url, subscriptions.valid_secrets(transaction, webhook_id, now)
    )


def record_result(transaction: Transaction, number: int, result: DeliveryResult) -> None:
    """Record the result of an attempt, unless the delivery was cancelled meanwhile."""
    fields = {name: getattr(result, name) for name in DeliveryResult.__struct_fields__}
    transaction.execute(RECORD_RESULT, {**fields, "number": number})


def cancel_pending(transaction: Transaction, webhook_id: str, reason: str) -> None:
    """Cancel all pending deliveries of a webhook."""
    transaction.execute(CANCEL_PENDING, {"webhook_id": webhook_id, "error": reason})


def list_deliveries(
    transaction: Transaction, webhook_id: str, page: PageRequest, state: DeliveryState | None = None
) -> PageResult[WebhookDelivery]:
    """Deliveries of a webhook, of all states or of one, newest first."""
    return fetch_page(
        transaction,
        _delivery_from_row,
        select=f"SELECT {COLUMNS}",
        source="FROM webhook_delivery",
        condition=where_clause("webhook_id = :webhook_id", "state = :state" if state is not None else None),
        order="number DESC",
        params={"webhook_id": webhook_id, "state": state},
        page=page,
    )


def _build_events(
    transaction: Transaction, subscribed: Sequence[tuple[WebhookEventType, Transition]]
) -> list[WebhookEvent]:
    """Build the payloads. Names and exit codes are only looked up here, for events that have a subscriber."""
    workloads = [change.workload for _, change in subscribed]
    workspace_by_id = {
        workspace_id: workspaces.get(transaction, workspace_id)
        for workspace_id in {workload.workspace_id for workload in workloads}
    }
    cluster_by_id = {
        cluster_id: clusters.find(transaction, cluster_id)
        for cluster_id in {workload.cluster_id for workload in workloads}
    }
    pods_by_workload = pods.of_current_attempt(transaction, [workload.uid for workload in workloads])
    return [
        build_workload_event(
            kind,
            change,
            workspace=workspace.name if (workspace := workspace_by_id[change.workload.workspace_id]) else "",
            cluster=cluster.name if (cluster := cluster_by_id[change.workload.cluster_id]) else "",
            exit_code=_exit_code(pods_by_workload.get(change.workload.uid, ())),
        )
        for kind, change in subscribed
    ]


def _exit_code(attempt: Iterable[Pod]) -> int | None:
    """The first non-zero exit code by rank; 0 if all known codes are 0; None if none is known."""
    codes = [pod.exit_code for pod in sorted(attempt, key=lambda pod: pod.rank) if pod.exit_code is not None]
    return next((code for code in codes if code), 0 if codes else None)


def _delivery_row(hook: Webhook, event: WebhookEvent) -> dict[str, object]:
    return {
        "webhook_id": hook.id,
        "event_id": event.id,
        "event": event.type,
        "at": event.at,
        "payload": event.payload.decode(),
    }


def _delivery_from_row(row: Row) -> WebhookDelivery:
    return WebhookDelivery(
        number=row[0],
        webhook_id=row[1],
        event_id=row[2],
        event=WebhookEventType(row[3]),
        at=row[4],
        state=DeliveryState(row[5]),
        tries=row[6],
        next_at=row[7],
        tried_at=row[8],
        status=row[9],
        error=row[10],
    )
