"""The address of a service leads to its replicas for as long as there are some."""

import asyncio

from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import HOUR, Program

from stoker.domain.workload.spec import Kind, Service
from stoker.engines.model import LaunchSpec
from stoker.engines.proxy.ports import find_free_ports


def start_service(harness: ConformanceHarness, replicas: int) -> LaunchSpec:
    [port] = find_free_ports(1)
    program = Program(harness.fixture.answer_script, HOUR)
    launch_spec = harness.start(program, kind=Kind.DEPLOYMENT, replicas=replicas, service=Service(port, 8080))
    for uid in harness.uids(launch_spec):
        harness.ready(uid)
    return launch_spec


def address_of(harness: ConformanceHarness, launch_spec: LaunchSpec) -> str:
    return harness.run(harness.engine.service_address(launch_spec.ref.uid))


async def ask(address: str) -> str:
    """What is answered at an address; empty if nobody answers."""
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            return (await reader.read()).decode().strip()
        finally:
            writer.close()
    except OSError:
        return ""


def answers(harness: ConformanceHarness, address: str, wanted: set[str]) -> None:
    """Wait until all of these have answered."""
    missing = set(wanted)

    def is_complete() -> bool:
        missing.discard(harness.run(ask(address)))
        return not missing

    harness.wait(is_complete, "an answer of every replica")


class TestServices:
    def test_an_address_exists_while_replicas_do(self, harness: ConformanceHarness) -> None:
        assert address_of(harness, harness.specs.build(Program("true", HOUR))) == ""
        launch_spec = start_service(harness, 1)
        address = harness.wait(lambda: address_of(harness, launch_spec), "an address")
        assert address.rpartition(":")[2].isdigit()
        harness.reopen()
        harness.ready(harness.uid(launch_spec))
        assert harness.wait(lambda: address_of(harness, launch_spec), "an address") == address
        harness.terminate(launch_spec)
        harness.ended(harness.uid(launch_spec))
        harness.wait(lambda: address_of(harness, launch_spec) == "", "that the address is closed")

    @needs(Feature.PROGRAMS)
    def test_all_replicas_answer_also_after_a_restart(self, harness: ConformanceHarness) -> None:
        launch_spec = start_service(harness, 2)
        uids = set(harness.uids(launch_spec))
        address = address_of(harness, launch_spec)
        answers(harness, address, uids)
        assert {endpoint.pod_uid for endpoint in harness.engine.service_endpoints()} == uids
        assert all(harness.view.pods[uid].port for uid in uids)
        harness.reopen()
        for uid in uids:
            harness.ready(uid)
        answers(harness, address, uids)

    @needs(Feature.PROGRAMS)
    def test_a_replica_is_ready_once_its_port_answers(self, harness: ConformanceHarness) -> None:
        [port] = find_free_ports(1)
        launch_spec = harness.start(Program("exec sleep 600"), kind=Kind.DEPLOYMENT, service=Service(port, 8080))
        uid = harness.uid(launch_spec)
        harness.running(uid)
        harness.settle()
        assert not harness.view.pods[uid].ready

    @needs(Feature.PROGRAMS)
    def test_a_service_answers_all_through_an_update(self, harness: ConformanceHarness) -> None:
        old = start_service(harness, 1)
        address = address_of(harness, old)
        answers(harness, address, set(harness.uids(old)))
        new = harness.apply(harness.specs.next_revision(old, Program(harness.fixture.answer_script)))
        heard: list[str] = []

        def is_replaced() -> bool:
            heard.append(harness.run(ask(address)))
            return harness.view.pods[harness.uid(old)].phase.is_finished

        harness.wait(is_replaced, "the end of the old replica")
        heard.append(harness.run(ask(address)))
        assert set(heard) == {harness.uid(old), harness.uid(new)}
