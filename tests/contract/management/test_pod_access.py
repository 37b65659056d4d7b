"""Containers and shells of a pod, and the service that leads to it."""

import asyncio
import shutil
import socket

import httpx
import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import WAIT, QueueHarness, RunningHarness

SERVER = "exec python3 -m http.server $PORT --bind 127.0.0.1"


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize(
    ("kind", "container"),
    [
        ("PyTorchJob", "pytorch"),
        ("Authoring", "pytorch"),
        ("Job", "main"),
        ("Deployment", "main"),
        ("StatefulSet", "main"),
    ],
)
def test_the_main_container_has_the_name_of_its_kind(works: RunningHarness, kind: str, container: str) -> None:
    ref = works.submit(kind=kind, run=WAIT)
    [pod] = works.running(ref)["pods"]
    answer = works.get(f"{MANAGEMENT_PATH}/{ref}/pods/{pod['podId']}/containers", as_="viewer")
    assert (answer.status_code, answer.json()["containers"]) == (200, [{"name": container}])
    works.stop(ref)


def test_the_shells_are_those_that_exist(works: RunningHarness) -> None:
    ref = works.submit(run=WAIT)
    [pod] = works.running(ref)["pods"]
    path = f"{MANAGEMENT_PATH}/{ref}/pods/{pod['podId']}/containers"
    shells = works.get(path, as_="member").json()["shells"]
    assert "sh" in shells
    assert all(shutil.which(shell) for shell in shells)
    works.stop(ref)
    works.ended(ref)
    assert works.get(path, as_="member").json() == {"containers": [{"name": "pytorch"}], "shells": []}


def test_a_workload_without_a_service_has_none(harness: QueueHarness) -> None:
    ref = harness.submit()
    answer = harness.get(f"{MANAGEMENT_PATH}/{ref}/service", as_="member")
    assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")
    assert answer.json()["errorMessage"] == f'Workload "{ref}" has no service.'


def _ask(works: RunningHarness, ref: str) -> httpx.Response | None:
    """What answers at the workload's service; None while nothing does."""
    place = works.get(f"{MANAGEMENT_PATH}/{ref}/service", as_="member").json()
    [port] = place["ports"]
    if not place["clusterIP"]:
        return None

    async def ask() -> httpx.Response | None:
        async with httpx.AsyncClient() as client:
            try:
                return await client.get(f"http://{place['clusterIP']}:{port['port']}/who", timeout=5)
            except httpx.HTTPError:
                return None

    return works.run(ask())


def answers(works: RunningHarness, ref: str) -> httpx.Response:
    """The first answer that comes through the service."""
    found: list[httpx.Response] = []

    def try_it() -> bool:
        found.extend(answer for answer in [_ask(works, ref)] if answer is not None)
        return bool(found)

    works.until(try_it, "the service answers")
    return found[0]


def test_a_request_goes_through_the_service_to_the_replica(works: RunningHarness) -> None:
    wanted = free_port()
    ref = works.submit(kind="Deployment", run=f"echo $POD_NAME > who; {SERVER}", service={"port": wanted})
    works.running(ref)
    answer = answers(works, ref)
    assert (answer.status_code, answer.text) == (200, f"{ref}-0\n")
    place = works.get(f"{MANAGEMENT_PATH}/{ref}/service", as_="viewer").json()
    assert (place["serviceName"], place["clusterIP"]) == (ref, "127.0.0.1")
    assert place["ports"] == [{"name": "http", "port": wanted, "targetPort": wanted, "protocol": "TCP"}]
    works.stop(ref)
    works.ended(ref)
    assert _ask(works, ref) is None


def test_a_service_goes_on_with_the_replicas_that_are_up(works: RunningHarness) -> None:
    """Each replica has a port and a folder of its own; one of the two never listens."""
    serve = f"mkdir $POD_NAME; cd $POD_NAME; echo $POD_NAME > who; case $POD_NAME in *-1) {WAIT};; esac; {SERVER}"
    ref = works.submit(kind="Deployment", replica=2, run=serve, service={"port": free_port(), "targetPort": 80})
    answers(works, ref)
    assert works.detail(ref)["phase"] == "Pending"
    assert {answer.text for _ in range(6) if (answer := _ask(works, ref))} == {f"{ref}-0\n"}
    works.stop(ref)


def test_two_services_on_one_port_both_answer(works: RunningHarness) -> None:
    wanted = free_port()
    refs = [
        works.submit(kind="Deployment", run=f"echo $POD_NAME > who; {SERVER}", service={"port": wanted})
        for _ in range(2)
    ]
    for ref in refs:
        works.running(ref)
    assert [answers(works, ref).text for ref in refs] == [f"{ref}-0\n" for ref in refs]
    ports = [works.get(f"{MANAGEMENT_PATH}/{ref}/service", as_="member").json()["ports"][0]["port"] for ref in refs]
    assert len(set(ports)) == 2
    [other] = [number for number, port in enumerate(ports) if port != wanted]
    said = f"the service answers at 127.0.0.1:{ports[other]}: port {wanted} is that of the service of {refs[1 - other]}"
    works.until(lambda: works.detail(refs[other])["message"] == said, "it says which port it got")
    assert ("ServicePortTaken", said) in {
        (each["reason"], each["message"]) for each in works.detail(refs[other])["conditions"]
    }
    assert works.detail(refs[1 - other])["message"] == ""
    works.stop(*refs)


def test_a_port_is_given_only_with_a_service_and_the_users_own_wins(works: RunningHarness) -> None:
    for fields, printed in (({}, "[]"), ({"env": {"PORT": "1234"}, "service": {"port": free_port()}}, "[1234]")):
        shown = works.finished(run="echo [$PORT]", **fields)
        assert works.printed(shown["workloadId"]) == [printed]
    shown = works.finished(run="echo $PORT", service={"port": free_port()})
    assert int(works.printed(shown["workloadId"])[0]) > 1024


def test_a_service_has_no_address_before_it_is_up(works: RunningHarness) -> None:
    ref = works.submit(run="true", service={"port": 8080}, startAfter="2099-01-01T00:00:00Z")
    works.run(asyncio.sleep(0))
    place = works.get(f"{MANAGEMENT_PATH}/{ref}/service", as_="member").json()
    assert place == {
        "serviceName": ref,
        "clusterIP": "",
        "ports": [{"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"}],
    }
    works.stop(ref)
