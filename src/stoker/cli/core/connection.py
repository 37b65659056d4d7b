"""The client of the current command, by the global options and the stored log-ins."""

import os

import click

from stoker.cli.core.credentials import credential_for
from stoker.cli.core.options import CREDENTIAL_KEY, SERVER_KEY, TOKEN_KEY
from stoker.client import DEFAULT_SERVER, Stoker
from stoker.client.transport.server_address import normalize_server
from stoker.client.transport.unix_socket import local_server_address
from stoker.domain.workload.model import CLI_USER_AGENT


def selected_server() -> str:
    """The server of --server; otherwise that of this machine, through its socket or its configured port."""
    if named := click.get_current_context().meta.get(SERVER_KEY):
        return normalize_server(named)
    port = os.environ.get("STOKER_PORT", "")
    here = f"http://127.0.0.1:{port}" if port.isdigit() and port != "0" else DEFAULT_SERVER
    return normalize_server(local_server_address() or here)


def connect() -> Stoker:
    """A client with the credential for its server, closed when the command ends."""
    ctx = click.get_current_context()
    server = selected_server()
    credential = credential_for(server, ctx.meta.get(TOKEN_KEY))
    ctx.meta[CREDENTIAL_KEY] = credential.source
    return _open_client(ctx, server, credential.token)


def connect_anonymously() -> Stoker:
    """A client without a credential, for signing in."""
    return _open_client(click.get_current_context(), selected_server(), None)


def _open_client(ctx: click.Context, server: str, token: str | None) -> Stoker:
    """In tests the context's object is a transport that needs no network."""
    import httpx

    return ctx.with_resource(
        Stoker(server, token, transport=ctx.find_object(httpx.BaseTransport), agent=CLI_USER_AGENT)
    )
