"""`stoker patch`."""

from typing import Any

import click
from msgspec import UNSET

from stoker.cli.edits import given
from stoker.cli.jobs import pairs, text_of
from stoker.cli.options import reaches_server, typed
from stoker.cli.output import say
from stoker.cli.refs import found
from stoker.cli.session import connect
from stoker.cli.when import Duration


@click.command("patch")
@click.argument("workload", required=False)
@click.option("--priority", type=click.IntRange(0, 2), help="0 normal, 1 high, 2 highest.")
@click.option(
    "--preemptible/--not-preemptible", default=None, help="Whether it may borrow quota, and may be preempted."
)
@click.option("--replicas", type=click.IntRange(min=1), help="How many at once.")
@click.option("--cpu", metavar="QUANTITY", help="CPU cores per replica.")
@click.option("--gpu", metavar="QUANTITY", help="GPUs per replica.")
@click.option("--memory", metavar="QUANTITY", help="Memory per replica.")
@click.option("--image", metavar="IMAGE", help="Container image.")
@click.option("--script", metavar="TEXT", help="Shell script to run.")
@click.option("--script-file", metavar="FILE", help="File with the shell script to run; - is stdin.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--timeout", type=Duration(), help="Stop it after this long, such as 2h; 0 for never.")
@click.option("--max-retry", type=click.IntRange(0, 50), help="How often to try again when it fails.")
@click.option("--env", "-e", metavar="NAME[=VALUE]", multiple=True, help="Variable; without a value, the one set here.")
@click.option("--unset-env", metavar="NAME", multiple=True, help="Take this variable away.")
@click.option("--node", "nodes", metavar="NAME", multiple=True, help="One replica on this node; can be repeated.")
@click.option("--any-node", is_flag=True, help="Forget the nodes that were named.")
@reaches_server
def command(
    workload: str | None,
    script: str | None,
    script_file: str | None,
    env: tuple[str, ...],
    unset_env: tuple[str, ...],
    nodes: tuple[str, ...],
    any_node: bool,
    replicas: int | None,
    **fields: Any,
) -> None:
    """Change a workload that has not ended, by id or name.

    Description, priority, preemptible, timeout and retries change in place. For anything else the pods of one that
    runs are replaced.

    \b
    stoker patch train --priority 1 --timeout 2h
    stoker patch train --gpu 4 -e EPOCHS=20 --unset-env DEBUG
    """
    changed = [script, script_file, replicas, *fields.values()]
    if not any((env, unset_env, nodes, any_node)) and all(value is None for value in changed):
        raise click.UsageError("Say what to change, for example --priority 1.")
    if script is not None and script_file is not None:
        raise click.UsageError("Say what to run once: by --script or by --script-file.")
    if nodes and any_node:
        raise click.UsageError("Say one of --node and --any-node.")
    text = text_of(script_file) if script_file else script
    variables: dict[str, str | None] = {**pairs(env, from_environment=True), **dict.fromkeys(unset_env)}
    client = connect()
    workload_id = found(client, workload).workload_id
    client.workloads.edit(
        workload_id,
        **{name: given(value) for name, value in fields.items()},
        replica=given(replicas),
        entry_point=UNSET if text is None else text.encode(),
        env=variables or UNSET,
        specified_nodes=nodes if nodes or any_node else UNSET,
    )
    say(f"Changed {workload_id}.\nNext: {typed('describe', workload_id)}")
