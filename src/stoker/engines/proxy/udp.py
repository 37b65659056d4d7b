"""One port for all the replicas of a UDP service. Each client talks to one replica, for as long as datagrams come.

A client that is remembered holds a descriptor: the one that was silent longest makes room for a new one.
"""

import asyncio
import contextlib
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence

from stoker.engines.local.forward import PER_SERVICE, Connections

IDLE_SECONDS = 60.0
_LARGEST = 65_535
_AT_ONCE = 64

Address = tuple[str, int]


class DatagramForwarder(asyncio.DatagramProtocol):
    def __init__(
        self,
        host: str,
        targets: Callable[[], Sequence[int]],
        connections: Connections | None = None,
        most: int = PER_SERVICE,
    ) -> None:
        self._host = host
        self._targets = targets
        self._connections = connections or Connections()
        self._most = most
        self._turn = 0
        self._clients: OrderedDict[Address, _Client] = OrderedDict()
        self._transport: asyncio.DatagramTransport | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.port = 0

    async def open(self, ports: Sequence[int]) -> None:
        """Listen on the first of these ports that can be had; 0 is any."""
        loop = asyncio.get_running_loop()
        for port in ports:
            with contextlib.suppress(OSError):
                self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(self._host, port))
                self.port = self._transport.get_extra_info("sockname")[1]
                self._forget_silent()
                return
        raise OSError(f"none of the ports {', '.join(map(str, ports))} can be listened on at {self._host}")

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        if self._transport is not None:
            self._transport.close()
        while self._clients:
            self._forget(next(iter(self._clients)))

    def datagram_received(self, data: bytes, addr: Address) -> None:
        client = self._clients.get(addr) or self._welcome(addr)
        if client is not None:
            self._clients.move_to_end(addr)
            if not client.send(data):  # its replica has gone: the next datagram finds another
                self._forget(addr)

    def error_received(self, exc: Exception) -> None:
        """Of a client that has gone, which is its own affair."""

    def _welcome(self, addr: Address) -> "_Client | None":
        ports = self._targets()
        if len(self._clients) >= self._most or (self._connections.full and self._clients):
            self._forget(next(iter(self._clients)))
        if not ports or self._connections.full or self._transport is None:
            return None
        self._turn += 1
        answers = self._transport
        client = _Client(ports[self._turn % len(ports)], lambda data: answers.sendto(data, addr))
        self._connections.open += 1
        self._clients[addr] = client
        return client

    def _forget(self, addr: Address) -> None:
        self._clients.pop(addr).close()
        self._connections.open -= 1

    def _forget_silent(self) -> None:
        loop = asyncio.get_running_loop()
        silent = [addr for addr, client in self._clients.items() if loop.time() - client.spoke > IDLE_SECONDS]
        for addr in silent:
            self._forget(addr)
        self._sweep = loop.call_later(IDLE_SECONDS / 4, self._forget_silent)


class _Client:
    """One client's way to its replica, and back."""

    def __init__(self, port: int, answer: Callable[[bytes], None]) -> None:
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.connect(("127.0.0.1", port))
        self._loop.add_reader(self._socket, self._read)
        self.spoke = self._loop.time()
        self._gone = False

    def send(self, data: bytes) -> bool:
        """False when nobody is there to take it; what a full buffer does not take is lost, as datagrams are."""
        self.spoke = self._loop.time()
        try:
            self._socket.send(data)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return not self._gone

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        self.spoke = self._loop.time()
        for _ in range(_AT_ONCE):
            try:
                self._answer(self._socket.recv(_LARGEST))
            except BlockingIOError:
                return
            except OSError:  # the kernel has heard that nobody listens there
                self._gone = True
                return
