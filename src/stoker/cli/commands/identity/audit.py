"""`stoker audit`."""

import itertools
from datetime import datetime

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, server_options
from stoker.cli.input.time_params import InstantParam
from stoker.cli.render.output import Column, show_list
from stoker.domain.access.permission_rules import Action

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
@click.option("--actor", default="", metavar="NAME", help="Only records of this user or application.")
@click.option("--action", type=EnumChoice(Action), metavar="ACTION", help="Only this action, such as user.create.")
@click.option("--target", default="", metavar="NAME", help="Only records about this object.")
@click.option("--result", default="", metavar="WORD", help="ok, or an error code such as not_allowed.")
@click.option("--since", type=InstantParam(ago=True), metavar="TIME", help="Such as 1h, 7d or 2026-01-31T00:00:00Z.")
@click.option("--until", type=InstantParam(ago=True), metavar="TIME", help="Such as 1h, 7d or 2026-01-31T00:00:00Z.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Maximum number; 0 for all.")
@server_options
def audit_command(
    actor: str,
    action: Action | None,
    target: str,
    result: str,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> None:
    """List audit records, newest first: who did what, and with which result.

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
