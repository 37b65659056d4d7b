"""The port at which the ranks of an attempt meet belongs to nobody else on this machine."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.local.harness import Harness, new_order

from stoker.domain.workload.spec import Kind, Service
from stoker.engines.model import LaunchSpec
from stoker.engines.pod_env import RENDEZVOUS_PORTS
from stoker.engines.proxy import ports

SAY = 'echo "port $MASTER_PORT $PET_MASTER_PORT"; exec sleep 600'


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of the range on which another program listens."""
    port = next(port for port in RENDEZVOUS_PORTS if ports.is_free(port) and ports.is_free(port + 1))
    with socket.create_server(("127.0.0.1", port)):
        yield port


def told(harness: Harness, order: LaunchSpec) -> list[int]:
    """The port that each pod was told."""
    found = []
    for pod in order.pods:
        [line] = [line for line in harness.says(pod.uid, "port ") if line.startswith("port ")]
        _, first, second = line.split()
        assert first == second
        found.append(int(first))
    return found


def meeting_at(port: int, **parts: Any) -> LaunchSpec:
    env = {"MASTER_PORT": str(port), "PET_MASTER_PORT": str(port)}
    return new_order(SAY, env=env, **parts)


def test_the_port_that_was_proposed_is_taken_when_it_is_free(any_harness: Harness) -> None:
    free = next(port for port in RENDEZVOUS_PORTS if ports.is_free(port))
    order = meeting_at(free, kind=Kind.PYTORCH_JOB, replicas=2)
    any_harness.run(any_harness.engine.apply(order))
    assert told(any_harness, order) == [free, free]


def test_ranks_meet_at_another_port_where_a_program_listens_on_theirs(any_harness: Harness, taken: int) -> None:
    order = meeting_at(taken, kind=Kind.PYTORCH_JOB, replicas=3)
    any_harness.run(any_harness.engine.apply(order))
    [port] = set(told(any_harness, order))
    assert port != taken
    assert port in RENDEZVOUS_PORTS


def test_two_workloads_never_meet_at_one_port_also_after_a_restart(any_harness: Harness) -> None:
    free = next(port for port in RENDEZVOUS_PORTS if ports.is_free(port))
    first, second = meeting_at(free), meeting_at(free)
    any_harness.run(any_harness.engine.apply(first))
    any_harness.open()
    any_harness.run(any_harness.engine.apply(second))
    assert told(any_harness, first) != told(any_harness, second)


def test_replicas_of_a_service_are_worlds_of_their_own_and_share_no_port(any_harness: Harness) -> None:
    free = next(port for port in RENDEZVOUS_PORTS if ports.is_free(port))
    order = meeting_at(free, kind=Kind.DEPLOYMENT, replicas=2, rolling=True, restart=True)
    any_harness.run(any_harness.engine.apply(order))
    assert len(set(told(any_harness, order))) == 2


def test_services_and_ranks_have_ranges_of_their_own(any_harness: Harness) -> None:
    order = new_order(SAY, kind=Kind.DEPLOYMENT, replicas=2, restart=True, service=Service(18082, 80))
    any_harness.run(any_harness.engine.apply(order))
    for pod in order.pods:
        assert any_harness.until(pod.uid, lambda pod: pod.port > 0).port not in RENDEZVOUS_PORTS
    assert not set(RENDEZVOUS_PORTS) & set(range(ports.FIRST_SERVICE_PORT, ports.LAST_SERVICE_PORT + 1))


def test_a_service_does_not_take_the_port_at_which_ranks_meet(any_harness: Harness) -> None:
    """The ranks have not listened yet when the service is opened."""
    free = next(port for port in RENDEZVOUS_PORTS if ports.is_free(port))
    ranks = meeting_at(free, kind=Kind.PYTORCH_JOB, replicas=2)
    any_harness.run(any_harness.engine.apply(ranks))
    assert set(told(any_harness, ranks)) == {free}
    order = new_order(SAY, kind=Kind.DEPLOYMENT, restart=True, service=Service(free, 80))
    any_harness.run(any_harness.engine.apply(order))
    address = any_harness.run(any_harness.engine.service_address(order.ref.uid))
    assert address
    assert not address.endswith(f":{free}")
    assert f"port {free} is that of the ranks of {ranks.ref.slug}" in any_harness.remarked().message


def test_ranks_do_not_meet_at_the_port_that_a_replica_was_given(any_harness: Harness) -> None:
    free = next(port for port in RENDEZVOUS_PORTS if ports.is_free(port))
    env = {"PORT": str(free)}
    order = new_order(SAY, kind=Kind.DEPLOYMENT, restart=True, service=Service(18_083, 80), env=env)
    any_harness.run(any_harness.engine.apply(order))
    ranks = meeting_at(free, kind=Kind.PYTORCH_JOB)
    any_harness.run(any_harness.engine.apply(ranks))
    assert told(any_harness, ranks) != [free]
