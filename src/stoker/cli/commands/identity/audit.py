"""`stoker audit`."""

import itertools
from datetime import datetime

import click

from stoker.cli.options import OneOf, reaches_server
from stoker.cli.output import Column, show_list
from stoker.cli.session import connect
from stoker.cli.when import Moment
from stoker.domain.permissions import Action

COLUMNS = (
    Column("AT", "at"),
    Column("ACTOR", "actor"),
    Column("ACTION", "action"),
    Column("TARGET", "target"),
    Column("RESULT", "result"),
    Column("DETAIL", "detail"),
    Column("ADDRESS", "address", wide=True),
    Column("CREDENTIAL", "credential", wide=True),
    Column("TRACE", "traceId", wide=True),
    Column("ID", "id", wide=True),
)


@click.command("audit")
@click.option("--actor", default="", metavar="NAME", help="Only what this user or application did.")
@click.option("--action", type=OneOf(Action), metavar="ACTION", help="Only this, such as user.create.")
@click.option("--target", default="", metavar="NAME", help="Only what was done to this.")
@click.option("--result", default="", metavar="WORD", help="ok, or an error code such as not_allowed.")
@click.option("--since", type=Moment(ago=True), metavar="TIME", help="Such as 1h, 7d or 2026-01-31T00:00:00Z.")
@click.option("--until", type=Moment(ago=True), metavar="TIME", help="Such as 1h, 7d or 2026-01-31T00:00:00Z.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="At the most; 0 for all.")
@reaches_server
def command(
    actor: str,
    action: Action | None,
    target: str,
    result: str,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> None:
    """Show who did what, and how it ended, newest first.

    \b
    stoker audit --since 1h
    stoker audit --actor li.wei --action workload.delete -o csv
    """
    found = connect().audit.list(actor=actor, action=action, target=target, result=result, since=since, until=until)
    records = list(itertools.islice(found, limit + 1 if limit else None))
    more = bool(limit) and len(records) > limit
    shown = records[:limit] if more else records
    show_list(shown, COLUMNS, {"next": shown[-1].id if more else None})
    if more:
        click.echo("There are more; --limit 0 shows all.", err=True)
