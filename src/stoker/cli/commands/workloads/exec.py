"""`stoker exec`."""

import click

from stoker.cli.options import connection_options
from stoker.cli.refs import found_pod
from stoker.cli.session import connect


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.option("--tty", "-t", is_flag=True, help="Give the command a terminal.")
@click.option("--no-stdin", "-n", is_flag=True, help="Give the command no input.")
@connection_options()
@click.argument("pod", metavar="POD|WORKLOAD")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_context
def command(ctx: click.Context, pod: str, command: tuple[str, ...], tty: bool, no_stdin: bool) -> None:
    """Run a command beside what a pod runs, and end with its exit code. Of a workload it is the first pod.

    \b
    stoker exec train-b2c4d -- nvidia-smi
    stoker exec -t train-b2c4d-worker-1 -- top
    """
    from stoker.cli.terminals import at_terminal, run_remotely

    words = command[1:] if command[:1] == ("--",) else command
    if not words:
        raise click.UsageError(f"Say what to run, for example: stoker exec {pod} -- nvidia-smi")
    if tty and not at_terminal():
        raise click.UsageError("There is no terminal to give: leave --tty out.")
    client = connect()
    detail, pod_id = found_pod(client, pod)
    ctx.exit(run_remotely(client, detail.workload_id, pod_id, words, tty=tty, stdin=not no_stdin))
