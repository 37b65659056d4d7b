"""The actor of a request: which user calls, from where, and with which credential."""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.access.identity import User, UserRole
from stoker.domain.access.peers import SocketPeer
from stoker.domain.access.permissions import Actor
from stoker.store.db.base import Transaction
from stoker.store.identity import users


class CredentialKind(StrEnum):
    SESSION = "session"
    APPLICATION = "application"
    SOCKET = "socket"


class RequestOrigin(Struct, frozen=True):
    """Where a request comes from."""

    address: str
    loopback: bool
    trace_id: str
    secure: bool = False
    """Whether the caller used HTTPS to this server or to a trusted proxy."""
    peer: SocketPeer | None = None
    """The peer of the server's Unix socket; None for a request over the network."""


def build_actor(
    transaction: Transaction, user: User, origin: RequestOrigin, *, credential: str, session_id: str = ""
) -> Actor:
    admin = user.role is UserRole.ADMIN
    return Actor(
        user_id=user.id,
        name=user.name,
        kind=user.kind,
        admin=admin,
        memberships=users.memberships(transaction, user.id),
        default_workspace_id=user.default_workspace_id,
        credential=credential,
        session_id=session_id,
        address=origin.address,
        trace_id=origin.trace_id,
    )
