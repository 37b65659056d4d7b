"""`stoker logout`."""

import click

from stoker.cli.credentials import forget, log_ins
from stoker.cli.options import reaches_server
from stoker.cli.output import say
from stoker.cli.session import chosen_server, connect
from stoker.client import ErrorCode, StokerError, Unreachable


@click.command("logout")
@reaches_server
def command() -> None:
    """Sign out: end the session on the server and forget its token here.

    \b
    stoker logout
    """
    server = chosen_server()
    if server not in log_ins():
        say(f"There is no log-in for {server}.")
        return
    try:
        connect().logout()
    except Unreachable as error:
        forget(server)
        say(f"Forgot the log-in for {server}. It could not be ended there: {error.message}")
        return
    except StokerError as error:
        if error.code is not ErrorCode.NOT_SIGNED_IN:
            raise
    forget(server)
    say(f"Signed out of {server}.")
