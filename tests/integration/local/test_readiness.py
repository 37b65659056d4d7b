"""A replica gets traffic, and its turn in a rollout passes on, only when it is ready."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.local.harness import Harness, new_pods, revise
from tests.integration.local.test_services import answers

from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.spec import Kind, ReadinessSpec, Service
from stoker.engines.model import LaunchSpec
from stoker.engines.proxy.ports import find_free_ports
from stoker.engines.replicas.rollout import available_memory_bytes

GATED = """
until [ -e "$GATE" ]; do sleep 0.02; done
exec python -c '
import http.server, os
class Who(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        well = self.path == "/" or os.path.exists(os.environ["GATE"] + "-well")
        self.send_response(200 if well else 503)
        self.end_headers()
        self.wfile.write(os.environ["STOKER_POD_UID"].encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Who).serve_forever()
'"""
"""Listens once the file exists; every path but / is well once another one does."""


@pytest.fixture
def gate() -> Path:
    return Path("/var/tmp") / f"stoker-gate-{uuid.uuid4().hex}"  # a job has a /tmp of its own


@pytest.fixture(autouse=True)
def _close(gate: Path) -> Iterator[None]:
    yield
    for path in gate.parent.glob(f"{gate.name}*"):
        path.unlink()


def deployment(harness: Harness, script: str, replicas: int, **parts: object) -> LaunchSpec:
    parts = {"kind": Kind.DEPLOYMENT, "restart": True, "rolling": True, "grace_seconds": 5} | parts
    return harness.start(script, replicas=replicas, **parts)


def served(harness: Harness, gate: Path, replicas: int, **parts: object) -> LaunchSpec:
    """A service whose replicas are all ready."""
    gate.touch()
    [port] = find_free_ports(1)
    order = deployment(harness, GATED, replicas, service=Service(port, 80), env={"GATE": str(gate)}, **parts)
    for pod in order.pods:
        harness.until(pod.uid, lambda seen: seen.ready)
    return order


def revised(order: LaunchSpec, script: str = "", env: dict[str, str] | None = None) -> LaunchSpec:
    """The order at its next revision, with pods of its own."""
    devices = tuple(tuple(device.index or 0 for device in pod.devices) for pod in order.pods)
    pods = new_pods(order.ref.slug, len(order.pods), env or order.pods[0].env, devices)
    return revise(order, script or order.main.entry_point, pods)


def settle(harness: Harness) -> None:
    """Let everything happen that would happen at once."""
    harness.run(asyncio.sleep(0.3))


def test_a_replica_with_a_port_is_ready_once_its_port_answers(any_harness: Harness, gate: Path) -> None:
    [port] = find_free_ports(1)
    order = deployment(any_harness, GATED, 1, service=Service(port, 80), env={"GATE": str(gate)})
    uid = order.pods[0].uid
    any_harness.until(uid, lambda seen: seen.started_at is not None)
    settle(any_harness)
    assert not any_harness.seen[uid].ready
    gate.touch()
    assert any_harness.until(uid, lambda seen: seen.ready).message == ""


def test_a_replica_with_a_path_is_ready_once_the_path_answers_well(any_harness: Harness, gate: Path) -> None:
    gate.touch()
    [port] = find_free_ports(1)
    ready = ReadinessSpec("/health")
    order = deployment(any_harness, GATED, 1, service=Service(port, 80), readiness=ready, env={"GATE": str(gate)})
    uid = order.pods[0].uid
    seen = any_harness.until(uid, lambda seen: seen.port > 0 and seen.started_at is not None)
    assert any_harness.run(answers(f"127.0.0.1:{seen.port}", 1)) == {uid}
    settle(any_harness)
    assert not any_harness.seen[uid].ready
    gate.with_name(f"{gate.name}-well").touch()
    any_harness.until(uid, lambda seen: seen.ready)


def test_a_job_with_a_service_is_ready_as_soon_as_it_runs(any_harness: Harness) -> None:
    [port] = find_free_ports(1)
    uid = any_harness.job("sleep 600", service=Service(port, 80))
    any_harness.until(uid, lambda seen: seen.ready)


def test_no_replica_is_replaced_before_the_new_one_answers(any_harness: Harness, gate: Path) -> None:
    first = served(any_harness, gate, 2)
    address = any_harness.run(any_harness.engine.service_address(first.ref.uid))
    shut = gate.with_name(f"{gate.name}-second")
    second = revised(first, env={"GATE": str(shut)})
    any_harness.run(any_harness.engine.apply(second))
    any_harness.until(second.pods[0].uid, lambda seen: seen.started_at is not None)
    settle(any_harness)
    assert [any_harness.seen[pod.uid].ready for pod in first.pods] == [True, True]
    assert second.pods[1].uid not in any_harness.seen
    assert any_harness.run(answers(address, 2)) == {pod.uid for pod in first.pods}
    shut.touch()
    any_harness.until(second.pods[1].uid, lambda seen: seen.ready)
    for pod in first.pods:
        any_harness.end(pod.uid)
    assert any_harness.run(answers(address, 2)) == {pod.uid for pod in second.pods}


def test_a_revision_that_exits_costs_no_replica(any_harness: Harness, gate: Path) -> None:
    first = served(any_harness, gate, 2)
    address = any_harness.run(any_harness.engine.service_address(first.ref.uid))
    broken = revised(first, "exit 3")
    any_harness.run(any_harness.engine.apply(broken))
    any_harness.until(broken.pods[0].uid, lambda seen: seen.restarts == 1)
    assert [any_harness.seen[pod.uid].ready for pod in first.pods] == [True, True]
    assert broken.pods[1].uid not in any_harness.seen
    assert any_harness.run(answers(address, 2)) == {pod.uid for pod in first.pods}


def test_a_replica_with_a_gpu_gives_it_up_first_and_the_others_wait(any_harness: Harness, gate: Path) -> None:
    gpu = Resources(MILLI, 1000, 2**29)
    first = served(any_harness, gate, 2, resources=gpu, devices=((0,), (1,)))
    broken = revised(first, "exit 3")
    any_harness.run(any_harness.engine.apply(broken))
    any_harness.until(broken.pods[0].uid, lambda seen: seen.restarts == 1)
    ended, began = any_harness.seen[first.pods[0].uid].ended_at, any_harness.seen[broken.pods[0].uid].started_at
    assert ended is not None
    assert began is not None
    assert ended <= began
    assert any_harness.seen[first.pods[1].uid].ready
    assert broken.pods[1].uid not in any_harness.seen


def test_a_restart_of_the_server_in_the_middle_changes_nothing(any_harness: Harness, gate: Path) -> None:
    first = served(any_harness, gate, 2)
    shut = gate.with_name(f"{gate.name}-second")
    second = revised(first, env={"GATE": str(shut)})
    any_harness.run(any_harness.engine.apply(second))
    any_harness.until(second.pods[0].uid, lambda seen: seen.started_at is not None)
    any_harness.history.clear()
    any_harness.open()
    assert [any_harness.until(pod.uid, lambda _: True).ready for pod in first.pods] == [True, True]
    any_harness.run(any_harness.engine.apply(second))
    settle(any_harness)
    old = {pod.uid for pod in first.pods}
    assert all(seen.ready for seen in any_harness.history if seen.uid in old)
    assert second.pods[1].uid not in any_harness.seen
    shut.touch()
    any_harness.until(second.pods[1].uid, lambda seen: seen.ready)
    any_harness.end(first.pods[1].uid)


def test_a_replica_that_runs_again_is_not_ready_until_it_answers_again(any_harness: Harness, gate: Path) -> None:
    order = served(any_harness, gate, 1)
    uid = order.pods[0].uid
    gate.unlink()
    any_harness.run(any_harness.engine.execute(uid, ["pkill", "-f", "http.server"], tty=False, columns=80, rows=24))
    any_harness.until(uid, lambda seen: seen.restarts == 1 and not seen.message)
    settle(any_harness)
    assert not any_harness.seen[uid].ready
    gate.touch()
    any_harness.until(uid, lambda seen: seen.ready)


def test_fewer_replicas_do_not_wait_for_one_that_is_not_ready(any_harness: Harness) -> None:
    order = deployment(any_harness, "exit 3", 2)
    any_harness.until(order.pods[1].uid, lambda seen: seen.restarts == 1)
    any_harness.run(any_harness.engine.apply(msgspec.structs.replace(order, pods=order.pods[:1])))
    any_harness.end(order.pods[1].uid)
    assert not any_harness.seen[order.pods[0].uid].phase.is_finished


def test_available_memory_is_what_the_kernel_says() -> None:
    assert available_memory_bytes("MemTotal: 8 kB\nMemAvailable:    3 kB\n") == 3 * 1024
    assert available_memory_bytes("MemTotal: 8 kB\n") == 0
    assert available_memory_bytes() > 0
