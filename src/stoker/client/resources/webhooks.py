"""Webhooks and their deliveries."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from stoker.client.resources.operations import ApiResource, F, list_operation, operation
from stoker.domain.webhooks.model import DeliveryState, WebhookEventType
from stoker.wire.webhooks import DeliveryView, NewWebhookView, WebhookView


class WebhooksResource(ApiResource[F]):
    @list_operation("/webhooks")
    def list(self, *, workspace: str = "") -> WebhookView:
        """Webhooks of the workspaces that the caller manages; all of them for an admin."""
        ...

    @operation("POST", "/webhooks", creates=True)
    def create(
        self,
        url: str,
        *,
        description: str = "",
        workspace: str | None = None,
        events: Sequence[WebhookEventType] = (),
        secret: str | None = None,
    ) -> NewWebhookView:
        """Add a webhook. Without a workspace it gets events of all workspaces and nodes; without events, every type."""
        ...

    @operation("GET", "/webhooks/{webhook_id}")
    def get(self, webhook_id: str) -> WebhookView:
        """One webhook."""
        ...

    @operation("PATCH", "/webhooks/{webhook_id}")
    def edit(
        self,
        webhook_id: str,
        *,
        url: str | UnsetType = UNSET,
        description: str | UnsetType = UNSET,
        events: Sequence[WebhookEventType] | UnsetType = UNSET,
        enabled: bool | UnsetType = UNSET,
    ) -> WebhookView:
        """Change the given fields. Disabling a webhook discards its pending deliveries."""
        ...

    @operation("DELETE", "/webhooks/{webhook_id}")
    def delete(self, webhook_id: str) -> None:
        """Remove a webhook with its deliveries."""
        ...

    @operation("POST", "/webhooks/{webhook_id}/secret", creates=True)
    def renew_secret(
        self, webhook_id: str, *, secret: str | None = None, keep_old_seconds: int | UnsetType = UNSET
    ) -> NewWebhookView:
        """Issue a new secret. Deliveries are also signed with the old secret for `keep_old_seconds`."""
        ...

    @operation("POST", "/webhooks/{webhook_id}/test", creates=True)
    def test(self, webhook_id: str) -> DeliveryView:
        """Send a test event. Its outcome is in the list of deliveries."""
        ...

    @list_operation("/webhooks/{webhook_id}/deliveries")
    def deliveries(self, webhook_id: str, *, state: DeliveryState | UnsetType = UNSET) -> DeliveryView:
        """Deliveries of a webhook, newest first; all, or those in one state."""
        ...

    @operation("POST", "/webhooks/{webhook_id}/deliveries/{number}/retry")
    def retry(self, webhook_id: str, number: int) -> DeliveryView:
        """Send an event again, whatever its state."""
        ...
