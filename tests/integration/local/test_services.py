"""A service's port leads to the replicas that are up."""

import asyncio
import socket
import time

from tests.engine.local.lab import Lab

from stoker.domain.workload import Kind, PortProtocol, Service
from stoker.engines.local.ports import free_ports

SERVE = "exec python -m http.server --bind 127.0.0.1 $PORT"
WHO = """exec python -c '
import http.server, os
class Who(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["STOKER_POD_UID"].encode())
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Who).serve_forever()
'"""


async def ask(address: str) -> str:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2].decode()


async def answers(address: str, enough: int) -> set[str]:
    """Who answers, asked until so many have, or time is up."""
    found: set[str] = set()
    give_up = time.monotonic() + 10
    while len(found) < enough and time.monotonic() < give_up:
        try:
            found.add(await ask(address))
        except OSError:
            await asyncio.sleep(0.02)
        found.discard("")
    return found


def test_connections_go_to_all_replicas_that_are_up_in_turn(any_lab: Lab) -> None:
    [port] = free_ports(1)
    order = any_lab.start(WHO, kind=Kind.DEPLOYMENT, replicas=2, restart=True, service=Service(port, 8000))
    address = any_lab.run(any_lab.engine.service_address(order.workload_uid))
    assert address == f"127.0.0.1:{port}"
    uids = {pod.uid for pod in order.pods}
    assert any_lab.run(answers(address, 2)) == uids
    ports = {any_lab.seen[uid].port for uid in uids}
    assert len(ports) == 2
    assert 0 not in ports
    any_lab.open()
    assert any_lab.run(any_lab.engine.service_address(order.workload_uid)) == address
    assert any_lab.run(answers(address, 2)) == uids
    assert {any_lab.seen[uid].port for uid in uids} == ports


def test_a_replica_that_does_not_answer_is_passed_over(any_lab: Lab) -> None:
    silent = f"mkdir first 2> /dev/null && exec sleep 600\n{WHO}"
    order = any_lab.start(silent, kind=Kind.DEPLOYMENT, replicas=3, restart=True, service=Service(18081, 80))
    address = any_lab.run(any_lab.engine.service_address(order.workload_uid))
    heard = any_lab.run(answers(address, 2))
    assert len(heard) == 2
    for _ in range(6):
        assert any_lab.run(ask(address)) in heard


def test_a_taken_port_is_replaced_by_a_free_one_that_stays(any_lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        order = any_lab.start(SERVE, service=Service(taken, 80, node_port=taken))
        address = any_lab.run(any_lab.engine.service_address(order.workload_uid))
    assert address not in {"", f"127.0.0.1:{taken}"}
    any_lab.open()
    assert any_lab.run(any_lab.engine.service_address(order.workload_uid)) == address


def test_a_service_closes_with_its_last_pod(any_lab: Lab) -> None:
    order = any_lab.start(SERVE, service=Service(18080, 80))
    assert any_lab.run(any_lab.engine.service_address(order.workload_uid))
    any_lab.stop(order.pods[0].uid)
    any_lab.end(order.pods[0].uid)
    assert any_lab.run(any_lab.engine.service_address(order.workload_uid)) == ""


UDP = """python -c "
import os, socket
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind(('127.0.0.1', int(os.environ['PORT'])))
print('up', flush=True)
while True:
    data, peer = s.recvfrom(100)
    s.sendto(data.upper(), peer)
" """


def test_a_udp_service_is_forwarded_too(any_lab: Lab) -> None:
    order = any_lab.start(UDP, service=Service(18053, 53, protocol=PortProtocol.UDP))
    any_lab.says(order.pods[0].uid, "up")
    address = any_lab.run(any_lab.engine.service_address(order.workload_uid))
    host, _, port = address.rpartition(":")

    async def ask() -> bytes:
        loop = asyncio.get_running_loop()
        with socket.socket(type=socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as client:
            client.connect((host, int(port)))
            client.send(b"hello")
            async with asyncio.timeout(10):
                return await loop.sock_recv(client, 100)

    assert any_lab.run(ask()) == b"HELLO"
