"""The UDP proxy of a service: one port for all replicas. A client keeps its replica for as long as datagrams flow.

Every client takes a descriptor: the one that was silent longest is dropped for a new one.
"""

import asyncio
import contextlib
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence

from stoker.engines.proxy.tcp import MAX_CONNECTIONS_PER_SERVICE, ConnectionLimit, ReplicaAddress

CLIENT_IDLE_SECONDS = 60.0
_MAX_DATAGRAM_BYTES = 65_535
_READ_BATCH_SIZE = 64

ClientAddress = tuple[str, int]


class UdpProxy(asyncio.DatagramProtocol):
    def __init__(
        self,
        host: str,
        targets: Callable[[], Sequence[ReplicaAddress]],
        connections: ConnectionLimit | None = None,
        most: int = MAX_CONNECTIONS_PER_SERVICE,
    ) -> None:
        self._host = host
        self._targets = targets
        self._connection_limit = connections or ConnectionLimit()
        self._max_clients = most
        self._round_robin = 0
        self._clients: OrderedDict[ClientAddress, _UdpClient] = OrderedDict()
        self._transport: asyncio.DatagramTransport | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self.port = 0

    async def open(self, ports: Sequence[int]) -> None:
        """Listen on the first of these ports that is free; 0 means any port."""
        loop = asyncio.get_running_loop()
        for port in ports:
            with contextlib.suppress(OSError):
                self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(self._host, port))
                self.port = self._transport.get_extra_info("sockname")[1]
                self._drop_idle_clients()
                return
        raise OSError(f"none of the ports {', '.join(map(str, ports))} can be listened on at {self._host}")

    async def close(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        if self._transport is not None:
            self._transport.close()
        while self._clients:
            self._drop_client(next(iter(self._clients)))

    def datagram_received(self, data: bytes, addr: ClientAddress) -> None:
        client = self._clients.get(addr) or self._open_client(addr)
        if client is not None:
            self._clients.move_to_end(addr)
            if not client.send(data):  # the replica is gone: the next datagram goes to another one
                self._drop_client(addr)

    def error_received(self, exc: Exception) -> None:
        """An error of a client that is gone; nothing to do."""

    def _open_client(self, addr: ClientAddress) -> "_UdpClient | None":
        replicas = self._targets()
        if len(self._clients) >= self._max_clients or (self._connection_limit.is_full and self._clients):
            self._drop_client(next(iter(self._clients)))
        if not replicas or self._connection_limit.is_full or self._transport is None:
            return None
        self._round_robin += 1
        answers = self._transport
        client = _UdpClient(replicas[self._round_robin % len(replicas)], lambda data: answers.sendto(data, addr))
        self._connection_limit.open_connections += 1
        self._clients[addr] = client
        return client

    def _drop_client(self, addr: ClientAddress) -> None:
        self._clients.pop(addr).close()
        self._connection_limit.open_connections -= 1

    def _drop_idle_clients(self) -> None:
        loop = asyncio.get_running_loop()
        silent = [
            addr for addr, client in self._clients.items() if loop.time() - client.last_active > CLIENT_IDLE_SECONDS
        ]
        for addr in silent:
            self._drop_client(addr)
        self._sweep_timer = loop.call_later(CLIENT_IDLE_SECONDS / 4, self._drop_idle_clients)


class _UdpClient:
    """The socket between one client and its replica."""

    def __init__(self, replica: ReplicaAddress, answer: Callable[[bytes], None]) -> None:
        self._reply = answer
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.connect((replica.host, replica.port))
        self._loop.add_reader(self._socket, self._on_readable)
        self.last_active = self._loop.time()
        self._is_unreachable = False

    def send(self, data: bytes) -> bool:
        """Returns False if nobody listens there. A datagram that does not fit the buffer is dropped."""
        self.last_active = self._loop.time()
        try:
            self._socket.send(data)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return not self._is_unreachable

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _on_readable(self) -> None:
        self.last_active = self._loop.time()
        for _ in range(_READ_BATCH_SIZE):
            try:
                self._reply(self._socket.recv(_MAX_DATAGRAM_BYTES))
            except BlockingIOError:
                return
            except OSError:  # the kernel has received an ICMP "port unreachable"
                self._is_unreachable = True
                return
