"""Webhook subscriptions and their deliveries.

A workspace manager manages the webhooks of its workspace, an admin those of all workspaces and of the installation.
"""

import asyncio

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target
from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.names import new_uuid4
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.webhooks.model import (
    MAX_WEBHOOKS,
    DeliveryState,
    PingEventData,
    Webhook,
    WebhookDelivery,
    WebhookEventType,
    build_event,
    derive_event_id,
)
from stoker.domain.webhooks.signatures import check_secret, encode_secret
from stoker.domain.webhooks.targets import ResolveHost, check_resolved_addresses, parse_target
from stoker.services.context import Context, authorise, record_audit
from stoker.services.idempotency import IdempotencyKey, SaltedResult, derive_secret, idempotent, new_salt
from stoker.services.identity.workspaces import get_visible_workspace
from stoker.store.db.base import Transaction
from stoker.store.webhooks import outbox, subscriptions

RESOLVE_TIMEOUT_SECONDS = 3.0
"""How long the DNS lookup of a new target may take; the sender resolves the name again for each delivery."""
DISABLED_REASON = "The webhook was disabled."


class CreateWebhookInput(Struct, frozen=True, kw_only=True):
    """Without a workspace, it gets the events of all workspaces and of nodes; without event types, all of them."""

    url: str
    description: str = ""
    workspace: str | None = None
    events: tuple[WebhookEventType, ...] = ()
    secret: str | None = None


class UpdateWebhookInput(Struct, frozen=True, kw_only=True):
    """UNSET fields keep their value."""

    url: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    events: tuple[WebhookEventType, ...] | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class IssuedWebhook(Struct, frozen=True):
    """A new secret; it is shown only once."""

    webhook: Webhook
    secret: str


class WebhookService:
    def __init__(self, context: Context, resolve: ResolveHost) -> None:
        self._context = context
        self._resolve = resolve

    async def list_webhooks(self, actor: Actor, workspace: str, window: PageRequest) -> PageResult[Webhook]:
        """An admin sees all webhooks, other callers those of the workspaces they manage."""
        authorise(actor, Action.WEBHOOK_LIST)

        def query(transaction: Transaction) -> PageResult[Webhook]:
            workspace_id = get_visible_workspace(transaction, actor, workspace).id if workspace else None
            return subscriptions.list_webhooks(
                transaction, workspace_id, None if actor.admin else actor.user_id, window
            )

        return await self._context.store.read(query)

    async def read(self, actor: Actor, webhook_id: str) -> Webhook:
        return await self._context.store.read_inline(
            lambda tx: _get_visible(tx, actor, webhook_id, Action.WEBHOOK_READ)
        )

    async def create(self, actor: Actor, new: CreateWebhookInput, once: IdempotencyKey | None = None) -> IssuedWebhook:
        await self._context.store.read_inline(lambda tx: _authorise_workspace(tx, actor, new.workspace))
        await self._check_target(new.url)
        _check_events(new.events, new.workspace is not None)
        if new.secret is not None:
            check_secret(new.secret, "secret")

        def change(transaction: Transaction) -> SaltedResult[Webhook]:
            workspace_id = _authorise_workspace(transaction, actor, new.workspace)
            if subscriptions.count(transaction, workspace_id) >= MAX_WEBHOOKS:
                whose = f'Workspace "{new.workspace}"' if new.workspace is not None else "The installation"
                message = f"{whose} has {MAX_WEBHOOKS} webhooks already. Delete one first."
                raise StokerError(ErrorCode.CONFLICT, message)
            now, salt = self._context.clock.now(), new_salt(self._context)
            added = Webhook(
                id=new_uuid4(self._context.randomness),
                url=new.url,
                description=new.description,
                workspace_id=workspace_id,
                workspace=new.workspace,
                events=tuple(sorted(set(new.events))),
                enabled=True,
                disabled_because="",
                created_at=now,
                updated_at=now,
            )
            subscriptions.add(transaction, added, self._derive_secret(new.secret, once, salt))
            record_audit(
                self._context, transaction, actor, Action.WEBHOOK_CREATE, added.id, f"to {_display_host(new.url)}"
            )
            return SaltedResult(added, salt)

        created = await self._context.store.write(idempotent(self._context, actor, once, SaltedResult[Webhook], change))
        return IssuedWebhook(created.result, self._derive_secret(new.secret, once, created.salt))

    async def update(self, actor: Actor, webhook_id: str, edit: UpdateWebhookInput) -> Webhook:
        """Change a webhook; disabling it cancels its pending deliveries."""
        found = await self._context.store.read_inline(
            lambda tx: _get_visible(tx, actor, webhook_id, Action.WEBHOOK_UPDATE)
        )
        if edit.url is not UNSET and edit.url != found.url:
            await self._check_target(edit.url)
        if edit.events is not UNSET:
            _check_events(edit.events, found.workspace_id is not None)

        def change(transaction: Transaction) -> Webhook:
            before = _get_visible(transaction, actor, webhook_id, Action.WEBHOOK_UPDATE)
            changes = {field: value for field, value in structs.asdict(edit).items() if value is not UNSET}
            if "events" in changes:
                changes["events"] = tuple(sorted(set(changes["events"])))
            after = structs.replace(before, **changes, updated_at=self._context.clock.now())
            if after.enabled:
                after = structs.replace(after, disabled_because="")
            elif before.enabled:
                after = structs.replace(after, disabled_because=f"{actor.name} disabled it.")
                outbox.cancel_pending(transaction, webhook_id, DISABLED_REASON)
            subscriptions.update(transaction, after)
            recorded = {**changes, **({"url": _display_host(after.url)} if "url" in changes else {})}
            detail = ", ".join(f"{field}={value}" for field, value in sorted(recorded.items()))
            record_audit(self._context, transaction, actor, Action.WEBHOOK_UPDATE, webhook_id, detail)
            return after

        return await self._context.store.write(change)

    async def rotate_secret(
        self,
        actor: Actor,
        webhook_id: str,
        secret: str | None,
        keep_old_seconds: int,
        once: IdempotencyKey | None = None,
    ) -> IssuedWebhook:
        """Set a new secret; for `keep_old_seconds` deliveries are signed with the old secret too."""
        if secret is not None:
            check_secret(secret, "secret")

        def change(transaction: Transaction) -> SaltedResult[Webhook]:
            found = _get_visible(transaction, actor, webhook_id, Action.WEBHOOK_UPDATE)
            now, salt = self._context.clock.now(), new_salt(self._context)
            until = now + keep_old_seconds * 1000
            subscriptions.set_secret(transaction, webhook_id, self._derive_secret(secret, once, salt), now, until)
            record_audit(self._context, transaction, actor, Action.WEBHOOK_UPDATE, webhook_id, "new secret")
            return SaltedResult(structs.replace(found, updated_at=now), salt)

        created = await self._context.store.write(idempotent(self._context, actor, once, SaltedResult[Webhook], change))
        return IssuedWebhook(created.result, self._derive_secret(secret, once, created.salt))

    async def delete(self, actor: Actor, webhook_id: str) -> None:
        def change(transaction: Transaction) -> None:
            found = _get_visible(transaction, actor, webhook_id, Action.WEBHOOK_DELETE)
            subscriptions.delete(transaction, webhook_id)
            record_audit(
                self._context, transaction, actor, Action.WEBHOOK_DELETE, webhook_id, f"to {_display_host(found.url)}"
            )

        await self._context.store.write(change)

    async def send_test(self, actor: Actor, webhook_id: str, once: IdempotencyKey | None = None) -> WebhookDelivery:
        """Enqueue a test event; it is delivered like any other event."""

        def change(transaction: Transaction) -> WebhookDelivery:
            found = _get_enabled(transaction, actor, webhook_id)
            now = self._context.clock.now()
            event = build_event(
                derive_event_id(new_uuid4(self._context.randomness)),
                WebhookEventType.TEST,
                now,
                None,
                PingEventData(found.id),
            )
            record_audit(self._context, transaction, actor, Action.WEBHOOK_TEST, webhook_id)
            return outbox.enqueue_one(transaction, found, event)

        sent = await self._context.store.write(idempotent(self._context, actor, once, WebhookDelivery, change))
        self._context.notifier.notify()
        return sent

    async def list_deliveries(
        self, actor: Actor, webhook_id: str, window: PageRequest, state: DeliveryState | None = None
    ) -> PageResult[WebhookDelivery]:
        """Deliveries of a webhook, optionally of one state, newest first."""

        def query(transaction: Transaction) -> PageResult[WebhookDelivery]:
            _get_visible(transaction, actor, webhook_id, Action.WEBHOOK_READ)
            return outbox.list_deliveries(transaction, webhook_id, window, state)

        return await self._context.store.read(query)

    async def retry_delivery(self, actor: Actor, webhook_id: str, number: int) -> WebhookDelivery:
        """Enqueue a delivery again with a full number of tries."""

        def change(transaction: Transaction) -> WebhookDelivery:
            _get_enabled(transaction, actor, webhook_id)
            requeued = outbox.requeue(transaction, webhook_id, number)
            if requeued is None:
                raise not_found("delivery", str(number))
            record_audit(self._context, transaction, actor, Action.WEBHOOK_TEST, webhook_id, f"delivery {number} again")
            return requeued

        sent = await self._context.store.write(change)
        self._context.notifier.notify()
        return sent

    async def _check_target(self, url: str) -> None:
        """Check the addresses of a target; a name that cannot be resolved yet is checked at each delivery."""
        private = self._context.settings.webhook_private_targets
        target = parse_target(url, private=private)
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
                addresses = await self._resolve(target.host, target.port)
        except (OSError, TimeoutError):
            return
        check_resolved_addresses(target, addresses, private=private)

    def _derive_secret(self, secret: str | None, once: IdempotencyKey | None, salt: str) -> str:
        return secret if secret is not None else encode_secret(derive_secret(self._context, once, "webhook", salt))


def _get_visible(transaction: Transaction, actor: Actor, webhook_id: str, action: Action) -> Webhook:
    """The webhook, if the caller may do this to it; absent and hidden webhooks give the same error."""
    found = subscriptions.find(transaction, webhook_id)
    if found is None or not actor.can_see(found.workspace_id):
        raise not_found("webhook", webhook_id)
    authorise(actor, action, Target(workspace_id=found.workspace_id))
    return found


def _get_enabled(transaction: Transaction, actor: Actor, webhook_id: str) -> Webhook:
    """The webhook, if it is enabled and the caller may send to it."""
    found = _get_visible(transaction, actor, webhook_id, Action.WEBHOOK_TEST)
    if not found.enabled:
        raise StokerError(ErrorCode.CONFLICT, "The webhook is disabled. Enable it first.")
    return found


def _authorise_workspace(transaction: Transaction, actor: Actor, workspace: str | None) -> int | None:
    """The id of the workspace that the caller may add webhooks to; None is the whole installation."""
    workspace_id = None if workspace is None else get_visible_workspace(transaction, actor, workspace).id
    hint = "Name a workspace that you manage." if workspace is None else ""
    authorise(actor, Action.WEBHOOK_CREATE, Target(workspace_id=workspace_id), hint)
    return workspace_id


def _display_host(url: str) -> str:
    """The host of a URL for the audit log: the path may contain a secret."""
    return parse_target(url, private=True).host_header


def _check_events(events: tuple[WebhookEventType, ...], of_workspace: bool) -> None:
    if WebhookEventType.TEST in events:
        raise bad_request("events", f"{WebhookEventType.TEST} is sent on request, to every webhook. Leave it out.")
    if of_workspace and (wrong := next((event for event in events if event.is_node_event), None)):
        raise bad_request(
            "events", f"{wrong} is not an event of a workspace. Only webhooks of the whole installation get it."
        )
