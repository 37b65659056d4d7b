"""Replicas meet over their network, services reach them, and updates replace them one by one."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs
from tests.engines.docker.harness import DockerHarness, new_pods, new_spec

from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Kind, ReadinessSpec, Service
from stoker.engines.docker.config import HOST_NETWORK
from stoker.engines.model import LaunchSpec, ObservedPod

MEET = """
if [ "$RANK" = 0 ]; then echo hello from 0 | nc -l -p $MASTER_PORT; echo met
else for i in $(seq 100); do nc $MASTER_ADDR $MASTER_PORT </dev/null && exit 0; usleep 100000; done; exit 1; fi
"""
ANSWER = "while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\n%s' {text} | nc -l -p $PORT >/dev/null; done"


@pytest.mark.parametrize("network", ["", HOST_NETWORK])
def test_two_replicas_meet_at_rank_zero(harness: DockerHarness, network: str) -> None:
    harness.open(network=network)
    spec = harness.launch(MEET, kind=Kind.PYTORCH_JOB, replicas=2)
    for pod in spec.pods:
        ended = harness.end(pod.uid)
        assert ended.phase is PodPhase.SUCCEEDED, harness.lines(pod.uid)
    assert harness.lines(spec.pods[0].uid) == ["met"]
    assert harness.lines(spec.pods[1].uid) == ["hello from 0"]


def test_replicas_that_do_not_meet_may_end_at_once(harness: DockerHarness) -> None:
    spec = harness.launch("exit 0", kind=Kind.PYTORCH_JOB, replicas=3)
    for pod in spec.pods:
        assert harness.end(pod.uid).exit_code == 0


async def ask(address: str) -> str:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    data = await reader.read()
    writer.close()
    return data.decode().rpartition("\r\n")[2]


def answers(harness: DockerHarness, spec: LaunchSpec, count: int = 1) -> set[str]:
    async def main() -> set[str]:
        found = set()
        async with asyncio.timeout(20):
            while len(found) < count:
                address = await harness.engine.service_address(spec.ref.uid)
                try:
                    found.add(await ask(address))
                except OSError:
                    await asyncio.sleep(0.05)
                found.discard("")
        return found

    return harness.run(main())


@pytest.mark.parametrize("network", ["", HOST_NETWORK])
def test_a_service_reaches_its_ready_replicas(harness: DockerHarness, network: str) -> None:
    harness.open(network=network)
    spec = harness.launch(
        "sleep 1; " + ANSWER.format(text="$RANK"),
        kind=Kind.DEPLOYMENT,
        replicas=2,
        service=Service(18_080, 8000),
        rolling=True,
        restart=True,
    )
    uids = [pod.uid for pod in spec.pods]
    for uid in uids:
        harness.running(uid)
    assert not any(pod.ready for pod in harness.history), "nothing listens yet"
    for uid in uids:
        harness.until(uid, lambda pod: pod.ready)
    assert answers(harness, spec, 2) == {"0", "1"}
    assert {endpoint.pod_uid for endpoint in harness.engine.service_endpoints()} == set(uids)
    before = harness.run(harness.engine.service_address(spec.ref.uid))

    harness.kill_engine()
    harness.history.clear()
    harness.open()
    harness.wait(lambda: set(uids) <= set(harness.seen))
    assert all(pod.ready for pod in harness.history if pod.uid in uids), "a restart takes no replica out of service"
    assert harness.run(harness.engine.service_address(spec.ref.uid)) == before
    assert answers(harness, spec, 2) == {"0", "1"}


def test_readiness_asks_for_the_path(harness: DockerHarness) -> None:
    script = "while :; do printf 'HTTP/1.0 503 Busy\\r\\n\\r\\n' | nc -l -p $PORT >/dev/null; done"
    spec = harness.launch(
        script,
        kind=Kind.DEPLOYMENT,
        service=Service(18_081, 8000),
        readiness=ReadinessSpec("/health"),
        rolling=True,
        restart=True,
    )
    seen = harness.until(spec.pods[0].uid, lambda pod: "answers 503" in pod.message, 25.0)
    assert not seen.ready


def test_an_update_replaces_replicas_one_by_one(harness: DockerHarness) -> None:
    first = harness.launch(
        ANSWER.format(text="old"),
        kind=Kind.DEPLOYMENT,
        replicas=2,
        service=Service(18_082, 8000),
        rolling=True,
        restart=True,
        grace_seconds=1.0,
    )
    for pod in first.pods:
        harness.until(pod.uid, lambda seen: seen.ready)
    assert answers(harness, first) == {"old"}
    harness.history.clear()
    second = _revised(first, ANSWER.format(text="new"))
    harness.run(harness.engine.apply(second))
    harness.run(harness.engine.apply(second))
    for pod in second.pods:
        harness.until(pod.uid, lambda seen: seen.ready)
    for pod in first.pods:
        harness.end(pod.uid)
    assert answers(harness, second) == {"new"}
    old, new = ([pod.uid for pod in spec.pods] for spec in (first, second))
    ended = {uid: _first(harness, uid, lambda pod: pod.phase.is_finished) for uid in old}
    ready = {uid: _first(harness, uid, lambda pod: pod.ready) for uid in new}
    assert ready[new[0]] < ended[old[0]] < ready[new[1]] < ended[old[1]], "each waits for its replacement"


def test_an_update_whose_pods_are_never_ready_leaves_the_others_alone(harness: DockerHarness) -> None:
    first = harness.launch(
        ANSWER.format(text="old"),
        kind=Kind.DEPLOYMENT,
        replicas=2,
        service=Service(18_083, 8000),
        rolling=True,
        restart=True,
        grace_seconds=1.0,
    )
    for pod in first.pods:
        harness.until(pod.uid, lambda seen: seen.ready)
    second = _revised(first, "sleep 600")
    harness.run(harness.engine.apply(second))
    harness.running(second.pods[0].uid)
    harness.run(asyncio.sleep(1.5))
    assert all(harness.seen[pod.uid].ready for pod in first.pods)
    assert second.pods[1].uid not in harness.seen or not harness.seen[second.pods[1].uid].ready
    assert answers(harness, first) == {"old"}


def test_a_replica_without_a_port_is_ready_after_a_while(harness: DockerHarness) -> None:
    uid = harness.pod("sleep 600", kind=Kind.DEPLOYMENT, rolling=True, restart=True)
    assert not harness.running(uid).ready
    harness.until(uid, lambda pod: pod.ready)


def test_a_revision_that_keeps_its_pods_takes_them_over(harness: DockerHarness) -> None:
    spec = harness.launch("sleep 600", kind=Kind.DEPLOYMENT, rolling=True, restart=True)
    uid = spec.pods[0].uid
    harness.running(uid)
    newer = structs.replace(spec, ref=structs.replace(spec.ref, revision=2))
    harness.run(harness.engine.apply(newer))
    assert harness.until(uid, lambda pod: pod.revision == 2).phase is PodPhase.RUNNING
    harness.run(harness.engine.apply(spec))
    assert len(harness.containers()) == 1


def _first(harness: DockerHarness, uid: str, check: Callable[[ObservedPod], bool]) -> int:
    """Which report was the first in which this was true."""
    return next(number for number, pod in enumerate(harness.history) if pod.uid == uid and check(pod))


def _revised(spec: LaunchSpec, script: str) -> LaunchSpec:
    return structs.replace(
        new_spec(script),
        ref=structs.replace(spec.ref, revision=spec.ref.revision + 1),
        kind=spec.kind,
        replicas=spec.replicas,
        pods=new_pods(spec.ref.slug, spec.replicas),
        service=spec.service,
        rolling_update=True,
        restart_on_exit=True,
        grace_seconds=spec.grace_seconds,
    )
