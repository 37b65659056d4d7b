"""Stop, delete, clone and their batches."""

from typing import Any
from unittest import mock

import httpx
import pytest
from tests.api.lab import SAFE
from tests.contract.safe.lab import WAIT, QueueLab, RunningLab, big_node

from stoker.controller import effects, reconcile
from stoker.domain.events import Placed, PodsEnded, PodsUp
from stoker.domain.workload import Phase

RESULTS = "SELECT COUNT(*) FROM {} WHERE workload_uid = :uid"


def batch(lab: QueueLab, verb: str, refs: list[str], as_: str = "member", **how: Any) -> httpx.Response:
    return lab.post(f"{SAFE}/{verb}", as_=as_, json={"workloadIds": refs}, **how)


# Stop


def test_what_waits_is_stopped_at_once(lab: QueueLab) -> None:
    ref = lab.submit()
    assert lab.post(f"{SAFE}/{ref}/stop", as_="member").status_code == 204
    shown = lab.detail(ref)
    assert (shown["phase"], shown["startTime"], shown["dispatchCount"]) == ("Stopped", "", 0)
    assert (shown["conditions"][-1]["type"], shown["message"]) == ("Stopped", "stopped by member")


@pytest.mark.parametrize("end", ["exit 0", "exit 7", "kill -9 $$"])
def test_what_runs_gets_a_signal_and_is_stopped_however_it_exits(works: RunningLab, end: str) -> None:
    ref = works.submit(run=f"trap 'echo asked to stop; {end}' TERM; echo up; sleep 600 & wait $!", maxRetry=3)
    works.prints(ref, "up")
    assert works.post(f"{SAFE}/{ref}/stop", as_="manager").status_code == 204
    shown = works.ended(ref)
    assert (shown["phase"], shown["message"], shown["dispatchCount"]) == ("Stopped", "stopped by manager", 1)
    assert (shown["conditions"][-1]["type"], shown["conditions"][-1]["message"]) == ("Stopped", "stopped by manager")
    assert works.printed(ref) == ["up", "asked to stop"]


def test_what_is_being_stopped_still_shows_as_running_and_is_stopped_once(works: RunningLab) -> None:
    ref = works.submit(run="trap 'sleep 1; exit 0' TERM; echo up; sleep 600 & wait $!")
    works.prints(ref, "up")
    for _ in range(3):
        assert works.post(f"{SAFE}/{ref}/stop", as_="member").status_code == 204
    assert works.detail(ref)["phase"] == "Running"
    assert works.patch(f"{SAFE}/{ref}", as_="member", json={"description": "x"}).status_code == 409
    types = [each["type"] for each in works.ended(ref)["conditions"]]
    assert types.count("Stopped") == 1


def test_what_ignores_the_signal_is_killed_after_the_grace_period(works: RunningLab) -> None:
    ref = works.submit(run="trap '' TERM; echo up; sleep 600 & wait $!; sleep 600")
    works.prints(ref, "up")
    with mock.patch.object(reconcile, "GRACE_SECONDS", 0.5):
        assert works.post(f"{SAFE}/{ref}/stop", as_="member").status_code == 204
        shown = works.ended(ref, within=10)
    assert (shown["phase"], shown["message"]) == ("Stopped", "stopped by member")
    assert effects.GRACE_SECONDS == 30


@pytest.mark.parametrize("success", [True, False])
def test_to_stop_what_has_ended_changes_nothing(lab: QueueLab, success: bool) -> None:
    ended, stopped = lab.submit(), lab.submit()
    lab.go(ended, Placed, PodsUp, lambda at: PodsEnded(at, success, "over"))
    lab.post(f"{SAFE}/{stopped}/stop", as_="member")
    for ref in (ended, stopped):
        before = lab.inside(ref)
        lab.clock.advance(seconds=5)
        assert lab.post(f"{SAFE}/{ref}/stop", as_="member").status_code == 204
        assert lab.inside(ref) == before


# Delete


def test_what_is_deleted_is_gone_at_once_and_its_rows_stay(works: RunningLab) -> None:
    ref = works.submit(run=f"echo up > kept; {WAIT}", gpu="1")
    works.running(ref)
    uid = works.inside(ref).uid
    folder = works.installation.admin_key_file.parent / "local" / "work" / ref
    works.until(lambda: (folder / "kept").exists(), "it has written its file")
    assert works.delete(f"{SAFE}/{ref}", as_="member").status_code == 204
    pod = f"{ref}-worker-0"
    for method, path in (
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/stop"),
        ("GET", "/service"),
        ("GET", f"/pods/{pod}/logs"),
        ("GET", f"/pods/{pod}/containers"),
    ):
        answer = works.request(method, f"{SAFE}/{ref}{path}", as_="member", json={} if method == "PATCH" else None)
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005"), path
    assert works.listed(workloadId=ref) == []
    assert batch(works, "clone", [ref]).status_code == 404
    works.until(lambda: works.inside(ref).phase is Phase.STOPPED, "its pods have ended")
    works.until(lambda: not folder.exists(), "its folder is gone")

    def count(table: str) -> int:
        row = works.run(works.installation.store.read(lambda tx: tx.one(RESULTS.format(table), {"uid": uid})))
        assert row is not None
        return row[0]

    assert (count("pod"), count("allocation"), count("condition") > 3) == (1, 1, True)


@pytest.mark.parametrize(("success", "phase"), [(True, Phase.COMPLETED), (False, Phase.FAILED)])
def test_what_had_ended_keeps_its_word_when_it_is_deleted(lab: QueueLab, success: bool, phase: Phase) -> None:
    ref = lab.submit()
    lab.go(ref, Placed, PodsUp, lambda at: PodsEnded(at, success, "over"))
    ended = lab.inside(ref).ended_at
    lab.clock.advance(seconds=5)
    assert lab.delete(f"{SAFE}/{ref}", as_="member").status_code == 204
    assert (lab.inside(ref).phase, lab.inside(ref).ended_at) == (phase, ended)
    assert lab.get(f"{SAFE}/{ref}", as_="admin").status_code == 404


def test_what_waits_can_be_deleted(lab: QueueLab) -> None:
    ref = lab.submit()
    assert lab.delete(f"{SAFE}/{ref}", as_="member").status_code == 204
    assert lab.delete(f"{SAFE}/{ref}", as_="member").status_code == 404
    assert lab.inside(ref).phase is Phase.STOPPED


# Batches


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_batch_that_worked_has_no_content(lab: QueueLab, verb: str) -> None:
    refs = [lab.submit() for _ in range(3)]
    answer = batch(lab, verb, refs)
    assert (answer.status_code, answer.content) == (204, b"")
    match verb:
        case "stop":
            assert {lab.detail(ref)["phase"] for ref in refs} == {"Stopped"}
        case "delete":
            assert {lab.get(f"{SAFE}/{ref}", as_="member").status_code for ref in refs} == {404}
        case _:
            assert len(answer.headers["X-Workload-Ids"].split(",")) == 3


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_batch_of_which_a_part_failed_says_which(lab: QueueLab, verb: str) -> None:
    good, hidden = lab.submit(), lab.submit("outsider", workspaceId="audio")
    answer = batch(lab, verb, ["nothing-bcdfg", good, hidden])
    assert answer.status_code == 207
    failed = [
        {
            "workloadId": ref,
            "errorCode": "Stoker.00005",
            "errorMessage": f'There is no workload "{ref}", or you may not see it.',
        }
        for ref in ("nothing-bcdfg", hidden)
    ]
    assert answer.json() == {"succeeded": [good], "failed": failed}
    if verb == "clone":
        assert len(answer.headers["X-Workload-Ids"].split(",")) == 1


@pytest.mark.parametrize("verb", ["stop", "delete"])
def test_a_batch_of_which_all_failed_has_the_status_of_the_first(lab: QueueLab, verb: str) -> None:
    anothers = lab.submit("manager")
    for refs, status in ((["nothing-bcdfg", anothers], 404), ([anothers, "nothing-bcdfg"], 403)):
        answer = batch(lab, verb, refs)
        assert answer.status_code == status
        assert answer.json()["succeeded"] == []
        assert [each["workloadId"] for each in answer.json()["failed"]] == refs
        assert {each["errorCode"] for each in answer.json()["failed"]} == {"Stoker.00003", "Stoker.00005"}
    assert lab.detail(anothers)["phase"] == "Pending"


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_duplicate_is_done_once(lab: QueueLab, verb: str) -> None:
    ref = lab.submit()
    before = lab.page()["totalCount"]
    answer = batch(lab, verb, [ref, ref, ref])
    assert answer.status_code == 204
    assert lab.page()["totalCount"] == before + {"stop": 0, "delete": -1, "clone": 1}[verb]


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_batch_has_one_to_a_thousand_ids(lab: QueueLab, verb: str) -> None:
    for body in ({"workloadIds": []}, {"workloadIds": [f"x-{number}" for number in range(1001)]}):
        answer = lab.post(f"{SAFE}/{verb}", as_="member", json=body)
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
        assert answer.json()["errorMessage"].startswith("workloadIds: ")
    for body in ({}, {"workloadIds": "x"}, {"workloadIds": [1]}, {"workloadIds": ["x"], "colour": "red"}):
        assert lab.post(f"{SAFE}/{verb}", as_="member", json=body).status_code == 400
    assert batch(lab, verb, [f"x-{number}" for number in range(1000)]).status_code == 404


def test_many_are_cloned_stopped_and_deleted_at_once(lab: QueueLab) -> None:
    workspace = lab.add_workspace(member="member")
    refs = [lab.submit(workspaceId=workspace)]
    for _ in range(7):
        refs += batch(lab, "clone", refs).headers["X-Workload-Ids"].split(",")
    assert len(set(refs)) == lab.page(workspaceId=workspace)["totalCount"] == 128
    assert batch(lab, "stop", refs).status_code == 204
    assert batch(lab, "delete", refs).status_code == 204
    assert lab.listed(workspaceId=workspace) == []


# Clone


def test_a_clone_is_the_same_again_for_the_caller(lab: QueueLab) -> None:
    lab.add_nodes(big_node("node-001"))
    first = lab.submit()
    source = lab.submit(
        kind="Deployment",
        description="to be copied",
        priority=1,
        timeout=60,
        maxRetry=2,
        env={"A": "1"},
        gpu="2",
        replica=2,
        service={"port": 80},
        customerLabels={"a": "b"},
        annotations={"c": "d"},
        ttlSecondsAfterFinished=5,
        isSupervised=True,
        isTolerateAll=True,
        preemptible=True,
        dependencies=[first],
    )
    lab.post(f"{SAFE}/{source}/stop", as_="member")
    lab.clock.advance(seconds=10)
    answer = batch(lab, "clone", [source], "manager")
    assert answer.status_code == 204
    copy = answer.headers["X-Workload-Ids"]
    assert copy.startswith(lab.detail(source)["displayName"])
    before, after = lab.detail(source), lab.detail(copy)
    other = ("workloadId", "userId", "userName", "phase", "creationTime", "endTime", "message", "conditions")
    assert {name for name in before if before[name] != after[name]} <= {*other, "schedulerOrder", "secondsUntilTimeout"}
    assert (after["userName"], after["phase"]) == ("manager", "Pending")
    assert after["conditions"][0]["message"] == "submitted by manager"
    assert lab.get(f"{SAFE}/{copy}/service", as_="manager").json()["serviceName"] == copy


def test_clones_are_named_in_the_order_of_their_sources(lab: QueueLab) -> None:
    refs = [lab.submit(displayName=f"source-{number}") for number in range(20)]
    names = batch(lab, "clone", refs[::-1]).headers["X-Workload-Ids"].split(",")
    assert [name.rpartition("-")[0] for name in names] == [f"source-{number}" for number in range(19, -1, -1)]
    partly = batch(lab, "clone", [refs[3], "nothing-bcdfg", refs[1]]).headers["X-Workload-Ids"].split(",")
    assert [name.rpartition("-")[0] for name in partly] == ["source-3", "source-1"]


def test_a_clone_needs_read_on_the_source_and_the_right_to_create(lab: QueueLab) -> None:
    source = lab.submit()
    for caller, status, code in (
        ("outsider", 404, "Stoker.00005"),
        ("nobody", 404, "Stoker.00005"),
        ("viewer", 403, "Stoker.00003"),
    ):
        answer = batch(lab, "clone", [source], caller)
        assert (answer.status_code, answer.json()["failed"][0]["errorCode"]) == (status, code)
        assert answer.headers["X-Workload-Ids"] == ""


def test_what_a_member_may_not_ask_for_it_may_not_clone(lab: QueueLab) -> None:
    urgent = lab.submit("manager", priority=2)
    assert batch(lab, "clone", [urgent]).status_code == 403
    assert batch(lab, "clone", [urgent], "manager").status_code == 204


def test_a_clone_is_judged_anew(lab: QueueLab) -> None:
    workspace = lab.add_workspace(member="member")
    source = lab.submit(workspaceId=workspace, gpu="8")
    lab.add_quota(workspace, "4")
    answer = batch(lab, "clone", [source])
    assert (answer.status_code, answer.json()["failed"][0]["errorCode"]) == (403, "Stoker.00008")


def test_clones_under_one_key_are_made_once(any_lab: QueueLab) -> None:
    refs = [any_lab.submit() for _ in range(3)]
    headers = {"Idempotency-Key": "again"}
    asks = [
        any_lab.ask("POST", f"{SAFE}/clone", as_="member", headers=headers, json={"workloadIds": refs})
        for _ in range(20)
    ]
    answers = any_lab.together(*asks)
    assert {answer.status_code for answer in answers} == {204}
    assert len({answer.headers["X-Workload-Ids"] for answer in answers}) == 1
    assert any_lab.page()["totalCount"] == 6


@pytest.mark.parametrize("again", [[0], [1], [1, 0], [0, 1, 2]])
def test_the_same_key_with_other_sources_is_a_conflict(lab: QueueLab, again: list[int]) -> None:
    refs = [lab.submit() for _ in range(3)]
    headers = {"Idempotency-Key": refs[0]}
    assert batch(lab, "clone", refs[:2], headers=headers).status_code == 204
    before = lab.page()["totalCount"]
    answer = batch(lab, "clone", [refs[number] for number in again], headers=headers)
    assert (answer.status_code, answer.json()["errorCode"]) == (409, "Stoker.00004")
    assert lab.post(SAFE, as_="member", headers=headers, json=lab.body()).status_code == 409
    assert lab.page()["totalCount"] == before
