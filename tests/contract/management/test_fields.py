"""What a workload shows at each point of its life: times, run time, time left, place in the queue, message."""

from collections.abc import Callable

import pytest
from tests.api.lab import SAFE
from tests.contract.safe.lab import QueueLab

from stoker.domain.events import (
    Placed,
    PodsEnded,
    PodsGone,
    PodsLost,
    PodsUp,
    Preempted,
    ResumeAsked,
    StopAsked,
    TimedOut,
)
from stoker.domain.workload import Phase

RESUME = "/api/stoker/v1/workloads/{}/resume"
SUSPEND = "/api/stoker/v1/workloads/{}/suspend"


def ok(at: int) -> PodsEnded:
    return PodsEnded(at, True, "every pod exited with code 0")


def failed(at: int) -> PodsEnded:
    return PodsEnded(at, False, "pod x-worker-0 exited with code 3")


def stopped(at: int) -> StopAsked:
    return StopAsked(at, "member")


def test_times_are_written_with_milliseconds_and_empty_when_absent(lab: QueueLab) -> None:
    lab.clock.advance(seconds=0.25)
    ref = lab.submit()
    shown = lab.detail(ref)
    assert (shown["startTime"], shown["endTime"]) == ("", "")
    begun = shown["creationTime"]
    lab.go(ref, Placed, PodsUp, ok, seconds=61.5)
    shown = lab.detail(ref)
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
def test_the_run_time_counts_from_the_start(lab: QueueLab, seconds: float, shown: str) -> None:
    ref = lab.submit()
    lab.clock.advance(seconds=100)
    assert lab.detail(ref)["runtime"] == "0s"
    lab.go(ref, Placed, seconds=50)
    assert lab.detail(ref)["runtime"] == "0s"
    lab.go(ref, PodsUp)
    lab.clock.advance(seconds=seconds)
    assert lab.detail(ref)["runtime"] == lab.row(ref)["runtime"] == shown
    lab.go(ref, ok)
    lab.clock.advance(hours=5)
    assert lab.detail(ref)["runtime"] == lab.row(ref)["runtime"] == shown


def test_the_time_left_is_minus_one_before_the_start_and_zero_after_the_end(lab: QueueLab) -> None:
    ref, free = lab.submit(timeout=3600), lab.submit()
    assert (lab.detail(ref)["secondsUntilTimeout"], lab.detail(free)["secondsUntilTimeout"]) == (-1, 0)
    lab.go(ref, Placed, seconds=10)
    assert lab.detail(ref)["secondsUntilTimeout"] == -1
    lab.go(ref, PodsUp)
    lab.go(free, Placed, PodsUp)
    lab.clock.advance(seconds=1800)
    assert lab.detail(ref)["secondsUntilTimeout"] == lab.row(ref)["secondsUntilTimeout"] == 1800
    assert lab.detail(free)["secondsUntilTimeout"] == 0
    lab.clock.advance(seconds=1799.5)
    assert lab.detail(ref)["secondsUntilTimeout"] == 1
    lab.clock.advance(seconds=100)
    assert lab.detail(ref)["secondsUntilTimeout"] == 0
    lab.go(ref, TimedOut, PodsGone)
    assert lab.detail(ref)["secondsUntilTimeout"] == 0
    ended = lab.submit(timeout=3600)
    lab.go(ended, Placed, PodsUp, ok)
    assert lab.detail(ended)["secondsUntilTimeout"] == lab.row(ended)["secondsUntilTimeout"] == 0


def test_a_timeout_is_one_condition_and_ends_as_stopped(lab: QueueLab) -> None:
    ref = lab.submit(timeout=60, maxRetry=3)
    lab.go(ref, Placed, PodsUp, TimedOut, PodsGone, seconds=1)
    shown = lab.detail(ref)
    assert shown["phase"] == "Stopped"
    assert [each["type"] for each in shown["conditions"]] == ["Queued", "Dispatched", "Running", "TimedOut", "Stopped"]
    assert shown["message"] == "ran longer than its timeout of 60 s"


def test_the_place_in_the_queue_goes_by_priority_and_then_by_time(lab: QueueLab) -> None:
    workspace = lab.add_workspace(member="member", manager="manager")
    refs = []
    for number, priority in enumerate((0, 1, 0, 2)):
        lab.clock.advance(seconds=1)
        later = {"startAfter": "2030-01-01T00:00:00Z"} if number == 2 else {}
        refs.append(lab.submit("manager", workspaceId=workspace, priority=priority, **later))
    assert [lab.detail(ref)["schedulerOrder"] for ref in refs] == [3, 2, 4, 1]
    assert {item["workloadId"]: item["schedulerOrder"] for item in lab.listed(workspaceId=workspace)} == dict(
        zip(refs, [3, 2, 4, 1], strict=True)
    )
    lab.submit("outsider", workspaceId="audio", priority=2)
    lab.go(refs[3], Placed)
    assert [lab.detail(ref)["schedulerOrder"] for ref in refs] == [2, 1, 3, 0]
    lab.go(refs[3], PodsUp)
    lab.go(refs[1], stopped)
    assert [lab.detail(ref)["schedulerOrder"] for ref in refs] == [1, 0, 2, 0]
    lab.go(refs[3], lambda at: PodsLost(at, "node lost"))
    assert [lab.detail(ref)["schedulerOrder"] for ref in refs] == [2, 0, 3, 1]


def test_dispatches_are_counted_and_numbered(lab: QueueLab) -> None:
    ref = lab.submit(maxRetry=1)
    assert lab.detail(ref)["dispatchCount"] == 0
    lab.go(ref, Placed, PodsUp, failed, Placed, PodsUp, lambda at: PodsLost(at, "node lost"), Placed, PodsUp, failed)
    shown = lab.detail(ref)
    assert (shown["phase"], shown["dispatchCount"], lab.row(ref)["dispatchCount"]) == ("Failed", 3, 3)
    reasons = [each["reason"] for each in shown["conditions"] if each["type"] == "Dispatched"]
    assert reasons == ["Dispatch0", "Dispatch1", "Dispatch2"]


def test_a_retry_is_spent_by_a_failure_and_by_nothing_else(lab: QueueLab) -> None:
    ref = lab.submit(maxRetry=1, preemptible=True)
    lost = [Placed, PodsUp, lambda at: PodsLost(at, "node lost")]
    preempted = [Placed, PodsUp, lambda at: Preempted(at, "other-bcdfg"), PodsGone]
    lab.go(ref, *lost, *preempted, *lost, Placed, PodsUp, failed)
    assert lab.detail(ref)["phase"] == "Pending"
    assert lab.detail(ref)["message"] == "pod x-worker-0 exited with code 3; retry 1 of 1 in 1 s"
    lab.go(ref, Placed, PodsUp, failed)
    shown = lab.detail(ref)
    assert (shown["phase"], shown["message"]) == ("Failed", "pod x-worker-0 exited with code 3")
    types = [each["type"] for each in shown["conditions"]]
    assert (types.count("Failover"), types.count("Preempted"), types.count("Failed")) == (2, 1, 1)
    assert next(each["message"] for each in shown["conditions"] if each["type"] == "Preempted") == (
        "preempted by other-bcdfg"
    )


def test_the_message_says_why_it_ended_in_the_list_too(lab: QueueLab) -> None:
    for events, message in (
        ((Placed, PodsUp, failed), "pod x-worker-0 exited with code 3"),
        ((Placed, PodsUp, ok), "every pod exited with code 0"),
        ((stopped,), "stopped by member"),
        ((Placed, PodsUp, stopped, PodsGone), "stopped by member"),
    ):
        ref = lab.submit()
        lab.go(ref, *events)
        assert lab.detail(ref)["message"] == lab.row(ref)["message"] == message


def test_what_runs_has_no_message(lab: QueueLab) -> None:
    ref = lab.submit()
    lab.go(ref, Placed, PodsUp)
    assert lab.detail(ref)["message"] == ""


def test_conditions_name_who_or_what(lab: QueueLab) -> None:
    ref = lab.submit("manager")
    lab.go(ref, Placed, PodsUp)
    assert lab.post(f"{SAFE}/{ref}/stop", as_="admin").status_code == 204
    assert lab.detail(ref)["phase"] == "Running"
    lab.go(ref, PodsGone)
    conditions = lab.detail(ref)["conditions"]
    assert conditions[0]["message"] == "submitted by manager"
    assert (conditions[-1]["type"], conditions[-1]["message"]) == ("Stopped", "stopped by admin")


def test_a_stopped_workload_has_ended_but_can_be_resumed(lab: QueueLab) -> None:
    ref = lab.submit()
    lab.go(ref, Placed, PodsUp, seconds=10)
    began = lab.detail(ref)["startTime"]
    lab.go(ref, stopped, PodsGone, seconds=15)
    assert lab.detail(ref)["endTime"] != ""
    assert lab.patch(f"{SAFE}/{ref}", as_="member", json={"description": "x"}).status_code == 409
    lab.clock.advance(hours=1)
    assert lab.post(RESUME.format(ref), as_="member").status_code == 204
    shown = lab.detail(ref)
    assert (shown["phase"], shown["endTime"], shown["startTime"]) == ("Pending", "", began)
    assert (shown["schedulerOrder"] > 0, shown["dispatchCount"], shown["runtime"]) == (True, 1, "30s")
    assert shown["conditions"][-1]["message"] == "resumed by member"
    lab.go(ref, Placed, PodsUp, seconds=5)
    lab.clock.advance(seconds=40)
    shown = lab.detail(ref)
    assert (shown["dispatchCount"], shown["startTime"], shown["runtime"]) == (2, began, "1m10s")


@pytest.mark.parametrize("end", [ok, failed])
def test_what_succeeded_or_failed_is_never_rewritten(lab: QueueLab, end: Callable[[int], PodsEnded]) -> None:
    ref = lab.submit()
    lab.go(ref, Placed, PodsUp, end)
    before = lab.inside(ref)
    assert lab.post(f"{SAFE}/{ref}/stop", as_="member").status_code == 204
    assert lab.inside(ref) == before
    resumed = lab.post(RESUME.format(ref), as_="member")
    assert (resumed.status_code, resumed.json()["error"]["code"]) == (409, "state_forbids")
    assert lab.delete(f"{SAFE}/{ref}", as_="member").status_code == 204
    assert lab.inside(ref).phase is before.phase
    assert lab.inside(ref).phase in {Phase.COMPLETED, Phase.FAILED}


def test_a_suspend_is_a_stop_that_says_when_there_is_nothing_to_stop(lab: QueueLab) -> None:
    waiting, running, over, failing = (lab.submit() for _ in range(4))
    lab.go(running, Placed, PodsUp)
    lab.go(over, Placed, PodsUp, ok)
    lab.go(failing, Placed, PodsUp, lambda at: PodsEnded(at, success=False, message="exit code 1", left=True))
    for ref, phase in ((waiting, Phase.STOPPED), (running, Phase.STOPPING)):
        for _ in range(2):
            assert lab.post(SUSPEND.format(ref), as_="member").status_code == 204
            assert lab.inside(ref).phase is phase
    assert lab.detail(waiting)["conditions"][-1]["message"] == "stopped by member"
    for ref in (over, failing):
        before = lab.inside(ref)
        refused = lab.post(SUSPEND.format(ref), as_="member")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "state_forbids")
        assert lab.inside(ref) == before
    assert lab.post(SUSPEND.format(running), as_="viewer").status_code == 403
    lab.go(running, PodsGone)
    assert lab.detail(running)["phase"] == "Stopped"
    assert lab.post(RESUME.format(running), as_="member").status_code == 204
    assert lab.detail(running)["phase"] == "Pending"


def test_what_runs_or_waits_cannot_be_resumed(lab: QueueLab) -> None:
    waiting, running, stopping = (lab.submit() for _ in range(3))
    lab.go(running, Placed, PodsUp)
    lab.go(stopping, Placed, PodsUp, stopped)
    for ref in (waiting, running, stopping):
        assert lab.post(RESUME.format(ref), as_="member").status_code == 409


def test_resume_is_a_new_attempt_with_all_its_retries(lab: QueueLab) -> None:
    ref = lab.submit(maxRetry=1)
    lab.go(ref, Placed, PodsUp, failed, stopped, lambda at: ResumeAsked(at, "member"), Placed, PodsUp, failed)
    assert lab.detail(ref)["phase"] == "Pending"
    lab.go(ref, Placed, PodsUp, failed)
    assert lab.detail(ref)["phase"] == "Failed"
