"""`stoker exec` and `stoker shell`."""

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.errors import CommandError
from stoker.cli.core.options import command_line, connection_options
from stoker.cli.remote.resolve import resolve_pod


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.option("--tty", "-t", is_flag=True, help="Allocate a terminal.")
@click.option("--no-stdin", "-n", is_flag=True, help="Do not forward stdin.")
@connection_options()
@click.argument("pod", metavar="POD|WORKLOAD")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_context
def exec_command(ctx: click.Context, pod: str, command: tuple[str, ...], tty: bool, no_stdin: bool) -> None:
    """Run a command in a pod and return its exit code. For a workload, the first pod is used.

    \b
    stoker exec train-b2c4d -- nvidia-smi
    stoker exec -t train-b2c4d-worker-1 -- top
    """
    from stoker.cli.remote.remote_terminal import is_terminal, run_in_pod

    words = command[1:] if command[:1] == ("--",) else command
    if not words:
        raise click.UsageError(f"Say what to run, for example: stoker exec {pod} -- nvidia-smi")
    if tty and not is_terminal():
        raise click.UsageError("There is no terminal to give: leave --tty out.")
    client = connect()
    detail, pod_id = resolve_pod(client, pod)
    ctx.exit(run_in_pod(client, detail.workload_id, pod_id, words, tty=tty, stdin=not no_stdin))


@click.command("shell")
@click.argument("pod", required=False, metavar="POD|WORKLOAD")
@click.option("--shell", metavar="NAME", help="Such as zsh [default the first that the pod has].")
@connection_options()
@click.pass_context
def shell_command(ctx: click.Context, pod: str | None, shell: str | None) -> None:
    """Open a shell in a pod, on this terminal. For a workload, the first pod is used.

    \b
    stoker shell notebook-b7q9z
    """
    from stoker.cli.remote.remote_terminal import is_terminal, run_in_pod

    if not is_terminal():
        raise click.UsageError("A shell needs a terminal. To run one command: stoker exec POD -- COMMAND")
    client = connect()
    detail, pod_id = resolve_pod(client, pod)
    pod_id = pod_id or (detail.pods[0].pod_id if detail.pods else "")
    if not pod_id:
        raise CommandError(
            f"{detail.workload_id} has no pods yet.", following=command_line("explain", detail.workload_id)
        )
    shells = (shell,) if shell else client.workloads.containers(detail.workload_id, pod_id).shells
    if not shells:
        raise CommandError(f"Pod {pod_id} has no shell now.", following=command_line("describe", detail.workload_id))
    ctx.exit(run_in_pod(client, detail.workload_id, pod_id, shells[:1], tty=True, stdin=True))
