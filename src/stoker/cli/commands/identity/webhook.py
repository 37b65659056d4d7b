"""`stoker webhook`."""

import itertools
import time
from typing import TYPE_CHECKING

import click

from stoker.cli.edits import given
from stoker.cli.groups import Verbs
from stoker.cli.options import OneOf, confirm, reaches_server, yes_option
from stoker.cli.output import Column, is_text, say, show_done, show_first, show_list, show_one
from stoker.cli.session import connect
from stoker.cli.when import Duration
from stoker.domain.webhooks import DeliveryState, EventType

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.shapes import Delivery, NewWebhook

COLUMNS = (
    Column("ID", "id"),
    Column("URL", "url"),
    Column("WORKSPACE", "workspace", empty="all"),
    Column("EVENTS", "events", empty="all"),
    Column("ENABLED", "enabled"),
    Column("WHY NOT", "disabledBecause", wide=True),
    Column("DESCRIPTION", "description", wide=True),
    Column("CREATED", "createdAt", wide=True),
    Column("UPDATED", "updatedAt", wide=True),
)
NEW = (
    *(Column(column.title, f"webhook.{column.path}", empty=column.empty) for column in COLUMNS),
    Column("SECRET", "secret"),
)
DELIVERIES = (
    Column("NUMBER", "number"),
    Column("EVENT", "event"),
    Column("AT", "at"),
    Column("STATE", "state"),
    Column("TRIES", "tries"),
    Column("STATUS", "status"),
    Column("ERROR", "error"),
    Column("NEXT TRY", "nextTryAt"),
    Column("TRIED", "triedAt", wide=True),
    Column("EVENT ID", "eventId", wide=True),
)
PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.3

events_option = click.option(
    "--event",
    "events",
    type=OneOf(EventType, but=(EventType.TEST,)),
    multiple=True,
    help="Only this event; can be repeated [default all].",
)


@click.group("webhook", cls=Verbs)
@reaches_server
def command() -> None:
    """Webhooks: addresses that are told when workloads end and nodes fail."""


@command.command("add")
@click.argument("url")
@click.option("--workspace", metavar="NAME", help="Only what happens there [default everywhere, for admins].")
@events_option
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@click.option("--secret", metavar="SECRET", help="A whsec_ secret of your own [default one is made].")
@reaches_server
def add(url: str, workspace: str | None, events: tuple[EventType, ...], description: str, secret: str | None) -> None:
    """Add a webhook. The secret that signs its events is printed on stdout, this once.

    \b
    stoker webhook add https://hooks.example.com/stoker --workspace vision --event workload.failed
    """
    _show_secret(
        connect().webhooks.create(url, description=description, workspace=workspace, events=events, secret=secret)
    )


@command.command("list")
@click.option("--workspace", default="", metavar="NAME", help="Only those of this workspace.")
@reaches_server
def list_webhooks(workspace: str) -> None:
    """List the webhooks of workspaces you manage; an admin sees all.

    \b
    stoker webhook list
    """
    show_list(connect().webhooks.list(workspace=workspace), COLUMNS)


@command.command("show")
@click.argument("webhook_id", metavar="ID")
@reaches_server
def show(webhook_id: str) -> None:
    """Show one webhook.

    \b
    stoker webhook show 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    show_one(connect().webhooks.get(webhook_id), COLUMNS)


@command.command("edit")
@click.argument("webhook_id", metavar="ID")
@click.option("--url", metavar="URL", help="Send to this address.")
@events_option
@click.option("--all-events", is_flag=True, help="Send every event again.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--enable/--disable", "enabled", default=None, help="Send, or send nothing.")
@reaches_server
def edit(
    webhook_id: str,
    url: str | None,
    events: tuple[EventType, ...],
    all_events: bool,
    description: str | None,
    enabled: bool | None,
) -> None:
    """Change a webhook. One that is disabled forgets what was on its way to it.

    \b
    stoker webhook edit 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 --enable
    """
    if not (events or all_events) and all(value is None for value in (url, description, enabled)):
        raise click.UsageError("Say what to change, for example --enable.")
    edited = connect().webhooks.edit(
        webhook_id,
        url=given(url),
        events=given(events if events or all_events else None),
        description=given(description),
        enabled=given(enabled),
    )
    show_done(edited, COLUMNS, f"Changed webhook {edited.id}.")


@command.command("renew-secret")
@click.argument("webhook_id", metavar="ID")
@click.option("--secret", metavar="SECRET", help="A whsec_ secret of your own [default one is made].")
@click.option("--keep-old", type=Duration(), help="How long the old one signs too, such as 1h. [default a day]")
@reaches_server
def renew_secret(webhook_id: str, secret: str | None, keep_old: int | None) -> None:
    """Give a webhook a new secret. For a while everything is signed with the old one too.

    \b
    stoker webhook renew-secret 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 --keep-old 1h
    """
    _show_secret(connect().webhooks.renew_secret(webhook_id, secret=secret, keep_old_seconds=given(keep_old)))


@command.command("delete")
@click.argument("webhook_id", metavar="ID")
@yes_option
@reaches_server
def delete(webhook_id: str, yes: bool) -> None:
    """Remove a webhook, with all that was sent to it.

    \b
    stoker webhook delete 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    confirm(f"Delete webhook {webhook_id}?", yes)
    connect().webhooks.delete(webhook_id)
    say(f"Deleted webhook {webhook_id}.")


@command.command("test")
@click.argument("webhook_id", metavar="ID")
@reaches_server
def test(webhook_id: str) -> None:
    """Send a test event, and wait for what comes of it.

    \b
    stoker webhook test 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    client = connect()
    sent = _tried(client, webhook_id, client.webhooks.test(webhook_id))
    if sent.state is DeliveryState.DELIVERED:
        show_done(sent, DELIVERIES, f"The receiver took it and answered {sent.status}.")
        return
    show_done(sent, DELIVERIES, sent.error or "It has not been sent yet: is the server that delivers running?")
    click.get_current_context().exit(1)


@command.command("deliveries")
@click.argument("webhook_id", metavar="ID")
@click.option("--state", type=OneOf(DeliveryState), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="At the most; 0 for all.")
@reaches_server
def deliveries(webhook_id: str, state: DeliveryState | None, limit: int) -> None:
    """List what was sent to a webhook, and what came of it, newest first.

    \b
    stoker webhook deliveries 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    stoker webhook deliveries 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 --state given-up
    """
    found = connect().webhooks.deliveries(webhook_id, state=given(state))
    show_first(found, limit, DELIVERIES)


@command.command("retry")
@click.argument("webhook_id", metavar="ID")
@click.argument("number", type=click.IntRange(1))
@reaches_server
def retry(webhook_id: str, number: int) -> None:
    """Send an event again, whatever came of it before.

    \b
    stoker webhook retry 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 17
    """
    sent = connect().webhooks.retry(webhook_id, number)
    show_done(sent, DELIVERIES, f"Delivery {sent.number} is on its way again.")


def _tried(client: "Stoker", webhook_id: str, sent: "Delivery") -> "Delivery":
    """The delivery once it was tried, or as it is when that takes too long."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not sent.tries and time.monotonic() < give_up:
        time.sleep(LOOK_SECONDS)
        recent = itertools.islice(client.webhooks.deliveries(webhook_id), 100)
        sent = next((each for each in recent if each.number == sent.number), sent)
    return sent


def _show_secret(made: "NewWebhook") -> None:
    if not is_text():
        show_one(made, NEW)
        return
    click.echo(f"Webhook {made.webhook.id} to {made.webhook.url}. Its secret, shown this once:", err=True)
    say(made.secret)
