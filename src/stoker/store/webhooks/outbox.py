"""Events on their way to webhooks. An event is written in the transaction of the change that it tells about, for every
webhook that wants it: it is there exactly when the change is. Where there are no webhooks nothing is written."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.lifecycle import Change
from stoker.domain.listing import Listing, Window
from stoker.domain.webhooks import Delivery, DeliveryState, EventType, Told, Webhook, event_of, workload_event
from stoker.domain.workload import Pod, Workload
from stoker.store import clusters, pods, webhooks, workspaces
from stoker.store.base import Row, Transaction
from stoker.store.listing import page, where

ADD = """
INSERT INTO webhook_delivery (webhook_id, event_id, event, at, payload, state, tries, next_at, error)
VALUES (:webhook_id, :event_id, :event, :at, :payload, 'pending', 0, 0, '')
"""
FIRST_DUE = """
SELECT webhook.id, (
    SELECT webhook_delivery.next_at
    FROM webhook_delivery
    WHERE webhook_delivery.webhook_id = webhook.id
      AND webhook_delivery.state = 'pending'
    ORDER BY webhook_delivery.next_at, webhook_delivery.number
    LIMIT 1
)
FROM webhook
WHERE webhook.enabled = 1
"""
NEXT = """
SELECT webhook_delivery.number, webhook_delivery.event_id, webhook_delivery.payload, webhook_delivery.tries,
       webhook.url
FROM webhook_delivery
JOIN webhook ON webhook.id = webhook_delivery.webhook_id
WHERE webhook_delivery.webhook_id = :webhook_id
  AND webhook_delivery.state = 'pending'
  AND webhook_delivery.next_at <= :now
ORDER BY webhook_delivery.next_at, webhook_delivery.number
LIMIT 1
"""
RECORD = """
UPDATE webhook_delivery
SET state = :state, tries = :tries, next_at = :next_at, tried_at = :tried_at, status = :status, error = :error
WHERE number = :number
  AND state = 'pending'
"""
GIVE_UP = """
UPDATE webhook_delivery
SET state = 'given-up', next_at = NULL, error = :error
WHERE webhook_id = :webhook_id
  AND state = 'pending'
"""
COLUMNS = "number, webhook_id, event_id, event, at, state, tries, next_at, tried_at, status, error"
ADD_ONE = f"{ADD} RETURNING {COLUMNS}"
AGAIN = f"""
UPDATE webhook_delivery
SET state = 'pending', tries = 0, next_at = 0
WHERE number = :number
  AND webhook_id = :webhook_id
RETURNING {COLUMNS}
"""


class Parcel(Struct, frozen=True):
    """What is to be sent now, and where."""

    number: int
    event_id: str
    payload: bytes
    tries: int
    url: str
    secrets: tuple[str, ...]


class Outcome(Struct, frozen=True):
    """What came of a try; `next_at` is when there is another."""

    state: DeliveryState
    tries: int
    next_at: int | None
    tried_at: int
    status: int | None
    error: str


def tell_changes(transaction: Transaction, changes: Iterable[tuple[Workload, Change]]) -> None:
    """Write down what these changes of workloads are to others."""
    happened = [(kind, change) for before, change in changes if (kind := event_of(before, change)) is not None]
    hooks = webhooks.enabled(transaction, {each.workload.workspace_id for _, each in happened}) if happened else []
    heard = [
        (kind, change)
        for kind, change in happened
        if any(hook.wants(kind, change.workload.workspace_id) for hook in hooks)
    ]
    if heard:
        tell(transaction, hooks, _worded(transaction, heard))


def tell(transaction: Transaction, hooks: Sequence[Webhook], events: Iterable[Told]) -> None:
    """Write events down for those of these webhooks that want them."""
    rows = [_row(hook, event) for event in events for hook in hooks if hook.wants(event.type, event.workspace_id)]
    transaction.many(ADD, rows)


def tell_one(transaction: Transaction, hook: Webhook, event: Told) -> Delivery:
    """Write an event down for one webhook, whatever it wants."""
    row = transaction.one(ADD_ONE, _row(hook, event))
    if row is None:
        raise RuntimeError("an event was not written down")
    return _delivery(row)


def send_again(transaction: Transaction, webhook_id: str, number: int) -> Delivery | None:
    """Begin anew with an event, whatever came of it before; None when the webhook has none of this number."""
    row = transaction.one(AGAIN, {"webhook_id": webhook_id, "number": number})
    return _delivery(row) if row else None


def first_due(transaction: Transaction) -> dict[str, int]:
    """When each webhook that has anything to come is next due."""
    return {row[0]: row[1] for row in transaction.all(FIRST_DUE) if row[1] is not None}


def next_parcel(transaction: Transaction, webhook_id: str, now: int) -> Parcel | None:
    """The oldest that is due for a webhook."""
    row = transaction.one(NEXT, {"webhook_id": webhook_id, "now": now})
    if row is None:
        return None
    number, event_id, payload, tries, url = row
    return Parcel(number, event_id, payload.encode(), tries, url, webhooks.secrets(transaction, webhook_id, now))


def record(transaction: Transaction, number: int, outcome: Outcome) -> None:
    """What came of a try, unless it was given up meanwhile."""
    fields = {name: getattr(outcome, name) for name in Outcome.__struct_fields__}
    transaction.run(RECORD, {**fields, "number": number})


def give_up(transaction: Transaction, webhook_id: str, why: str) -> None:
    """Nothing more goes to this webhook of what was on its way."""
    transaction.run(GIVE_UP, {"webhook_id": webhook_id, "error": why})


def deliveries(
    transaction: Transaction, webhook_id: str, window: Window, state: DeliveryState | None = None
) -> Listing[Delivery]:
    """Of a webhook all, or those in one state; newest first."""
    return page(
        transaction,
        _delivery,
        select=f"SELECT {COLUMNS}",
        source="FROM webhook_delivery",
        condition=where("webhook_id = :webhook_id", "state = :state" if state is not None else None),
        order="number DESC",
        params={"webhook_id": webhook_id, "state": state},
        window=window,
    )


def _worded(transaction: Transaction, heard: Sequence[tuple[EventType, Change]]) -> list[Told]:
    """These events as they are sent, with what is only looked up for those who listen."""
    found = [change.workload for _, change in heard]
    places = {each: workspaces.get(transaction, each) for each in {workload.workspace_id for workload in found}}
    homes = {each: clusters.find(transaction, each) for each in {workload.cluster_id for workload in found}}
    carried = pods.present(transaction, [workload.uid for workload in found])
    return [
        workload_event(
            kind,
            change,
            workspace=place.name if (place := places[change.workload.workspace_id]) else "",
            cluster=home.name if (home := homes[change.workload.cluster_id]) else "",
            exit_code=_exit_code(carried.get(change.workload.uid, ())),
        )
        for kind, change in heard
    ]


def _exit_code(carried: Iterable[Pod]) -> int | None:
    """The first that is not 0; 0 when all that are known are."""
    codes = [pod.exit_code for pod in sorted(carried, key=lambda pod: pod.rank) if pod.exit_code is not None]
    return next((code for code in codes if code), 0 if codes else None)


def _row(hook: Webhook, event: Told) -> dict[str, object]:
    return {
        "webhook_id": hook.id,
        "event_id": event.id,
        "event": event.type,
        "at": event.at,
        "payload": event.payload.decode(),
    }


def _delivery(row: Row) -> Delivery:
    return Delivery(
        number=row[0],
        webhook_id=row[1],
        event_id=row[2],
        event=EventType(row[3]),
        at=row[4],
        state=DeliveryState(row[5]),
        tries=row[6],
        next_at=row[7],
        tried_at=row[8],
        status=row[9],
        error=row[10],
    )
