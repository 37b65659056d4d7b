"""`stoker webhook`."""

import itertools
import time
from typing import TYPE_CHECKING

import click

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, confirm, server_options, yes_option
from stoker.cli.input.time_params import DurationParam
from stoker.cli.input.unset import value_or_unset
from stoker.cli.render.output import Column, is_text, print_message, show_list, show_one, show_page, show_result
from stoker.domain.webhooks.model import DeliveryState, WebhookEventType

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.webhooks import DeliveryView, NewWebhookView

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
NEW_WEBHOOK_COLUMNS = (
    *(Column(column.title, f"webhook.{column.path}", empty=column.empty) for column in COLUMNS),
    Column("SECRET", "secret"),
)
DELIVERY_COLUMNS = (
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
DELIVERY_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.3

events_option = click.option(
    "--event",
    "events",
    type=EnumChoice(WebhookEventType, but=(WebhookEventType.TEST,)),
    multiple=True,
    help="Only this event; can be repeated [default all].",
)


@click.group("webhook", cls=CommandGroup)
@server_options
def webhook_command() -> None:
    """Webhooks: URLs that receive events when workloads end and nodes fail."""


@webhook_command.command("add")
@click.argument("url")
@click.option("--workspace", metavar="NAME", help="Only events of this workspace [default all, for admins].")
@events_option
@click.option("--description", default="", metavar="TEXT", help="Description.")
@click.option("--secret", metavar="SECRET", help="A whsec_ secret of your own [default a new one].")
@server_options
def add(
    url: str, workspace: str | None, events: tuple[WebhookEventType, ...], description: str, secret: str | None
) -> None:
    """Add a webhook. The secret that signs its events is printed on stdout, only now.

    \b
    stoker webhook add https://hooks.example.com/stoker --workspace vision --event workload.failed
    """
    _show_secret(
        connect().webhooks.create(url, description=description, workspace=workspace, events=events, secret=secret)
    )


@webhook_command.command("list")
@click.option("--workspace", default="", metavar="NAME", help="Only those of this workspace.")
@server_options
def list_webhooks(workspace: str) -> None:
    """List the webhooks of workspaces you manage; an admin sees all.

    \b
    stoker webhook list
    """
    show_list(connect().webhooks.list(workspace=workspace), COLUMNS)


@webhook_command.command("show")
@click.argument("webhook_id", metavar="ID")
@server_options
def show(webhook_id: str) -> None:
    """Show one webhook.

    \b
    stoker webhook show 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    show_one(connect().webhooks.get(webhook_id), COLUMNS)


@webhook_command.command("edit")
@click.argument("webhook_id", metavar="ID")
@click.option("--url", metavar="URL", help="New URL.")
@events_option
@click.option("--all-events", is_flag=True, help="Subscribe to every event again.")
@click.option("--description", metavar="TEXT", help="Description.")
@click.option("--enable/--disable", "enabled", default=None, help="Enable or disable deliveries.")
@server_options
def edit(
    webhook_id: str,
    url: str | None,
    events: tuple[WebhookEventType, ...],
    all_events: bool,
    description: str | None,
    enabled: bool | None,
) -> None:
    """Change a webhook. Disabling it discards its pending deliveries.

    \b
    stoker webhook edit 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 --enable
    """
    if not (events or all_events) and all(value is None for value in (url, description, enabled)):
        raise click.UsageError("Say what to change, for example --enable.")
    edited = connect().webhooks.edit(
        webhook_id,
        url=value_or_unset(url),
        events=value_or_unset(events if events or all_events else None),
        description=value_or_unset(description),
        enabled=value_or_unset(enabled),
    )
    show_result(edited, COLUMNS, f"Changed webhook {edited.id}.")


@webhook_command.command("renew-secret")
@click.argument("webhook_id", metavar="ID")
@click.option("--secret", metavar="SECRET", help="A whsec_ secret of your own [default a new one].")
@click.option("--keep-old", type=DurationParam(), help="How long the old secret signs too, such as 1h. [default a day]")
@server_options
def renew_secret(webhook_id: str, secret: str | None, keep_old: int | None) -> None:
    """Issue a new secret for a webhook. For a while, events are signed with the old secret too.

    \b
    stoker webhook renew-secret 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 --keep-old 1h
    """
    _show_secret(connect().webhooks.renew_secret(webhook_id, secret=secret, keep_old_seconds=value_or_unset(keep_old)))


@webhook_command.command("delete")
@click.argument("webhook_id", metavar="ID")
@yes_option
@server_options
def delete(webhook_id: str, yes: bool) -> None:
    """Remove a webhook with all its deliveries.

    \b
    stoker webhook delete 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    confirm(f"Delete webhook {webhook_id}?", yes)
    connect().webhooks.delete(webhook_id)
    print_message(f"Deleted webhook {webhook_id}.")


@webhook_command.command("test")
@click.argument("webhook_id", metavar="ID")
@server_options
def test(webhook_id: str) -> None:
    """Send a test event and wait for its result.

    \b
    stoker webhook test 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    client = connect()
    sent = _wait_for_attempt(client, webhook_id, client.webhooks.test(webhook_id))
    if sent.state is DeliveryState.DELIVERED:
        show_result(sent, DELIVERY_COLUMNS, f"The receiver took it and answered {sent.status}.")
        return
    show_result(sent, DELIVERY_COLUMNS, sent.error or "It has not been sent yet: is the server that delivers running?")
    click.get_current_context().exit(1)


@webhook_command.command("deliveries")
@click.argument("webhook_id", metavar="ID")
@click.option("--state", type=EnumChoice(DeliveryState), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="Maximum number; 0 for all.")
@server_options
def deliveries(webhook_id: str, state: DeliveryState | None, limit: int) -> None:
    """List the deliveries of a webhook and their results, newest first.

    \b
    stoker webhook deliveries 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    stoker webhook deliveries 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 --state given-up
    """
    found = connect().webhooks.deliveries(webhook_id, state=value_or_unset(state))
    show_page(found, limit, DELIVERY_COLUMNS)


@webhook_command.command("retry")
@click.argument("webhook_id", metavar="ID")
@click.argument("number", type=click.IntRange(1))
@server_options
def retry(webhook_id: str, number: int) -> None:
    """Send an event again, whatever its previous result.

    \b
    stoker webhook retry 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11 17
    """
    sent = connect().webhooks.retry(webhook_id, number)
    show_result(sent, DELIVERY_COLUMNS, f"Delivery {sent.number} is on its way again.")


def _wait_for_attempt(client: "Stoker", webhook_id: str, sent: "DeliveryView") -> "DeliveryView":
    """The delivery after its first attempt, or its current state when that takes too long."""
    give_up = time.monotonic() + DELIVERY_TIMEOUT_SECONDS
    while not sent.tries and time.monotonic() < give_up:
        time.sleep(POLL_SECONDS)
        recent = itertools.islice(client.webhooks.deliveries(webhook_id), 100)
        sent = next((each for each in recent if each.number == sent.number), sent)
    return sent


def _show_secret(made: "NewWebhookView") -> None:
    if not is_text():
        show_one(made, NEW_WEBHOOK_COLUMNS)
        return
    click.echo(f"Webhook {made.webhook.id} to {made.webhook.url}. Its secret, shown this once:", err=True)
    print_message(made.secret)
