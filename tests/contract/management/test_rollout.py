"""A new revision replaces replicas only as it becomes ready, and gives way when it does not."""

from typing import Any

import httpx
import pytest
from tests.api.harness import MANAGEMENT_PATH, V1
from tests.contract.management.harness import WAIT, QueueHarness, RunningHarness, encoded

ANSWERS = 'exec python -m http.server --bind 127.0.0.1 "$PORT"'
NEVER_ANSWERS = f"echo silent; {WAIT}"


def patched(harness: QueueHarness, ref: str, **fields: Any) -> None:
    answer = harness.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json=fields)
    assert answer.status_code == 204, answer.text


def rolled_back(harness: QueueHarness, ref: str, as_: str = "member") -> httpx.Response:
    return harness.post(f"{V1}/workloads/{ref}/rollback", as_=as_)


def deployed(works: RunningHarness, **fields: Any) -> str:
    ref = works.submit(**{"kind": "Deployment", "replica": 2, "run": ANSWERS, "service": {"port": 8000}} | fields)
    works.running(ref)
    return ref


def alive(works: RunningHarness, ref: str) -> set[str]:
    return {pod.uid for pod in works.pods(ref) if not pod.phase.is_finished and pod.ready}


@pytest.mark.parametrize("broken", ["exit 3", NEVER_ANSWERS], ids=["exits", "is silent"])
def test_a_revision_that_is_not_ready_in_time_is_rolled_back_and_no_replica_was_lost(
    works: RunningHarness, broken: str
) -> None:
    ref = deployed(works)
    good = alive(works, ref)
    patched(works, ref, entryPoint=encoded(broken), readiness={"timeout": 2})
    works.until(lambda: "is back as revision 3" in works.detail(ref)["message"], "rolled back")
    shown = works.reach(ref, "Running")
    assert (shown["entryPoint"], "readiness" in shown) == (ANSWERS, False)
    assert "RolledBack" in {each["reason"] for each in shown["conditions"]}
    assert alive(works, ref) == good
    works.stop(ref)


def test_an_earlier_revision_comes_back_when_somebody_asks_for_it(works: RunningHarness) -> None:
    ref = deployed(works, env={"V": "1"})
    patched(works, ref, env={"V": "2"})
    works.reach(ref, "Running")
    assert rolled_back(works, ref).status_code == 204
    shown = works.reach(ref, "Running")
    assert shown["env"] == {"V": "1"}
    assert "returned to revision 1 by member" in {each["message"] for each in shown["conditions"]}
    assert rolled_back(works, ref).status_code == 204
    assert works.reach(ref, "Running")["env"] == {"V": "2"}
    works.stop(ref)


def test_while_replicas_are_replaced_the_pods_are_those_that_run(works: RunningHarness) -> None:
    ref = deployed(works)
    patched(works, ref, entryPoint=encoded(NEVER_ANSWERS))
    works.until(lambda: any(pod.revision == 2 and pod.started_at for pod in works.pods(ref)), "the new one begins")
    shown = works.detail(ref)
    assert (shown["phase"], [pod["phase"] for pod in shown["pods"]]) == ("Updating", ["Running", "Running"])
    assert shown["ranks"] == [["0", "1"]]
    assert "silent" not in "".join(works.printed(ref, f"{ref}-0"))
    works.stop(ref)


def test_a_rollback_in_the_middle_keeps_the_replicas_that_were_there(works: RunningHarness) -> None:
    ref = deployed(works)
    good = alive(works, ref)
    patched(works, ref, entryPoint=encoded(NEVER_ANSWERS))
    works.until(lambda: any(pod.revision == 2 and pod.started_at for pod in works.pods(ref)), "the new one begins")
    assert rolled_back(works, ref).status_code == 204
    works.reach(ref, "Running")
    assert alive(works, ref) == good
    works.stop(ref)


def test_what_has_no_earlier_revision_is_not_rolled_back(harness: QueueHarness) -> None:
    for kind, why in (("Deployment", "no earlier revision is kept"), ("Job", "this is a Job")):
        answer = rolled_back(harness, harness.submit(kind=kind))
        assert answer.status_code == 409
        assert why in answer.json()["error"]["message"]


def test_what_waits_is_rolled_back_in_place(harness: QueueHarness) -> None:
    ref = harness.submit(kind="Deployment", env={"V": "1"})
    patched(harness, ref, env={"V": "2"})
    assert rolled_back(harness, ref).status_code == 204
    assert (harness.detail(ref)["env"], harness.detail(ref)["phase"]) == ({"V": "1"}, "Pending")


def test_readiness_is_taken_shown_changed_and_taken_away(harness: QueueHarness) -> None:
    asked = {"path": "/health", "timeout": 30}
    ref = harness.submit(kind="Deployment", service={"port": 8000}, readiness=asked)
    assert harness.detail(ref)["readiness"] == asked
    patched(harness, ref, readiness={"path": "/ready"})
    assert harness.detail(ref)["readiness"] == {"path": "/ready", "timeout": 0}
    patched(harness, ref, readiness=None)
    assert "readiness" not in harness.detail(ref)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kind": "Deployment", "readiness": {"path": "/health"}}, "readiness.path"),
        (
            {"kind": "Deployment", "service": {"port": 53, "protocol": "UDP"}, "readiness": {"path": "/health"}},
            "readiness.path",
        ),
        ({"kind": "Job", "readiness": {"timeout": 5}}, "readiness"),
        ({"kind": "Deployment", "readiness": {"path": "no-slash"}}, "readiness.path"),
        ({"kind": "Deployment", "readiness": {"path": "/with blank"}}, "readiness.path"),
        ({"kind": "Deployment", "readiness": {"port": 80}}, "readiness.port"),
    ],
    ids=str,
)
def test_a_readiness_that_cannot_be_asked_for_is_refused(
    harness: QueueHarness, fields: dict[str, Any], named: str
) -> None:
    answer = harness.post(MANAGEMENT_PATH, as_="member", json=harness.body(**fields))
    assert (answer.status_code, answer.json()["errorMessage"].partition(":")[0]) == (400, named)
