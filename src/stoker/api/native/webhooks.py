"""Webhooks, and what became of what was sent to them."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import Id, Name, Page, PageParams, Text, Time, moment, paged
from stoker.api.params import NoParams, Params
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode
from stoker.domain.permissions import Action
from stoker.domain.webhooks import Delivery, DeliveryState, EventType, Webhook
from stoker.services.webhooks import IssuedWebhook, NewWebhook, WebhookEdit

Url = Annotated[str, Meta(min_length=1, max_length=2000, description="Where events are sent: https://host/path.")]
Secret = Annotated[
    str, Meta(max_length=100, description="`whsec_` and 24 to 64 bytes in base64; made by the server when left out.")
]
Events = Annotated[tuple[EventType, ...], Meta(max_length=20, description="Which events; none means all of them.")]
Seconds = Annotated[int, Meta(ge=0, le=2_592_000, description="How long the old secret signs too.")]
PLACE = "https://hooks.example.com/stoker"


class WebhookView(Struct, frozen=True, rename="camel"):
    """Without a workspace it is for events of all of them, and of nodes."""

    id: str
    url: str
    description: str
    workspace: str | None
    events: tuple[EventType, ...]
    enabled: bool
    disabled_because: str
    created_at: Time
    updated_at: Time


class NewWebhookView(Struct, frozen=True, rename="camel"):
    """`secret` is shown this once."""

    webhook: WebhookView
    secret: str


class DeliveryView(Struct, frozen=True, rename="camel"):
    """`eventId` is the webhook-id of every try; `status` is what the receiver last answered."""

    number: int
    event_id: str
    event: EventType
    at: Time
    state: DeliveryState
    tries: int
    next_try_at: Time | None
    tried_at: Time | None
    status: int | None
    error: str


class WebhookList(PageParams, frozen=True, kw_only=True):
    workspace: Annotated[str, Meta(max_length=63, description="Only those of this workspace.")] = ""


class WebhookPath(Params, frozen=True, kw_only=True):
    id: Id


class DeliveryList(PageParams, frozen=True, kw_only=True):
    id: Id
    state: Annotated[DeliveryState | None, Meta(description="Only those in this state.")] = None


class DeliveryPath(Params, frozen=True, kw_only=True):
    id: Id
    number: Annotated[int, Meta(ge=1, le=2**53)]


class CreateWebhook(Body, frozen=True, kw_only=True):
    """Without a workspace, which is for admins, it is for events of all of them, and of nodes."""

    url: Url
    description: Text = ""
    workspace: Name | None = None
    events: Events = ()
    secret: Secret | None = None


class EditWebhook(Body, frozen=True, kw_only=True):
    url: Url | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class RenewWebhookSecret(Body, frozen=True, kw_only=True):
    secret: Secret | None = None
    keep_old_seconds: Seconds = 86_400


@endpoint("GET", "/api/stoker/v1/webhooks", family=NATIVE, action=Action.WEBHOOK_LIST, params=WebhookList)
async def list_webhooks(call: Call[WebhookList]) -> Page[WebhookView]:
    """Webhooks of the workspaces that the caller manages; for an admin all, oldest first."""
    asked = call.params
    found = await call.services.webhooks.browse(call.actor, asked.workspace, asked.window)
    return paged(found, asked.window, webhook_view)


@endpoint(
    "POST",
    "/api/stoker/v1/webhooks",
    family=NATIVE,
    action=Action.WEBHOOK_CREATE,
    body=CreateWebhook,
    body_example={"url": PLACE, "workspace": "vision", "events": ["workload.failed", "workload.idle"]},
    status=201,
    errors=(ErrorCode.NOT_FOUND, ErrorCode.STATE_FORBIDS),
    creates=True,
)
async def create_webhook(call: Call[NoParams]) -> NewWebhookView:
    """Add a webhook. Everything that is sent to it is signed with its secret."""
    body: CreateWebhook = call.body
    new = NewWebhook(
        url=body.url,
        description=body.description,
        workspace=body.workspace,
        events=body.events,
        secret=body.secret,
    )
    return _issued(call, await call.services.webhooks.create(call.actor, new, call.once))


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
    """Change what is given. One that is disabled forgets what was on its way to it."""
    body: EditWebhook = call.body
    edit = WebhookEdit(url=body.url, description=body.description, events=body.events, enabled=body.enabled)
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
    """Remove a webhook, with all that was sent to it."""
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
    creates=True,
)
async def renew_webhook_secret(call: Call[WebhookPath]) -> NewWebhookView:
    """Give a webhook a new secret; for a while everything is signed with the old one too."""
    body: RenewWebhookSecret = call.body
    services = call.services.webhooks
    return _issued(
        call,
        await services.renew_secret(call.actor, call.params.id, body.secret, body.keep_old_seconds, call.once),
    )


@endpoint(
    "POST",
    "/api/stoker/v1/webhooks/{id}/test",
    family=NATIVE,
    action=Action.WEBHOOK_TEST,
    params=WebhookPath,
    status=202,
    errors=(ErrorCode.STATE_FORBIDS,),
    creates=True,
)
async def test_webhook(call: Call[WebhookPath]) -> DeliveryView:
    """Send a test event. What came of it is in the list of deliveries."""
    return delivery_view(await call.services.webhooks.test(call.actor, call.params.id, call.once))


@endpoint(
    "GET",
    "/api/stoker/v1/webhooks/{id}/deliveries",
    family=NATIVE,
    action=Action.WEBHOOK_READ,
    params=DeliveryList,
)
async def list_deliveries(call: Call[DeliveryList]) -> Page[DeliveryView]:
    """What was sent to a webhook and what came of it, newest first."""
    asked = call.params
    found = await call.services.webhooks.deliveries(call.actor, asked.id, asked.window, asked.state)
    return paged(found, asked.window, delivery_view)


@endpoint(
    "POST",
    "/api/stoker/v1/webhooks/{id}/deliveries/{number}/retry",
    family=NATIVE,
    action=Action.WEBHOOK_TEST,
    params=DeliveryPath,
    status=202,
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def retry_delivery(call: Call[DeliveryPath]) -> DeliveryView:
    """Send an event again, whatever came of it before."""
    return delivery_view(await call.services.webhooks.retry(call.actor, call.params.id, call.params.number))


def webhook_view(webhook: Webhook) -> WebhookView:
    return WebhookView(
        webhook.id,
        webhook.url,
        webhook.description,
        webhook.workspace,
        webhook.events,
        webhook.enabled,
        webhook.disabled_because,
        rfc3339(webhook.created_at),
        rfc3339(webhook.updated_at),
    )


def delivery_view(delivery: Delivery) -> DeliveryView:
    return DeliveryView(
        delivery.number,
        delivery.event_id,
        delivery.event,
        rfc3339(delivery.at),
        delivery.state,
        delivery.tries,
        None if delivery.next_at is None else rfc3339(max(delivery.next_at, delivery.at)),
        moment(delivery.tried_at),
        delivery.status,
        delivery.error,
    )


def _issued(call: Call[WebhookPath] | Call[NoParams], issued: IssuedWebhook) -> NewWebhookView:
    call.headers.append(("Cache-Control", "no-store"))
    return NewWebhookView(webhook_view(issued.webhook), issued.secret)
