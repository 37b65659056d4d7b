"""The client of the verb that runs, as the global options and the kept log-ins say."""

import os

import click

from stoker.cli.credentials import credential_for
from stoker.cli.options import CREDENTIAL, SERVER, TOKEN
from stoker.client import DEFAULT_SERVER, Stoker
from stoker.client.address import server_address
from stoker.domain.workload import CLI_AGENT


def chosen_server() -> str:
    """The one that was named; else the one `stoker serve` makes here, on the port that is set for it."""
    port = os.environ.get("STOKER_PORT", "")
    here = f"http://127.0.0.1:{port}" if port.isdigit() and port != "0" else DEFAULT_SERVER
    return server_address(click.get_current_context().meta.get(SERVER) or here)


def connect() -> Stoker:
    """A client with the credential for its server, closed when the verb ends."""
    ctx = click.get_current_context()
    server = chosen_server()
    credential = credential_for(server, ctx.meta.get(TOKEN))
    ctx.meta[CREDENTIAL] = credential.source
    return _open(ctx, server, credential.token)


def connect_unsigned() -> Stoker:
    """A client without a credential, for signing in."""
    return _open(click.get_current_context(), chosen_server(), None)


def _open(ctx: click.Context, server: str, token: str | None) -> Stoker:
    """The context's object, in tests, is a transport that needs no network."""
    import httpx

    return ctx.with_resource(Stoker(server, token, transport=ctx.find_object(httpx.BaseTransport), agent=CLI_AGENT))
