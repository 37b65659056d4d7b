"""Stop, delete, clone and their batches."""

from typing import Any
from unittest import mock

import httpx
import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import WAIT, QueueHarness, RunningHarness, big_node

from stoker.controller.reconcile import effects, launch
from stoker.domain.workload.events import Dispatched, PodsFinished, PodsReady
from stoker.domain.workload.phase import Phase

RESULTS = "SELECT COUNT(*) FROM {} WHERE workload_uid = :uid"


def batch(harness: QueueHarness, verb: str, refs: list[str], as_: str = "member", **how: Any) -> httpx.Response:
    return harness.post(f"{MANAGEMENT_PATH}/{verb}", as_=as_, json={"workloadIds": refs}, **how)


# Stop


def test_what_waits_is_stopped_at_once(harness: QueueHarness) -> None:
    ref = harness.submit()
    assert harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="member").status_code == 204
    shown = harness.detail(ref)
    assert (shown["phase"], shown["startTime"], shown["dispatchCount"]) == ("Stopped", "", 0)
    assert (shown["conditions"][-1]["type"], shown["message"]) == ("Stopped", "stopped by member")


@pytest.mark.parametrize("end", ["exit 0", "exit 7", "kill -9 $$"])
def test_what_runs_gets_a_signal_and_is_stopped_however_it_exits(works: RunningHarness, end: str) -> None:
    ref = works.submit(run=f"trap 'echo asked to stop; {end}' TERM; echo up; sleep 600 & wait $!", maxRetry=3)
    works.prints(ref, "up")
    assert works.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="manager").status_code == 204
    shown = works.ended(ref)
    assert (shown["phase"], shown["message"], shown["dispatchCount"]) == ("Stopped", "stopped by manager", 1)
    assert (shown["conditions"][-1]["type"], shown["conditions"][-1]["message"]) == ("Stopped", "stopped by manager")
    assert works.printed(ref) == ["up", "asked to stop"]


def test_what_is_being_stopped_still_shows_as_running_and_is_stopped_once(works: RunningHarness) -> None:
    ref = works.submit(run="trap 'sleep 1; exit 0' TERM; echo up; sleep 600 & wait $!")
    works.prints(ref, "up")
    for _ in range(3):
        assert works.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="member").status_code == 204
    assert works.detail(ref)["phase"] == "Running"
    assert works.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"description": "x"}).status_code == 409
    types = [each["type"] for each in works.ended(ref)["conditions"]]
    assert types.count("Stopped") == 1


def test_what_ignores_the_signal_is_killed_after_the_grace_period(works: RunningHarness) -> None:
    ref = works.submit(run="trap '' TERM; echo up; sleep 600 & wait $!; sleep 600")
    works.prints(ref, "up")
    with mock.patch.object(effects, "DEFAULT_GRACE_SECONDS", 0.5):
        assert works.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="member").status_code == 204
        shown = works.ended(ref, within=10)
    assert (shown["phase"], shown["message"]) == ("Stopped", "stopped by member")
    assert launch.DEFAULT_GRACE_SECONDS == 30


@pytest.mark.parametrize("success", [True, False])
def test_to_stop_what_has_ended_changes_nothing(harness: QueueHarness, success: bool) -> None:
    ended, stopped = harness.submit(), harness.submit()
    harness.go(ended, Dispatched, PodsReady, lambda at: PodsFinished(at, success, "over"))
    harness.post(f"{MANAGEMENT_PATH}/{stopped}/stop", as_="member")
    for ref in (ended, stopped):
        before = harness.inside(ref)
        harness.clock.advance(seconds=5)
        assert harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="member").status_code == 204
        assert harness.inside(ref) == before


# Delete


def test_what_is_deleted_is_gone_at_once_and_its_rows_stay(works: RunningHarness) -> None:
    ref = works.submit(run=f"echo up > kept; {WAIT}", gpu="1")
    works.running(ref)
    uid = works.inside(ref).uid
    folder = works.installation.admin_key_file.parent / "local" / "work" / ref
    works.until(lambda: (folder / "kept").exists(), "it has written its file")
    assert works.delete(f"{MANAGEMENT_PATH}/{ref}", as_="member").status_code == 204
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
        answer = works.request(
            method, f"{MANAGEMENT_PATH}/{ref}{path}", as_="member", json={} if method == "PATCH" else None
        )
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005"), path
    assert works.listed(workloadId=ref) == []
    assert batch(works, "clone", [ref]).status_code == 404
    works.until(lambda: works.inside(ref).phase is Phase.STOPPED, "its pods have ended")
    works.until(lambda: not folder.exists(), "its folder is gone")

    def count(table: str) -> int:
        row = works.run(works.installation.store.read(lambda tx: tx.fetch_one(RESULTS.format(table), {"uid": uid})))
        assert row is not None
        return row[0]

    assert (count("pod"), count("allocation"), count("workload_condition") > 3) == (1, 1, True)


@pytest.mark.parametrize(("success", "phase"), [(True, Phase.COMPLETED), (False, Phase.FAILED)])
def test_what_had_ended_keeps_its_word_when_it_is_deleted(harness: QueueHarness, success: bool, phase: Phase) -> None:
    ref = harness.submit()
    harness.go(ref, Dispatched, PodsReady, lambda at: PodsFinished(at, success, "over"))
    ended = harness.inside(ref).ended_at
    harness.clock.advance(seconds=5)
    assert harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="member").status_code == 204
    assert (harness.inside(ref).phase, harness.inside(ref).ended_at) == (phase, ended)
    assert harness.get(f"{MANAGEMENT_PATH}/{ref}", as_="admin").status_code == 404


def test_what_waits_can_be_deleted(harness: QueueHarness) -> None:
    ref = harness.submit()
    assert harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="member").status_code == 204
    assert harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="member").status_code == 404
    assert harness.inside(ref).phase is Phase.STOPPED


# Batches


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_batch_that_worked_has_no_content(harness: QueueHarness, verb: str) -> None:
    refs = [harness.submit() for _ in range(3)]
    answer = batch(harness, verb, refs)
    assert (answer.status_code, answer.content) == (204, b"")
    match verb:
        case "stop":
            assert {harness.detail(ref)["phase"] for ref in refs} == {"Stopped"}
        case "delete":
            assert {harness.get(f"{MANAGEMENT_PATH}/{ref}", as_="member").status_code for ref in refs} == {404}
        case _:
            assert len(answer.headers["X-Workload-Ids"].split(",")) == 3


def test_a_stop_says_what_there_was_nothing_to_stop_of_and_keeps_the_grace_that_it_asks_for(
    harness: QueueHarness,
) -> None:
    over, waits = harness.submit(), harness.submit()
    assert batch(harness, "stop", [over]).headers["X-Unchanged-Workload-Ids"] == ""
    answer = batch(harness, "stop", [waits, over])
    assert (answer.status_code, answer.headers["X-Unchanged-Workload-Ids"]) == (204, over)
    runs = harness.submit()
    harness.go(runs, Dispatched, PodsReady)
    body = {"workloadIds": [runs], "gracePeriodSeconds": 120}
    assert harness.post(f"{MANAGEMENT_PATH}/stop", as_="member", json=body).status_code == 204
    assert (harness.inside(runs).phase, harness.inside(runs).grace_seconds) == (Phase.STOPPING, 120)
    for seconds, kept in ((200, 120), (5, 5)):
        again = harness.post(f"{MANAGEMENT_PATH}/stop", as_="member", json={**body, "gracePeriodSeconds": seconds})
        assert again.headers["X-Unchanged-Workload-Ids"] == ("" if kept == seconds else runs)
        assert harness.inside(runs).grace_seconds == kept
    for seconds in (-1, 86_401, 1.5):
        refused = harness.post(f"{MANAGEMENT_PATH}/stop", as_="member", json={**body, "gracePeriodSeconds": seconds})
        assert refused.status_code == 400
        assert "gracePeriodSeconds" in refused.json()["errorMessage"]


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_batch_of_which_a_part_failed_says_which(harness: QueueHarness, verb: str) -> None:
    good, hidden = harness.submit(), harness.submit("outsider", workspaceId="audio")
    answer = batch(harness, verb, ["nothing-bcdfg", good, hidden])
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
def test_a_batch_of_which_all_failed_has_the_status_of_the_first(harness: QueueHarness, verb: str) -> None:
    anothers = harness.submit("manager")
    for refs, status in ((["nothing-bcdfg", anothers], 404), ([anothers, "nothing-bcdfg"], 403)):
        answer = batch(harness, verb, refs)
        assert answer.status_code == status
        assert answer.json()["succeeded"] == []
        assert [each["workloadId"] for each in answer.json()["failed"]] == refs
        assert {each["errorCode"] for each in answer.json()["failed"]} == {"Stoker.00003", "Stoker.00005"}
    assert harness.detail(anothers)["phase"] == "Pending"


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_duplicate_is_done_once(harness: QueueHarness, verb: str) -> None:
    ref = harness.submit()
    before = harness.page()["totalCount"]
    answer = batch(harness, verb, [ref, ref, ref])
    assert answer.status_code == 204
    assert harness.page()["totalCount"] == before + {"stop": 0, "delete": -1, "clone": 1}[verb]


@pytest.mark.parametrize("verb", ["stop", "delete", "clone"])
def test_a_batch_has_one_to_a_thousand_ids(harness: QueueHarness, verb: str) -> None:
    for body in ({"workloadIds": []}, {"workloadIds": [f"x-{number}" for number in range(1001)]}):
        answer = harness.post(f"{MANAGEMENT_PATH}/{verb}", as_="member", json=body)
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
        assert answer.json()["errorMessage"].startswith("workloadIds: ")
    for body in ({}, {"workloadIds": "x"}, {"workloadIds": [1]}, {"workloadIds": ["x"], "colour": "red"}):
        assert harness.post(f"{MANAGEMENT_PATH}/{verb}", as_="member", json=body).status_code == 400
    assert batch(harness, verb, [f"x-{number}" for number in range(1000)]).status_code == 404


def test_many_are_cloned_stopped_and_deleted_at_once(harness: QueueHarness) -> None:
    workspace = harness.add_workspace(member="member")
    refs = [harness.submit(workspaceId=workspace)]
    for _ in range(7):
        refs += batch(harness, "clone", refs).headers["X-Workload-Ids"].split(",")
    assert len(set(refs)) == harness.page(workspaceId=workspace)["totalCount"] == 128
    assert batch(harness, "stop", refs).status_code == 204
    assert batch(harness, "delete", refs).status_code == 204
    assert harness.listed(workspaceId=workspace) == []


# Clone


def test_a_clone_is_the_same_again_for_the_caller(harness: QueueHarness) -> None:
    harness.add_nodes(big_node("node-001"))
    first = harness.submit()
    source = harness.submit(
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
    harness.post(f"{MANAGEMENT_PATH}/{source}/stop", as_="member")
    harness.clock.advance(seconds=10)
    answer = batch(harness, "clone", [source], "manager")
    assert answer.status_code == 204
    copy = answer.headers["X-Workload-Ids"]
    assert copy.startswith(harness.detail(source)["displayName"])
    before, after = harness.detail(source), harness.detail(copy)
    other = ("workloadId", "userId", "userName", "phase", "creationTime", "endTime", "message", "conditions")
    assert {name for name in before if before[name] != after[name]} <= {*other, "schedulerOrder", "secondsUntilTimeout"}
    assert (after["userName"], after["phase"]) == ("manager", "Pending")
    assert after["conditions"][0]["message"] == "submitted by manager"
    assert harness.get(f"{MANAGEMENT_PATH}/{copy}/service", as_="manager").json()["serviceName"] == copy


def test_clones_are_named_in_the_order_of_their_sources(harness: QueueHarness) -> None:
    refs = [harness.submit(displayName=f"source-{number}") for number in range(20)]
    names = batch(harness, "clone", refs[::-1]).headers["X-Workload-Ids"].split(",")
    assert [name.rpartition("-")[0] for name in names] == [f"source-{number}" for number in range(19, -1, -1)]
    partly = batch(harness, "clone", [refs[3], "nothing-bcdfg", refs[1]]).headers["X-Workload-Ids"].split(",")
    assert [name.rpartition("-")[0] for name in partly] == ["source-3", "source-1"]


def test_a_clone_needs_read_on_the_source_and_the_right_to_create(harness: QueueHarness) -> None:
    source = harness.submit()
    for caller, status, code in (
        ("outsider", 404, "Stoker.00005"),
        ("nobody", 404, "Stoker.00005"),
        ("viewer", 403, "Stoker.00003"),
    ):
        answer = batch(harness, "clone", [source], caller)
        assert (answer.status_code, answer.json()["failed"][0]["errorCode"]) == (status, code)
        assert answer.headers["X-Workload-Ids"] == ""


def test_what_a_member_may_not_ask_for_it_may_not_clone(harness: QueueHarness) -> None:
    urgent = harness.submit("manager", priority=2)
    assert batch(harness, "clone", [urgent]).status_code == 403
    assert batch(harness, "clone", [urgent], "manager").status_code == 204


def test_a_clone_is_judged_anew(harness: QueueHarness) -> None:
    workspace = harness.add_workspace(member="member")
    source = harness.submit(workspaceId=workspace, gpu="8")
    harness.add_quota(workspace, "4")
    answer = batch(harness, "clone", [source])
    assert (answer.status_code, answer.json()["failed"][0]["errorCode"]) == (403, "Stoker.00008")


def test_clones_under_one_key_are_made_once(any_harness: QueueHarness) -> None:
    refs = [any_harness.submit() for _ in range(3)]
    headers = {"Idempotency-Key": "again"}
    asks = [
        any_harness.ask("POST", f"{MANAGEMENT_PATH}/clone", as_="member", headers=headers, json={"workloadIds": refs})
        for _ in range(20)
    ]
    answers = any_harness.together(*asks)
    assert {answer.status_code for answer in answers} == {204}
    assert len({answer.headers["X-Workload-Ids"] for answer in answers}) == 1
    assert any_harness.page()["totalCount"] == 6


@pytest.mark.parametrize("again", [[0], [1], [1, 0], [0, 1, 2]])
def test_the_same_key_with_other_sources_is_a_conflict(harness: QueueHarness, again: list[int]) -> None:
    refs = [harness.submit() for _ in range(3)]
    headers = {"Idempotency-Key": refs[0]}
    assert batch(harness, "clone", refs[:2], headers=headers).status_code == 204
    before = harness.page()["totalCount"]
    answer = batch(harness, "clone", [refs[number] for number in again], headers=headers)
    assert (answer.status_code, answer.json()["errorCode"]) == (409, "Stoker.00004")
    assert harness.post(MANAGEMENT_PATH, as_="member", headers=headers, json=harness.body()).status_code == 409
    assert harness.page()["totalCount"] == before
