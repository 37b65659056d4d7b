"""Webhooks and their deliveries."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from stoker.domain.webhooks.model import DeliveryState, WebhookEventType
from stoker.wire.base import Name, RequestBody, SecretStruct, Text, WireStruct
from stoker.wire.timestamps import Timestamp

Url = Annotated[str, Meta(min_length=1, max_length=2000, description="Where events are sent: https://host/path.")]
Secret = Annotated[
    str, Meta(max_length=100, description="`whsec_` and 24 to 64 bytes in base64; made by the server when left out.")
]
Events = Annotated[
    tuple[WebhookEventType, ...], Meta(max_length=20, description="Which events; none means all of them.")
]
KeepOldSeconds = Annotated[int, Meta(ge=0, le=2_592_000, description="How long the old secret signs too.")]


class WebhookView(WireStruct, frozen=True):
    """Without a workspace it receives events of all workspaces and of nodes."""

    id: str
    url: str
    description: str
    workspace: str | None
    events: tuple[WebhookEventType, ...]
    enabled: bool
    disabled_because: str
    created_at: Timestamp
    updated_at: Timestamp


class NewWebhookView(SecretStruct, frozen=True):
    """`secret` is shown only once."""

    webhook: WebhookView
    secret: str


class DeliveryView(WireStruct, frozen=True):
    """`eventId` is the webhook-id of every attempt; `status` is the receiver's last response."""

    number: int
    event_id: str
    event: WebhookEventType
    at: Timestamp
    state: DeliveryState
    tries: int
    next_try_at: Timestamp | None
    tried_at: Timestamp | None
    status: int | None
    error: str


class CreateWebhook(RequestBody, frozen=True, kw_only=True):
    """Without a workspace, which only admins may leave out, it receives events of all workspaces and of nodes."""

    url: Url
    description: Text = ""
    workspace: Name | None = None
    events: Events = ()
    secret: Secret | None = None


class EditWebhook(RequestBody, frozen=True, kw_only=True):
    url: Url | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class RenewWebhookSecret(RequestBody, frozen=True, kw_only=True):
    secret: Secret | None = None
    keep_old_seconds: KeepOldSeconds = 86_400
