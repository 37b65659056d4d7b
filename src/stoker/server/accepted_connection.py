"""An accepted connection before its first request: its addresses and the process that opened it."""

import asyncio
import socket
import struct

from stoker.domain.access.peers import ProcessOwner, ProcessOwnerResolver, SocketAddress, SocketPeer

_CREDENTIALS = struct.Struct("3i")


class AcceptedConnection:
    """Satisfies `stoker.api.http.connection.PeerConnection`. The owner is looked up once, on first access."""

    def __init__(self, transport: asyncio.BaseTransport, processes: ProcessOwnerResolver) -> None:
        accepted: socket.socket | None = transport.get_extra_info("socket")
        is_local = accepted is not None and accepted.family == socket.AF_UNIX
        self.peer: SocketPeer | None = _peer_credentials(accepted) if accepted is not None and is_local else None
        self._transport = transport
        self._processes = processes
        self._owner: ProcessOwner | None = None

    async def owner(self) -> ProcessOwner:
        if self._owner is None:
            self._owner = await self._find_owner()
        return self._owner

    async def _find_owner(self) -> ProcessOwner:
        if self.peer is not None:
            return await self._processes.owner_of_process(self.peer.pid)
        far, near = (self._endpoint(name) for name in ("peername", "sockname"))
        if far is None or near is None:
            return ProcessOwner.UNKNOWN
        return await self._processes.owner_of_connection(far, near)

    def _endpoint(self, name: str) -> SocketAddress | None:
        found = self._transport.get_extra_info(name)
        return (found[0], found[1]) if isinstance(found, tuple) else None


def _peer_credentials(accepted: socket.socket) -> SocketPeer:
    pid, uid, gid = _CREDENTIALS.unpack(accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return SocketPeer(uid=uid, gid=gid, pid=pid)
