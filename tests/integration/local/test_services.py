"""A service's port leads to the replicas that are up."""

import asyncio
import socket
import time

import msgspec
from tests.integration.local.harness import Harness, new_order

from stoker.domain.workload.spec import Kind, PortProtocol, Service
from stoker.engines.proxy.ports import find_free_ports

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


def test_connections_go_to_all_replicas_that_are_up_in_turn(any_harness: Harness) -> None:
    [port] = find_free_ports(1)
    order = any_harness.start(WHO, kind=Kind.DEPLOYMENT, replicas=2, restart=True, service=Service(port, 8000))
    address = any_harness.run(any_harness.engine.service_address(order.ref.uid))
    assert address == f"127.0.0.1:{port}"
    uids = {pod.uid for pod in order.pods}
    assert any_harness.run(answers(address, 2)) == uids
    ports = {any_harness.seen[uid].port for uid in uids}
    assert len(ports) == 2
    assert 0 not in ports
    any_harness.open()
    assert any_harness.run(any_harness.engine.service_address(order.ref.uid)) == address
    assert any_harness.run(answers(address, 2)) == uids
    assert {any_harness.seen[uid].port for uid in uids} == ports


def test_a_replica_that_does_not_answer_is_passed_over(any_harness: Harness) -> None:
    silent = f"case $PWD in */0) exec sleep 600;; esac\n{WHO}"
    order = any_harness.start(silent, kind=Kind.DEPLOYMENT, replicas=3, restart=True, service=Service(18081, 80))
    address = any_harness.run(any_harness.engine.service_address(order.ref.uid))
    heard = any_harness.run(answers(address, 2))
    assert len(heard) == 2
    for _ in range(6):
        assert any_harness.run(ask(address)) in heard


def test_a_taken_port_is_replaced_by_a_free_one_that_stays(any_harness: Harness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        order = any_harness.start(SERVE, service=Service(taken, 80, node_port=taken))
        address = any_harness.run(any_harness.engine.service_address(order.ref.uid))
    assert address not in {"", f"127.0.0.1:{taken}"}
    remark = any_harness.remarked()
    assert (remark.workload_uid, remark.reason, remark.pending_pods) == (order.ref.uid, "ServicePortTaken", ())
    assert remark.message.startswith(f"the service answers at {address}: port {taken} is taken by another program")
    any_harness.open()
    assert any_harness.run(any_harness.engine.service_address(order.ref.uid)) == address


def test_a_second_service_says_which_port_it_got_and_who_has_the_one_it_wanted(any_harness: Harness) -> None:
    [port] = find_free_ports(1)
    first = any_harness.start(SERVE, service=Service(port, 80))
    assert any_harness.run(any_harness.engine.service_address(first.ref.uid)) == f"127.0.0.1:{port}"
    second = any_harness.start(SERVE, service=Service(port, 80))
    address = any_harness.run(any_harness.engine.service_address(second.ref.uid))
    said = any_harness.remarked().message
    assert said == f"the service answers at {address}: port {port} is that of the service of {first.ref.slug}"


def test_a_replica_is_told_to_listen_on_loopback_and_one_that_does_not_is_told_of(any_harness: Harness) -> None:
    [port] = find_free_ports(1)
    script = 'echo host=$HOST; exec python -m http.server --bind "${BIND:-$HOST}" $PORT'
    shown = {"kind": Kind.DEPLOYMENT, "restart": True}
    kept = any_harness.start(script, service=Service(port, 80), **shown)
    any_harness.says(kept.pods[0].uid, "host=127.0.0.1")
    any_harness.until(kept.pods[0].uid, lambda seen: seen.ready)
    assert any_harness.remarks == []
    [port] = find_free_ports(1)
    open_to_all = any_harness.start(script, service=Service(port, 80), env={"BIND": "0.0.0.0"}, **shown)  # noqa: S104
    remark = any_harness.remarked()
    assert (remark.workload_uid, remark.reason) == (open_to_all.ref.uid, "ListensBeyondLoopback")


def test_a_replica_that_finds_its_address_in_use_is_pointed_to_its_port(any_harness: Harness) -> None:
    [port] = find_free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        clash = f"exec python -m http.server --bind 127.0.0.1 {server.getsockname()[1]}"
        served = any_harness.start(clash, kind=Kind.DEPLOYMENT, restart=True, service=Service(port, 80)).pods[0].uid
        alone = any_harness.start(clash, kind=Kind.DEPLOYMENT, restart=True).pods[0].uid
        said = any_harness.until(served, lambda seen: "in use" in seen.message)
        own = f"Let it listen on the port in $PORT ({said.port}), which this replica has for itself."
        assert said.message.endswith(f"It found its address in use. {own}")
        assert "Give the workload a service" in any_harness.until(alone, lambda seen: "in use" in seen.message).message
        broken = any_harness.start("exit 3", kind=Kind.DEPLOYMENT, restart=True).pods[0].uid
        assert "in use" not in any_harness.until(broken, lambda seen: bool(seen.message)).message


def test_replicas_have_working_directories_of_their_own_that_their_successors_keep(any_harness: Harness) -> None:
    script = "echo $POD_NAME >> who; pwd; [ $HOME = $PWD ] && cat who; sleep 600"
    order = new_order(script, kind=Kind.DEPLOYMENT, replicas=2, restart=True, rolling=True)
    pods = [msgspec.structs.replace(pod, env={"POD_NAME": pod.name}) for pod in order.pods]
    order = msgspec.structs.replace(order, pods=tuple(pods))
    any_harness.run(any_harness.engine.apply(order))
    folders = [any_harness.says(pod.uid, pod.name)[0] for pod in order.pods]
    assert [folder.rpartition(f"/{order.ref.slug}/")[2] for folder in folders] == ["0", "1"]
    assert [any_harness.lines(pod.uid)[1:] for pod in order.pods] == [[pod.name] for pod in order.pods]
    job = any_harness.start(script, replicas=2)
    assert len({any_harness.says(pod.uid, job.ref.slug)[0] for pod in job.pods}) == 1


def test_a_service_closes_with_its_last_pod(any_harness: Harness) -> None:
    order = any_harness.start(SERVE, service=Service(18080, 80))
    assert any_harness.run(any_harness.engine.service_address(order.ref.uid))
    any_harness.stop(order.pods[0].uid)
    any_harness.end(order.pods[0].uid)
    assert any_harness.run(any_harness.engine.service_address(order.ref.uid)) == ""


UDP = """python -c "
import os, socket
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind(('127.0.0.1', int(os.environ['PORT'])))
print('up', flush=True)
while True:
    data, peer = s.recvfrom(100)
    s.sendto(data.upper(), peer)
" """


def test_a_udp_service_is_forwarded_too(any_harness: Harness) -> None:
    order = any_harness.start(UDP, service=Service(18053, 53, protocol=PortProtocol.UDP))
    any_harness.says(order.pods[0].uid, "up")
    address = any_harness.run(any_harness.engine.service_address(order.ref.uid))
    host, _, port = address.rpartition(":")

    async def ask() -> bytes:
        loop = asyncio.get_running_loop()
        with socket.socket(type=socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as client:
            client.connect((host, int(port)))
            client.send(b"hello")
            async with asyncio.timeout(10):
                return await loop.sock_recv(client, 100)

    assert any_harness.run(ask()) == b"HELLO"
