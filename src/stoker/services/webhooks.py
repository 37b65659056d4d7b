"""Webhooks: who is told of what. A manager has those of the own workspace, an admin all of them."""

import asyncio

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.listing import Listing, Window
from stoker.domain.names import new_uuid
from stoker.domain.permissions import Action, Actor, Target
from stoker.domain.webhook_signatures import check_secret, secret_text
from stoker.domain.webhook_targets import Resolve, check_addresses, target_of
from stoker.domain.webhooks import MOST_WEBHOOKS, Delivery, DeliveryState, EventType, TestNews, Webhook, event_id, told
from stoker.services import workspaces as places
from stoker.services.context import Context, authorise, record
from stoker.services.once import Once, Salted, new_salt, only_once, secret_bytes
from stoker.store import outbox, webhooks
from stoker.store.base import Transaction

RESOLVE_SECONDS = 3.0
"""How long a name may take to be looked up; it is looked up again whenever something is sent."""
DISABLED = "The webhook was disabled."


class NewWebhook(Struct, frozen=True, kw_only=True):
    """Without a workspace it is for events of all of them, and of nodes; without events, for every one."""

    url: str
    description: str = ""
    workspace: str | None = None
    events: tuple[EventType, ...] = ()
    secret: str | None = None


class WebhookEdit(Struct, frozen=True, kw_only=True):
    """What is UNSET stays as it is."""

    url: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    events: tuple[EventType, ...] | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class IssuedWebhook(Struct, frozen=True):
    """The only time the secret is seen."""

    webhook: Webhook
    secret: str


class Webhooks:
    def __init__(self, context: Context, resolve: Resolve) -> None:
        self._context = context
        self._resolve = resolve

    async def browse(self, actor: Actor, workspace: str, window: Window) -> Listing[Webhook]:
        """An admin sees all, anyone else those of the workspaces it manages."""
        authorise(actor, Action.WEBHOOK_LIST)

        def query(transaction: Transaction) -> Listing[Webhook]:
            place = places.visible(transaction, actor, workspace).id if workspace else None
            return webhooks.browse(transaction, place, None if actor.admin else actor.user_id, window)

        return await self._context.store.read(query)

    async def read(self, actor: Actor, webhook_id: str) -> Webhook:
        return await self._context.store.peek(lambda tx: _visible(tx, actor, webhook_id, Action.WEBHOOK_READ))

    async def create(self, actor: Actor, new: NewWebhook, once: Once | None = None) -> IssuedWebhook:
        await self._context.store.peek(lambda tx: _place(tx, actor, new.workspace))
        await self._check_target(new.url)
        _check_events(new.events, new.workspace is not None)
        if new.secret is not None:
            check_secret(new.secret, "secret")

        def change(transaction: Transaction) -> Salted[Webhook]:
            place = _place(transaction, actor, new.workspace)
            if webhooks.count(transaction, place) >= MOST_WEBHOOKS:
                whose = f'Workspace "{new.workspace}"' if new.workspace is not None else "The installation"
                message = f"{whose} has {MOST_WEBHOOKS} webhooks already. Delete one first."
                raise StokerError(ErrorCode.STATE_FORBIDS, message)
            now, salt = self._context.clock.now(), new_salt(self._context)
            added = Webhook(
                id=new_uuid(self._context.randomness),
                url=new.url,
                description=new.description,
                workspace_id=place,
                workspace=new.workspace,
                events=tuple(sorted(set(new.events))),
                enabled=True,
                disabled_because="",
                created_at=now,
                updated_at=now,
            )
            webhooks.add(transaction, added, self._secret(new.secret, once, salt))
            record(self._context, transaction, actor, Action.WEBHOOK_CREATE, added.id, f"to {_host(new.url)}")
            return Salted(added, salt)

        kept = await self._context.store.write(only_once(self._context, actor, once, Salted[Webhook], change))
        return IssuedWebhook(kept.made, self._secret(new.secret, once, kept.salt))

    async def update(self, actor: Actor, webhook_id: str, edit: WebhookEdit) -> Webhook:
        """Change what is given. One that is switched off forgets what was on its way to it."""
        found = await self._context.store.peek(lambda tx: _visible(tx, actor, webhook_id, Action.WEBHOOK_UPDATE))
        if edit.url is not UNSET and edit.url != found.url:
            await self._check_target(edit.url)
        if edit.events is not UNSET:
            _check_events(edit.events, found.workspace_id is not None)

        def change(transaction: Transaction) -> Webhook:
            before = _visible(transaction, actor, webhook_id, Action.WEBHOOK_UPDATE)
            given = {field: value for field, value in structs.asdict(edit).items() if value is not UNSET}
            if "events" in given:
                given["events"] = tuple(sorted(set(given["events"])))
            after = structs.replace(before, **given, updated_at=self._context.clock.now())
            if after.enabled:
                after = structs.replace(after, disabled_because="")
            elif before.enabled:
                after = structs.replace(after, disabled_because=f"{actor.name} disabled it.")
                outbox.give_up(transaction, webhook_id, DISABLED)
            webhooks.replace(transaction, after)
            said = {**given, **({"url": _host(after.url)} if "url" in given else {})}
            detail = ", ".join(f"{field}={value}" for field, value in sorted(said.items()))
            record(self._context, transaction, actor, Action.WEBHOOK_UPDATE, webhook_id, detail)
            return after

        return await self._context.store.write(change)

    async def renew_secret(
        self, actor: Actor, webhook_id: str, secret: str | None, keep_old_seconds: int, once: Once | None = None
    ) -> IssuedWebhook:
        """A new secret; for so long everything is signed with the old one too."""
        if secret is not None:
            check_secret(secret, "secret")

        def change(transaction: Transaction) -> Salted[Webhook]:
            found = _visible(transaction, actor, webhook_id, Action.WEBHOOK_UPDATE)
            now, salt = self._context.clock.now(), new_salt(self._context)
            until = now + keep_old_seconds * 1000
            webhooks.set_secret(transaction, webhook_id, self._secret(secret, once, salt), now, until)
            record(self._context, transaction, actor, Action.WEBHOOK_UPDATE, webhook_id, "new secret")
            return Salted(structs.replace(found, updated_at=now), salt)

        kept = await self._context.store.write(only_once(self._context, actor, once, Salted[Webhook], change))
        return IssuedWebhook(kept.made, self._secret(secret, once, kept.salt))

    async def delete(self, actor: Actor, webhook_id: str) -> None:
        def change(transaction: Transaction) -> None:
            found = _visible(transaction, actor, webhook_id, Action.WEBHOOK_DELETE)
            webhooks.delete(transaction, webhook_id)
            record(self._context, transaction, actor, Action.WEBHOOK_DELETE, webhook_id, f"to {_host(found.url)}")

        await self._context.store.write(change)

    async def test(self, actor: Actor, webhook_id: str, once: Once | None = None) -> Delivery:
        """Send an event that says nothing; it takes the way of all others."""

        def change(transaction: Transaction) -> Delivery:
            found = _enabled(transaction, actor, webhook_id)
            now = self._context.clock.now()
            event = told(event_id(new_uuid(self._context.randomness)), EventType.TEST, now, None, TestNews(found.id))
            record(self._context, transaction, actor, Action.WEBHOOK_TEST, webhook_id)
            return outbox.tell_one(transaction, found, event)

        sent = await self._context.store.write(only_once(self._context, actor, once, Delivery, change))
        self._context.signal.notify()
        return sent

    async def deliveries(
        self, actor: Actor, webhook_id: str, window: Window, state: DeliveryState | None = None
    ) -> Listing[Delivery]:
        """What was sent, and what came of it, or only what is in one state; newest first."""

        def query(transaction: Transaction) -> Listing[Delivery]:
            _visible(transaction, actor, webhook_id, Action.WEBHOOK_READ)
            return outbox.deliveries(transaction, webhook_id, window, state)

        return await self._context.store.read(query)

    async def retry(self, actor: Actor, webhook_id: str, number: int) -> Delivery:
        """Send an event again, from the first try on."""

        def change(transaction: Transaction) -> Delivery:
            _enabled(transaction, actor, webhook_id)
            again = outbox.send_again(transaction, webhook_id, number)
            if again is None:
                raise not_found("delivery", str(number))
            record(self._context, transaction, actor, Action.WEBHOOK_TEST, webhook_id, f"delivery {number} again")
            return again

        sent = await self._context.store.write(change)
        self._context.signal.notify()
        return sent

    async def _check_target(self, url: str) -> None:
        """A name that is not known yet is judged when something is sent."""
        private = self._context.settings.webhook_private_targets
        target = target_of(url, private=private)
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                addresses = await self._resolve(target.host, target.port)
        except (OSError, TimeoutError):
            return
        check_addresses(target, addresses, private=private)

    def _secret(self, given: str | None, once: Once | None, salt: str) -> str:
        return given if given is not None else secret_text(secret_bytes(self._context, once, "webhook", salt))


def _visible(transaction: Transaction, actor: Actor, webhook_id: str, action: Action) -> Webhook:
    """The webhook, if the caller may do this to it: absent and hidden look the same."""
    found = webhooks.find(transaction, webhook_id)
    if found is None or not (actor.admin or found.workspace_id in actor.memberships):
        raise not_found("webhook", webhook_id)
    authorise(actor, action, Target(workspace_id=found.workspace_id))
    return found


def _enabled(transaction: Transaction, actor: Actor, webhook_id: str) -> Webhook:
    """The webhook, if the caller may have something sent to it now."""
    found = _visible(transaction, actor, webhook_id, Action.WEBHOOK_TEST)
    if not found.enabled:
        raise StokerError(ErrorCode.STATE_FORBIDS, "The webhook is disabled. Enable it first.")
    return found


def _place(transaction: Transaction, actor: Actor, workspace: str | None) -> int | None:
    """The workspace that the caller may add webhooks to; none is for all of them."""
    place = None if workspace is None else places.visible(transaction, actor, workspace).id
    hint = "Name a workspace that you manage." if workspace is None else ""
    authorise(actor, Action.WEBHOOK_CREATE, Target(workspace_id=place), hint)
    return place


def _host(url: str) -> str:
    """As much of an address as may be written down anywhere: what comes after can be a secret."""
    return target_of(url, private=True).named


def _check_events(events: tuple[EventType, ...], of_workspace: bool) -> None:
    if EventType.TEST in events:
        raise bad_request("events", f"{EventType.TEST} comes when it is asked for, to every webhook. Leave it out.")
    if of_workspace and (wrong := next((event for event in events if event.of_nodes), None)):
        raise bad_request("events", f"{wrong} is not of a workspace. Only webhooks of the whole installation hear it.")
