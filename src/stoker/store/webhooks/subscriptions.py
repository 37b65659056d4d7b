"""Webhooks and the secrets that sign what is sent to them. A secret that was replaced is good for a while longer."""

from collections.abc import Collection

from msgspec import structs

from stoker.domain.listing import Listing, Window
from stoker.domain.webhooks import EventType, Webhook
from stoker.store.base import Row, Transaction
from stoker.store.keys import by_keys
from stoker.store.listing import page, where

SELECT = """
SELECT webhook.id, webhook.url, webhook.description, webhook.workspace_id, workspace.name, webhook.events,
       webhook.enabled, webhook.disabled_because, webhook.created_at, webhook.updated_at
"""
SOURCE = """
FROM webhook
LEFT JOIN workspace ON workspace.id = webhook.workspace_id
"""
BY_ID = f"{SELECT} {SOURCE} WHERE webhook.id = :id"
OF_ALL = f"{SELECT} {SOURCE} WHERE webhook.enabled = 1 AND webhook.workspace_id IS NULL"
OF_SOME = f"{SELECT} {SOURCE} WHERE webhook.enabled = 1 AND webhook.workspace_id IN (:keys)"
COUNT_OF_WORKSPACE = "SELECT COUNT(*) FROM webhook WHERE workspace_id = :workspace_id"
COUNT_OF_NONE = "SELECT COUNT(*) FROM webhook WHERE workspace_id IS NULL"
ADD = """
INSERT INTO webhook (id, url, description, workspace_id, events, secret, enabled, created_at, updated_at)
VALUES (:id, :url, :description, :workspace_id, :events, :secret, :enabled, :created_at, :updated_at)
"""
REPLACE = """
UPDATE webhook
SET url = :url, description = :description, events = :events, enabled = :enabled,
    disabled_because = :disabled_because, updated_at = :updated_at
WHERE id = :id
"""
SET_SECRET = """
UPDATE webhook
SET old_secret = secret, old_secret_until = :old_until, secret = :secret, updated_at = :at
WHERE id = :id
"""
SECRETS = "SELECT secret, old_secret, old_secret_until FROM webhook WHERE id = :id"
DELETE = "DELETE FROM webhook WHERE id = :id"


def find(transaction: Transaction, webhook_id: str) -> Webhook | None:
    row = transaction.one(BY_ID, {"id": webhook_id})
    return _build(row) if row else None


def enabled(transaction: Transaction, workspace_ids: Collection[int] = ()) -> list[Webhook]:
    """All that events of these workspaces are written down for: theirs, and those of the whole installation."""
    rows = [*transaction.all(OF_ALL), *by_keys(transaction, OF_SOME, workspace_ids)]
    return sorted((_build(row) for row in rows), key=lambda hook: (hook.created_at, hook.id))


def browse(transaction: Transaction, workspace_id: int | None, seen_by: str | None, window: Window) -> Listing[Webhook]:
    """Those of a workspace, or all; with `seen_by` only those of workspaces that this user manages."""
    return page(
        transaction,
        _build,
        select=SELECT,
        source=SOURCE,
        condition=where(
            "webhook.workspace_id = :workspace_id" if workspace_id is not None else None,
            "webhook.workspace_id IN (SELECT workspace_id FROM member WHERE user_id = :user_id AND role = 'manager')"
            if seen_by is not None
            else None,
        ),
        order="webhook.created_at, webhook.id",
        params={"workspace_id": workspace_id, "user_id": seen_by},
        window=window,
    )


def count(transaction: Transaction, workspace_id: int | None) -> int:
    """How many a workspace has, or how many are of none."""
    sql = COUNT_OF_NONE if workspace_id is None else COUNT_OF_WORKSPACE
    row = transaction.one(sql, {"workspace_id": workspace_id})
    return row[0] if row else 0


def add(transaction: Transaction, webhook: Webhook, secret: str) -> None:
    transaction.run(ADD, {**_params(webhook), "secret": secret})


def replace(transaction: Transaction, webhook: Webhook) -> None:
    transaction.run(REPLACE, _params(webhook))


def set_secret(transaction: Transaction, webhook_id: str, secret: str, at: int, old_until: int) -> None:
    transaction.run(SET_SECRET, {"id": webhook_id, "secret": secret, "at": at, "old_until": old_until})


def secrets(transaction: Transaction, webhook_id: str, at: int) -> tuple[str, ...]:
    """Those that are good at this moment, the newest first."""
    row = transaction.one(SECRETS, {"id": webhook_id})
    if row is None:
        return ()
    new, old, until = row
    return (new, old) if old and at < until else (new,)


def delete(transaction: Transaction, webhook_id: str) -> None:
    """With everything that is on its way to it."""
    transaction.run(DELETE, {"id": webhook_id})


def _params(webhook: Webhook) -> dict[str, object]:
    fields = structs.asdict(webhook)
    return {**fields, "events": ",".join(webhook.events), "enabled": int(webhook.enabled)}


def _build(row: Row) -> Webhook:
    return Webhook(
        id=row[0],
        url=row[1],
        description=row[2],
        workspace_id=row[3],
        workspace=row[4],
        events=tuple(EventType(event) for event in row[5].split(",") if event),
        enabled=bool(row[6]),
        disabled_because=row[7],
        created_at=row[8],
        updated_at=row[9],
    )
