"""Endpoints for webhooks and their deliveries."""

from typing import Annotated

from msgspec import Meta

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params
from stoker.api.native.mapping import to_page_view
from stoker.api.native.params import Id, PageParams
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.domain.webhooks.model import DeliveryState, Webhook, WebhookDelivery
from stoker.services.webhooks import CreateWebhookInput, IssuedWebhook, UpdateWebhookInput
from stoker.wire.pages import PageView
from stoker.wire.timestamps import to_optional_timestamp, to_timestamp
from stoker.wire.webhooks import (
    CreateWebhook,
    DeliveryView,
    EditWebhook,
    NewWebhookView,
    RenewWebhookSecret,
    WebhookView,
)

EXAMPLE_URL = "https://hooks.example.com/stoker"


class WebhookListParams(PageParams, frozen=True, kw_only=True):
    workspace: Annotated[str, Meta(max_length=63, description="Only those of this workspace.")] = ""


class WebhookPath(Params, frozen=True, kw_only=True):
    id: Id


class DeliveryListParams(PageParams, frozen=True, kw_only=True):
    id: Id
    state: Annotated[DeliveryState | None, Meta(description="Only those in this state.")] = None


class DeliveryPath(Params, frozen=True, kw_only=True):
    id: Id
    number: Annotated[int, Meta(ge=1, le=2**53)]


@endpoint("GET", "/api/stoker/v1/webhooks", family=NATIVE, action=Action.WEBHOOK_LIST, params=WebhookListParams)
async def list_webhooks(call: Call[WebhookListParams]) -> PageView[WebhookView]:
    """Webhooks of the workspaces that the caller manages, oldest first; all of them for an admin."""
    params = call.params
    found = await call.services.webhooks.list_webhooks(call.actor, params.workspace, params.page_request)
    return to_page_view(found, params.page_request, webhook_view)


@endpoint(
    "POST",
    "/api/stoker/v1/webhooks",
    family=NATIVE,
    action=Action.WEBHOOK_CREATE,
    body=CreateWebhook,
    body_example={"url": EXAMPLE_URL, "workspace": "vision", "events": ["workload.failed", "workload.idle"]},
    status=201,
    errors=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    idempotent=True,
    response_headers=("Cache-Control",),
)
async def create_webhook(call: Call[NoParams]) -> NewWebhookView:
    """Add a webhook. Every delivery is signed with its secret."""
    body: CreateWebhook = call.body
    new = CreateWebhookInput(
        url=body.url,
        description=body.description,
        workspace=body.workspace,
        events=body.events,
        secret=body.secret,
    )
    return _new_webhook_view(call, await call.services.webhooks.create(call.actor, new, call.idempotency_key))


@endpoint("GET", "/api/stoker/v1/webhooks/{id}", family=NATIVE, action=Action.WEBHOOK_READ, params=WebhookPath)
async def read_webhook(call: Call[WebhookPath]) -> WebhookView:
    """One webhook."""
    return webhook_view(await call.services.webhooks.read(call.actor, call.params.id))


@endpoint(
    "PATCH",
    "/api/stoker/v1/webhooks/{id}",
    family=NATIVE,
    action=Action.WEBHOOK_UPDATE,
    params=WebhookPath,
    body=EditWebhook,
    body_example={"enabled": True},
)
async def edit_webhook(call: Call[WebhookPath]) -> WebhookView:
    """Change the given fields. Disabling a webhook discards its pending deliveries."""
    body: EditWebhook = call.body
    edit = UpdateWebhookInput(url=body.url, description=body.description, events=body.events, enabled=body.enabled)
    return webhook_view(await call.services.webhooks.update(call.actor, call.params.id, edit))


@endpoint(
    "DELETE",
    "/api/stoker/v1/webhooks/{id}",
    family=NATIVE,
    action=Action.WEBHOOK_DELETE,
    params=WebhookPath,
    status=204,
)
async def delete_webhook(call: Call[WebhookPath]) -> None:
    """Remove a webhook with its deliveries."""
    await call.services.webhooks.delete(call.actor, call.params.id)


@endpoint(
    "POST",
    "/api/stoker/v1/webhooks/{id}/secret",
    family=NATIVE,
    action=Action.WEBHOOK_UPDATE,
    params=WebhookPath,
    body=RenewWebhookSecret,
    body_example={"keepOldSeconds": 3600},
    status=201,
    idempotent=True,
    response_headers=("Cache-Control",),
)
async def renew_webhook_secret(call: Call[WebhookPath]) -> NewWebhookView:
    """Issue a new secret. Deliveries are also signed with the old secret for `keepOldSeconds`."""
    body: RenewWebhookSecret = call.body
    services = call.services.webhooks
    return _new_webhook_view(
        call,
        await services.rotate_secret(
            call.actor, call.params.id, body.secret, body.keep_old_seconds, call.idempotency_key
        ),
    )


@endpoint(
    "POST",
    "/api/stoker/v1/webhooks/{id}/test",
    family=NATIVE,
    action=Action.WEBHOOK_TEST,
    params=WebhookPath,
    status=202,
    errors=(ErrorCode.CONFLICT,),
    idempotent=True,
)
async def test_webhook(call: Call[WebhookPath]) -> DeliveryView:
    """Send a test event. Its outcome is in the list of deliveries."""
    return delivery_view(await call.services.webhooks.send_test(call.actor, call.params.id, call.idempotency_key))


@endpoint(
    "GET",
    "/api/stoker/v1/webhooks/{id}/deliveries",
    family=NATIVE,
    action=Action.WEBHOOK_READ,
    params=DeliveryListParams,
)
async def list_deliveries(call: Call[DeliveryListParams]) -> PageView[DeliveryView]:
    """Deliveries of a webhook, newest first."""
    params = call.params
    found = await call.services.webhooks.list_deliveries(call.actor, params.id, params.page_request, params.state)
    return to_page_view(found, params.page_request, delivery_view)


@endpoint(
    "POST",
    "/api/stoker/v1/webhooks/{id}/deliveries/{number}/retry",
    family=NATIVE,
    action=Action.WEBHOOK_TEST,
    params=DeliveryPath,
    status=202,
    errors=(ErrorCode.CONFLICT,),
)
async def retry_delivery(call: Call[DeliveryPath]) -> DeliveryView:
    """Send an event again, whatever its state."""
    return delivery_view(await call.services.webhooks.retry_delivery(call.actor, call.params.id, call.params.number))


def webhook_view(webhook: Webhook) -> WebhookView:
    return WebhookView(
        webhook.id,
        webhook.url,
        webhook.description,
        webhook.workspace,
        webhook.events,
        webhook.enabled,
        webhook.disabled_because,
        to_timestamp(webhook.created_at),
        to_timestamp(webhook.updated_at),
    )


def delivery_view(delivery: WebhookDelivery) -> DeliveryView:
    return DeliveryView(
        delivery.number,
        delivery.event_id,
        delivery.event,
        to_timestamp(delivery.at),
        delivery.state,
        delivery.tries,
        None if delivery.next_at is None else to_timestamp(max(delivery.next_at, delivery.at)),
        to_optional_timestamp(delivery.tried_at),
        delivery.status,
        delivery.error,
    )


def _new_webhook_view(call: Call[WebhookPath] | Call[NoParams], issued: IssuedWebhook) -> NewWebhookView:
    call.headers.append(("Cache-Control", "no-store"))
    return NewWebhookView(webhook_view(issued.webhook), issued.secret)
