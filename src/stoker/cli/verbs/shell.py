"""`stoker shell`."""

import click

from stoker.cli.failures import Failure
from stoker.cli.options import connection_options, typed
from stoker.cli.refs import found_pod
from stoker.cli.session import connect


@click.command("shell")
@click.argument("pod", required=False, metavar="POD|WORKLOAD")
@click.option("--shell", metavar="NAME", help="Such as zsh [default the first that the pod has].")
@connection_options()
@click.pass_context
def command(ctx: click.Context, pod: str | None, shell: str | None) -> None:
    """Open a shell inside a pod, at this terminal. Of a workload it is the first pod.

    \b
    stoker shell notebook-b7q9z
    """
    from stoker.cli.terminals import at_terminal, run_remotely

    if not at_terminal():
        raise click.UsageError("A shell needs a terminal. To run one command: stoker exec POD -- COMMAND")
    client = connect()
    detail, pod_id = found_pod(client, pod)
    pod_id = pod_id or (detail.pods[0].pod_id if detail.pods else "")
    if not pod_id:
        raise Failure(f"{detail.workload_id} has no pods yet.", following=typed("explain", detail.workload_id))
    shells = (shell,) if shell else client.workloads.containers(detail.workload_id, pod_id).shells
    if not shells:
        raise Failure(f"Pod {pod_id} has no shell now.", following=typed("describe", detail.workload_id))
    ctx.exit(run_remotely(client, detail.workload_id, pod_id, shells[:1], tty=True, stdin=True))
