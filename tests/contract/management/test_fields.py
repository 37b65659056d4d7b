"""What a workload shows at each point of its life: times, run time, time left, place in the queue, message."""

from collections.abc import Callable

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import QueueHarness

from stoker.domain.workload.events import (
    Dispatched,
    PodsFinished,
    PodsLost,
    PodsReady,
    PodsTerminated,
    Preempted,
    ResumeRequested,
    StopRequested,
    TimedOut,
)
from stoker.domain.workload.phase import Phase

RESUME = "/api/stoker/v1/workloads/{}/resume"
SUSPEND = "/api/stoker/v1/workloads/{}/suspend"


def ok(at: int) -> PodsFinished:
    return PodsFinished(at, True, "every pod exited with code 0")


def failed(at: int) -> PodsFinished:
    return PodsFinished(at, False, "pod x-worker-0 exited with code 3")


def stopped(at: int) -> StopRequested:
    return StopRequested(at, "member")


def test_times_are_written_with_milliseconds_and_empty_when_absent(harness: QueueHarness) -> None:
    harness.clock.advance(seconds=0.25)
    ref = harness.submit()
    shown = harness.detail(ref)
    assert (shown["startTime"], shown["endTime"]) == ("", "")
    begun = shown["creationTime"]
    harness.go(ref, Dispatched, PodsReady, ok, seconds=61.5)
    shown = harness.detail(ref)
    assert shown["creationTime"] == begun
    assert (shown["startTime"], shown["endTime"]) == (_after(begun, 123), _after(begun, 184.5))
    assert [each["type"] for each in shown["conditions"]] == ["Queued", "Dispatched", "Running", "Succeeded"]
    assert shown["conditions"][-1]["lastTransitionTime"] == shown["endTime"]


def _after(time: str, seconds: float) -> str:
    minutes, rest = time[14:16], float(time[17:-1])
    total = int(minutes) * 60 + rest + seconds
    return f"{time[:14]}{int(total // 60):02d}:{total % 60:06.3f}Z"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.999, "0s"),
        (1, "1s"),
        (59, "59s"),
        (60, "1m0s"),
        (61, "1m1s"),
        (3599, "59m59s"),
        (3600, "1h0m0s"),
        (5445, "1h30m45s"),
        (360_000, "100h0m0s"),
    ],
)
def test_the_run_time_counts_from_the_start(harness: QueueHarness, seconds: float, shown: str) -> None:
    ref = harness.submit()
    harness.clock.advance(seconds=100)
    assert harness.detail(ref)["runtime"] == "0s"
    harness.go(ref, Dispatched, seconds=50)
    assert harness.detail(ref)["runtime"] == "0s"
    harness.go(ref, PodsReady)
    harness.clock.advance(seconds=seconds)
    assert harness.detail(ref)["runtime"] == harness.row(ref)["runtime"] == shown
    harness.go(ref, ok)
    harness.clock.advance(hours=5)
    assert harness.detail(ref)["runtime"] == harness.row(ref)["runtime"] == shown


def test_the_time_left_is_minus_one_before_the_start_and_zero_after_the_end(harness: QueueHarness) -> None:
    ref, free = harness.submit(timeout=3600), harness.submit()
    assert (harness.detail(ref)["secondsUntilTimeout"], harness.detail(free)["secondsUntilTimeout"]) == (-1, 0)
    harness.go(ref, Dispatched, seconds=10)
    assert harness.detail(ref)["secondsUntilTimeout"] == -1
    harness.go(ref, PodsReady)
    harness.go(free, Dispatched, PodsReady)
    harness.clock.advance(seconds=1800)
    assert harness.detail(ref)["secondsUntilTimeout"] == harness.row(ref)["secondsUntilTimeout"] == 1800
    assert harness.detail(free)["secondsUntilTimeout"] == 0
    harness.clock.advance(seconds=1799.5)
    assert harness.detail(ref)["secondsUntilTimeout"] == 1
    harness.clock.advance(seconds=100)
    assert harness.detail(ref)["secondsUntilTimeout"] == 0
    harness.go(ref, TimedOut, PodsTerminated)
    assert harness.detail(ref)["secondsUntilTimeout"] == 0
    ended = harness.submit(timeout=3600)
    harness.go(ended, Dispatched, PodsReady, ok)
    assert harness.detail(ended)["secondsUntilTimeout"] == harness.row(ended)["secondsUntilTimeout"] == 0


def test_a_timeout_is_one_condition_and_ends_as_stopped(harness: QueueHarness) -> None:
    ref = harness.submit(timeout=60, maxRetry=3)
    harness.go(ref, Dispatched, PodsReady, TimedOut, PodsTerminated, seconds=1)
    shown = harness.detail(ref)
    assert shown["phase"] == "Stopped"
    assert [each["type"] for each in shown["conditions"]] == ["Queued", "Dispatched", "Running", "TimedOut", "Stopped"]
    assert shown["message"] == "ran longer than its timeout of 60 s"


def test_the_place_in_the_queue_goes_by_priority_and_then_by_time(harness: QueueHarness) -> None:
    workspace = harness.add_workspace(member="member", manager="manager")
    refs = []
    for number, priority in enumerate((0, 1, 0, 2)):
        harness.clock.advance(seconds=1)
        later = {"startAfter": "2030-01-01T00:00:00Z"} if number == 2 else {}
        refs.append(harness.submit("manager", workspaceId=workspace, priority=priority, **later))
    assert [harness.detail(ref)["schedulerOrder"] for ref in refs] == [3, 2, 4, 1]
    assert {item["workloadId"]: item["schedulerOrder"] for item in harness.listed(workspaceId=workspace)} == dict(
        zip(refs, [3, 2, 4, 1], strict=True)
    )
    harness.submit("outsider", workspaceId="audio", priority=2)
    harness.go(refs[3], Dispatched)
    assert [harness.detail(ref)["schedulerOrder"] for ref in refs] == [2, 1, 3, 0]
    harness.go(refs[3], PodsReady)
    harness.go(refs[1], stopped)
    assert [harness.detail(ref)["schedulerOrder"] for ref in refs] == [1, 0, 2, 0]
    harness.go(refs[3], lambda at: PodsLost(at, "node lost"))
    assert [harness.detail(ref)["schedulerOrder"] for ref in refs] == [2, 0, 3, 1]


def test_dispatches_are_counted_and_numbered(harness: QueueHarness) -> None:
    ref = harness.submit(maxRetry=1)
    assert harness.detail(ref)["dispatchCount"] == 0
    harness.go(
        ref,
        Dispatched,
        PodsReady,
        failed,
        Dispatched,
        PodsReady,
        lambda at: PodsLost(at, "node lost"),
        Dispatched,
        PodsReady,
        failed,
    )
    shown = harness.detail(ref)
    assert (shown["phase"], shown["dispatchCount"], harness.row(ref)["dispatchCount"]) == ("Failed", 3, 3)
    reasons = [each["reason"] for each in shown["conditions"] if each["type"] == "Dispatched"]
    assert reasons == ["Dispatch0", "Dispatch1", "Dispatch2"]


def test_a_retry_is_spent_by_a_failure_and_by_nothing_else(harness: QueueHarness) -> None:
    ref = harness.submit(maxRetry=1, preemptible=True)
    lost = [Dispatched, PodsReady, lambda at: PodsLost(at, "node lost")]
    preempted = [Dispatched, PodsReady, lambda at: Preempted(at, "other-bcdfg"), PodsTerminated]
    harness.go(ref, *lost, *preempted, *lost, Dispatched, PodsReady, failed)
    assert harness.detail(ref)["phase"] == "Pending"
    assert harness.detail(ref)["message"] == "pod x-worker-0 exited with code 3; retry 1 of 1 in 1 s"
    harness.go(ref, Dispatched, PodsReady, failed)
    shown = harness.detail(ref)
    assert (shown["phase"], shown["message"]) == ("Failed", "pod x-worker-0 exited with code 3")
    types = [each["type"] for each in shown["conditions"]]
    assert (types.count("Failover"), types.count("Preempted"), types.count("Failed")) == (2, 1, 1)
    assert next(each["message"] for each in shown["conditions"] if each["type"] == "Preempted") == (
        "preempted by other-bcdfg"
    )


def test_the_message_says_why_it_ended_in_the_list_too(harness: QueueHarness) -> None:
    for events, message in (
        ((Dispatched, PodsReady, failed), "pod x-worker-0 exited with code 3"),
        ((Dispatched, PodsReady, ok), "every pod exited with code 0"),
        ((stopped,), "stopped by member"),
        ((Dispatched, PodsReady, stopped, PodsTerminated), "stopped by member"),
    ):
        ref = harness.submit()
        harness.go(ref, *events)
        assert harness.detail(ref)["message"] == harness.row(ref)["message"] == message


def test_what_runs_has_no_message(harness: QueueHarness) -> None:
    ref = harness.submit()
    harness.go(ref, Dispatched, PodsReady)
    assert harness.detail(ref)["message"] == ""


def test_conditions_name_who_or_what(harness: QueueHarness) -> None:
    ref = harness.submit("manager")
    harness.go(ref, Dispatched, PodsReady)
    assert harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="admin").status_code == 204
    assert harness.detail(ref)["phase"] == "Running"
    harness.go(ref, PodsTerminated)
    conditions = harness.detail(ref)["conditions"]
    assert conditions[0]["message"] == "submitted by manager"
    assert (conditions[-1]["type"], conditions[-1]["message"]) == ("Stopped", "stopped by admin")


def test_a_stopped_workload_has_ended_but_can_be_resumed(harness: QueueHarness) -> None:
    ref = harness.submit()
    harness.go(ref, Dispatched, PodsReady, seconds=10)
    began = harness.detail(ref)["startTime"]
    harness.go(ref, stopped, PodsTerminated, seconds=15)
    assert harness.detail(ref)["endTime"] != ""
    assert harness.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"description": "x"}).status_code == 409
    harness.clock.advance(hours=1)
    assert harness.post(RESUME.format(ref), as_="member").status_code == 204
    shown = harness.detail(ref)
    assert (shown["phase"], shown["endTime"], shown["startTime"]) == ("Pending", "", began)
    assert (shown["schedulerOrder"] > 0, shown["dispatchCount"], shown["runtime"]) == (True, 1, "30s")
    assert shown["conditions"][-1]["message"] == "resumed by member"
    harness.go(ref, Dispatched, PodsReady, seconds=5)
    harness.clock.advance(seconds=40)
    shown = harness.detail(ref)
    assert (shown["dispatchCount"], shown["startTime"], shown["runtime"]) == (2, began, "1m10s")


@pytest.mark.parametrize("end", [ok, failed])
def test_what_succeeded_or_failed_is_never_rewritten(harness: QueueHarness, end: Callable[[int], PodsFinished]) -> None:
    ref = harness.submit()
    harness.go(ref, Dispatched, PodsReady, end)
    before = harness.inside(ref)
    assert harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="member").status_code == 204
    assert harness.inside(ref) == before
    resumed = harness.post(RESUME.format(ref), as_="member")
    assert (resumed.status_code, resumed.json()["error"]["code"]) == (409, "conflict")
    assert harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="member").status_code == 204
    assert harness.inside(ref).phase is before.phase
    assert harness.inside(ref).phase in {Phase.COMPLETED, Phase.FAILED}


def test_a_suspend_is_a_stop_that_says_when_there_is_nothing_to_stop(harness: QueueHarness) -> None:
    waiting, running, over, failing = (harness.submit() for _ in range(4))
    harness.go(running, Dispatched, PodsReady)
    harness.go(over, Dispatched, PodsReady, ok)
    harness.go(
        failing,
        Dispatched,
        PodsReady,
        lambda at: PodsFinished(at, success=False, message="exit code 1", has_remaining_pods=True),
    )
    for ref, phase in ((waiting, Phase.STOPPED), (running, Phase.STOPPING)):
        for _ in range(2):
            assert harness.post(SUSPEND.format(ref), as_="member").status_code == 204
            assert harness.inside(ref).phase is phase
    assert harness.detail(waiting)["conditions"][-1]["message"] == "stopped by member"
    for ref in (over, failing):
        before = harness.inside(ref)
        refused = harness.post(SUSPEND.format(ref), as_="member")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        assert harness.inside(ref) == before
    assert harness.post(SUSPEND.format(running), as_="viewer").status_code == 403
    harness.go(running, PodsTerminated)
    assert harness.detail(running)["phase"] == "Stopped"
    assert harness.post(RESUME.format(running), as_="member").status_code == 204
    assert harness.detail(running)["phase"] == "Pending"


def test_what_runs_or_waits_cannot_be_resumed(harness: QueueHarness) -> None:
    waiting, running, stopping = (harness.submit() for _ in range(3))
    harness.go(running, Dispatched, PodsReady)
    harness.go(stopping, Dispatched, PodsReady, stopped)
    for ref in (waiting, running, stopping):
        assert harness.post(RESUME.format(ref), as_="member").status_code == 409


def test_resume_is_a_new_attempt_with_all_its_retries(harness: QueueHarness) -> None:
    ref = harness.submit(maxRetry=1)
    harness.go(
        ref,
        Dispatched,
        PodsReady,
        failed,
        stopped,
        lambda at: ResumeRequested(at, "member"),
        Dispatched,
        PodsReady,
        failed,
    )
    assert harness.detail(ref)["phase"] == "Pending"
    harness.go(ref, Dispatched, PodsReady, failed)
    assert harness.detail(ref)["phase"] == "Failed"
