"""`stoker patch`."""

from typing import Any

import click
from msgspec import UNSET

from stoker.cli.core.connection import connect
from stoker.cli.core.options import command_line, server_options
from stoker.cli.input.job_spec import parse_pairs, read_text
from stoker.cli.input.time_params import DurationParam
from stoker.cli.input.unset import value_or_unset
from stoker.cli.remote.resolve import resolve_workload
from stoker.cli.render.output import print_message


@click.command("patch")
@click.argument("workload", required=False)
@click.option("--priority", type=click.IntRange(0, 2), help="0 normal, 1 high, 2 highest.")
@click.option(
    "--preemptible/--not-preemptible", default=None, help="Whether it may borrow quota, and may be preempted."
)
@click.option("--replicas", type=click.IntRange(min=1), help="Number of replicas.")
@click.option("--cpu", metavar="QUANTITY", help="CPU cores per replica.")
@click.option("--gpu", metavar="QUANTITY", help="GPUs per replica.")
@click.option("--memory", metavar="QUANTITY", help="Memory per replica.")
@click.option("--image", metavar="IMAGE", help="Container image.")
@click.option("--script", metavar="TEXT", help="Shell script to run.")
@click.option("--script-file", metavar="FILE", help="File with the shell script to run; - is stdin.")
@click.option("--description", metavar="TEXT", help="Description.")
@click.option("--timeout", type=DurationParam(), help="Stop it after this long, such as 2h; 0 for never.")
@click.option("--max-retry", type=click.IntRange(0, 50), help="Number of retries after a failure.")
@click.option(
    "--env",
    "-e",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Environment variable; without a value, that of this shell.",
)
@click.option("--unset-env", metavar="NAME", multiple=True, help="Remove this environment variable.")
@click.option("--node", "nodes", metavar="NAME", multiple=True, help="One replica on this node; can be repeated.")
@click.option("--any-node", is_flag=True, help="Remove the specified nodes.")
@server_options
def patch_command(
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

    Description, priority, preemptible, timeout and retries change in place. Any other change replaces the pods of a
    running workload.

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
    text = read_text(script_file) if script_file else script
    variables: dict[str, str | None] = {**parse_pairs(env, from_environment=True), **dict.fromkeys(unset_env)}
    client = connect()
    workload_id = resolve_workload(client, workload).workload_id
    client.workloads.edit(
        workload_id,
        **{name: value_or_unset(value) for name, value in fields.items()},
        replica=value_or_unset(replicas),
        entry_point=UNSET if text is None else text.encode(),
        env=variables or UNSET,
        specified_nodes=nodes if nodes or any_node else UNSET,
    )
    print_message(f"Changed {workload_id}.\nNext: {command_line('describe', workload_id)}")
