"""Webhooks and their signing secrets. A replaced secret stays valid for a grace period."""

from collections.abc import Collection

from msgspec import structs

from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.webhooks.model import Webhook, WebhookEventType
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.pagination import fetch_page, where_clause
from stoker.store.sql.select_in import select_in

SELECT = """
SELECT webhook.id, webhook.url, webhook.description, webhook.workspace_id, workspace.name, webhook.events,
       webhook.enabled, webhook.disabled_reason, webhook.created_at, webhook.updated_at
"""
SOURCE = """
FROM webhook
LEFT JOIN workspace ON workspace.id = webhook.workspace_id
"""
BY_ID = f"{SELECT} {SOURCE} WHERE webhook.id = :id"
ENABLED_GLOBAL = f"{SELECT} {SOURCE} WHERE webhook.enabled = 1 AND webhook.workspace_id IS NULL"
ENABLED_OF_WORKSPACES = f"{SELECT} {SOURCE} WHERE webhook.enabled = 1 AND webhook.workspace_id IN (:keys)"
COUNT_OF_WORKSPACE = "SELECT COUNT(*) FROM webhook WHERE workspace_id = :workspace_id"
COUNT_GLOBAL = "SELECT COUNT(*) FROM webhook WHERE workspace_id IS NULL"
ADD = """
INSERT INTO webhook (id, url, description, workspace_id, events, secret, enabled, created_at, updated_at)
VALUES (:id, :url, :description, :workspace_id, :events, :secret, :enabled, :created_at, :updated_at)
"""
UPDATE = """
UPDATE webhook
SET url = :url, description = :description, events = :events, enabled = :enabled,
    disabled_reason = :disabled_because, updated_at = :updated_at
WHERE id = :id
"""
SET_SECRET = """
UPDATE webhook
SET previous_secret = secret, previous_secret_until = :old_until, secret = :secret, updated_at = :at
WHERE id = :id
"""
SECRETS = "SELECT secret, previous_secret, previous_secret_until FROM webhook WHERE id = :id"
DELETE = "DELETE FROM webhook WHERE id = :id"


def find(transaction: Transaction, webhook_id: str) -> Webhook | None:
    row = transaction.fetch_one(BY_ID, {"id": webhook_id})
    return _webhook_from_row(row) if row else None


def enabled_for(transaction: Transaction, workspace_ids: Collection[int] = ()) -> list[Webhook]:
    """The enabled webhooks of these workspaces and of the whole installation."""
    rows = [*transaction.fetch_all(ENABLED_GLOBAL), *select_in(transaction, ENABLED_OF_WORKSPACES, workspace_ids)]
    return sorted((_webhook_from_row(row) for row in rows), key=lambda hook: (hook.created_at, hook.id))


def list_webhooks(
    transaction: Transaction, workspace_id: int | None, manager_id: str | None, page: PageRequest
) -> PageResult[Webhook]:
    """Webhooks of a workspace, or all; with `manager_id` only those of workspaces that this user manages."""
    return fetch_page(
        transaction,
        _webhook_from_row,
        select=SELECT,
        source=SOURCE,
        condition=where_clause(
            "webhook.workspace_id = :workspace_id" if workspace_id is not None else None,
            "webhook.workspace_id IN "
            "(SELECT workspace_id FROM workspace_member WHERE user_id = :user_id AND role = 'manager')"
            if manager_id is not None
            else None,
        ),
        order="webhook.created_at, webhook.id",
        params={"workspace_id": workspace_id, "user_id": manager_id},
        page=page,
    )


def count(transaction: Transaction, workspace_id: int | None) -> int:
    """The number of webhooks of a workspace, or of the whole installation if None."""
    sql = COUNT_GLOBAL if workspace_id is None else COUNT_OF_WORKSPACE
    row = transaction.fetch_one(sql, {"workspace_id": workspace_id})
    return row[0] if row else 0


def add(transaction: Transaction, webhook: Webhook, secret: str) -> None:
    transaction.execute(ADD, {**_params(webhook), "secret": secret})


def update(transaction: Transaction, webhook: Webhook) -> None:
    transaction.execute(UPDATE, _params(webhook))


def set_secret(transaction: Transaction, webhook_id: str, secret: str, at: int, old_until: int) -> None:
    transaction.execute(SET_SECRET, {"id": webhook_id, "secret": secret, "at": at, "old_until": old_until})


def valid_secrets(transaction: Transaction, webhook_id: str, at: int) -> tuple[str, ...]:
    """The secrets that are valid at a time, newest first."""
    row = transaction.fetch_one(SECRETS, {"id": webhook_id})
    if row is None:
        return ()
    current, previous, previous_until = row
    return (current, previous) if previous and at < previous_until else (current,)


def delete(transaction: Transaction, webhook_id: str) -> None:
    """Delete a webhook with all its deliveries."""
    transaction.execute(DELETE, {"id": webhook_id})


def _params(webhook: Webhook) -> dict[str, object]:
    fields = structs.asdict(webhook)
    return {**fields, "events": ",".join(webhook.events), "enabled": int(webhook.enabled)}


def _webhook_from_row(row: Row) -> Webhook:
    return Webhook(
        id=row[0],
        url=row[1],
        description=row[2],
        workspace_id=row[3],
        workspace=row[4],
        events=tuple(WebhookEventType(event) for event in row[5].split(",") if event),
        enabled=bool(row[6]),
        disabled_because=row[7],
        created_at=row[8],
        updated_at=row[9],
    )
