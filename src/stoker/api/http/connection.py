"""The connection of a request: its Unix socket peer, and the process at the other end.

The server stores it in the ASGI state; requests without a connection, as in tests, have none.
"""

from typing import Protocol

from starlette.requests import HTTPConnection

from stoker.domain.access.peers import ProcessOwner, SocketPeer
from stoker.domain.errors import ErrorCode, StokerError

CONNECTION_STATE_KEY = "connection"


class PeerConnection(Protocol):
    @property
    def peer(self) -> SocketPeer | None:
        """The peer of the Unix socket; None for a network connection."""
        ...

    async def owner(self) -> ProcessOwner:
        """The owner of the client process, if it runs on this machine."""
        ...


def peer_connection(request: HTTPConnection) -> PeerConnection | None:
    return request.scope.get("state", {}).get(CONNECTION_STATE_KEY)


async def reject_pod_processes(request: HTTPConnection) -> None:
    """Reject processes of pods: they run on this machine but must not have its trust."""
    connection = peer_connection(request)
    owner = await connection.owner() if connection is not None else ProcessOwner.MACHINE
    if owner is ProcessOwner.MACHINE:
        return
    why = (
        "it comes from a job, and only this machine itself needs none"
        if owner is ProcessOwner.POD
        else "no program of this machine was found that sends it, so it may come from a job"
    )
    raise StokerError(
        ErrorCode.UNAUTHENTICATED,
        f"This needs a credential: {why}.",
        hint="Send the header Authorization: Bearer <API key>.",
    )
