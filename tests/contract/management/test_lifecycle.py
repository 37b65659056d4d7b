"""Lifecycles of real workloads: ends, retries, gangs, dependencies and queues."""

import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import WAIT, RunningHarness

from stoker.domain.cluster.resources import MILLI
from stoker.domain.workload.status import NOT_YET_SCHEDULED

HELD = """
SELECT allocation.gpu_milli, allocation.from_at, allocation.to_at
FROM allocation
JOIN workload ON workload.uid = allocation.workload_uid
JOIN workspace ON workspace.id = workload.workspace_id
WHERE workspace.name = :workspace
"""


def types(shown: dict[str, Any]) -> list[str]:
    return [each["type"] for each in shown["conditions"]]


# How it ends


def test_a_job_that_exits_well_has_succeeded(works: RunningHarness) -> None:
    shown = works.finished(run="echo done; sleep 0.5")
    assert (shown["phase"], shown["message"]) == ("Succeeded", "every pod exited with code 0")
    assert types(shown) == ["Queued", "Dispatched", "Running", "Succeeded"]
    assert shown["pods"][0]["phase"] == "Succeeded"
    assert works.row(shown["workloadId"])["message"] == "every pod exited with code 0"


@pytest.mark.parametrize(
    ("run", "code"), [("exit 3", 3), ("exit 255", 255), ("no-such-command", 127), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_a_job_that_fails_says_with_which_code(works: RunningHarness, run: str, code: int) -> None:
    shown = works.finished(run=run)
    ref = shown["workloadId"]
    assert shown["phase"] == "Failed"
    assert f"{ref}-worker-0" in shown["message"]
    assert f"code {code}" in shown["message"]
    assert works.row(ref)["message"] == shown["message"]
    assert shown["conditions"][-1]["message"] == shown["message"]
    assert types(shown)[-1] == "Failed"


def test_a_timeout_stops_it_once_and_it_is_not_retried(works: RunningHarness) -> None:
    shown = works.finished(run=WAIT, timeout=1, maxRetry=3)
    assert (shown["phase"], shown["dispatchCount"]) == ("Stopped", 1)
    assert types(shown) == ["Queued", "Dispatched", "Running", "TimedOut", "Stopped"]
    assert shown["message"] == "ran longer than its timeout of 1 s"
    assert shown["runtime"] in ("1s", "2s")
    assert shown["secondsUntilTimeout"] == 0


def test_a_failure_is_retried_as_often_as_was_asked_for(works: RunningHarness) -> None:
    shown = works.finished(run='echo try >> tries; sleep 0.5; [ "$(wc -l < tries)" = 2 ]', maxRetry=1)
    ref = shown["workloadId"]
    assert (shown["phase"], shown["dispatchCount"]) == ("Succeeded", 2)
    assert types(shown) == ["Queued", "Dispatched", "Running", "Queued", "Dispatched", "Running", "Succeeded"]
    assert shown["conditions"][3]["message"] == f"pod {ref}-worker-0 exited with code 1; retry 1 of 1 in 1 s"
    assert ([len(each) for each in shown["nodes"]], shown["ranks"]) == ([1, 1], [["0"], ["0"]])
    assert len(shown["pods"]) == 1


def test_when_the_retries_are_spent_it_has_failed(works: RunningHarness) -> None:
    shown = works.finished(run="exit 9", maxRetry=1)
    assert (shown["phase"], shown["dispatchCount"]) == ("Failed", 2)
    assert shown["message"] == f"pod {shown['workloadId']}-worker-0 exited with code 9"


def shim_pid(works: RunningHarness, ref: str) -> int:
    """The process that watches over the first pod of a workload."""
    [pod] = [pod for pod in works.pods(ref) if not pod.phase.is_finished]
    folder = str(works.installation.admin_key_file.parent / "local" / "pods" / pod.uid)
    found = [process for process in psutil.process_iter(["cmdline"]) if folder in (process.info["cmdline"] or [])]
    return min(process.pid for process in found)


def test_a_pod_that_is_lost_is_begun_again_without_spending_a_retry(works: RunningHarness) -> None:
    ref = works.submit(run=f"echo up; {WAIT}", maxRetry=0)
    works.prints(ref, "up")
    os.kill(shim_pid(works, ref), signal.SIGKILL)
    works.until(lambda: works.detail(ref)["dispatchCount"] == 2, "it is dispatched again")
    shown = works.running(ref)
    assert types(shown).count("Failover") == 1
    assert works.inside(ref).retries == 0
    works.stop(ref)


# Pods


@pytest.mark.parametrize(
    ("kind", "replicas", "names"),
    [
        ("PyTorchJob", 1, ["worker-0"]),
        ("PyTorchJob", 2, ["master-0", "worker-0"]),
        ("PyTorchJob", 3, ["master-0", "worker-0", "worker-1"]),
        ("Job", 2, ["0", "1"]),
        ("Deployment", 2, ["0", "1"]),
        ("StatefulSet", 1, ["0"]),
        ("Authoring", 1, ["0"]),
    ],
)
def test_pods_have_the_names_of_their_kind(works: RunningHarness, kind: str, replicas: int, names: list[str]) -> None:
    ref = works.submit(kind=kind, replica=replicas, run=f"echo I am $POD_NAME on $NODE_NAME; {WAIT}")
    shown = works.running(ref)
    pods = [pod["podId"] for pod in shown["pods"]]
    assert pods == [f"{ref}-{name}" for name in names]
    assert {pod["phase"] for pod in shown["pods"]} == {"Running"}
    assert shown["ranks"] == [[str(rank) for rank in range(replicas)]]
    assert shown["nodes"] == [[pod["nodeName"] for pod in shown["pods"]]]
    assert all(set(pod) == {"podId", "phase", "nodeName"} for pod in shown["pods"])
    for pod in shown["pods"]:
        assert works.prints(ref, "I am", pod["podId"]) == [f"I am {pod['podId']} on {pod['nodeName']}"]
    works.stop(ref)


def test_named_nodes_get_one_pod_each_in_their_order(works: RunningHarness) -> None:
    ref = works.submit(specifiedNodes=["node-002", "node-001"], gpu="1", run=WAIT)
    shown = works.running(ref)
    assert (shown["nodes"], shown["ranks"]) == ([["node-002", "node-001"]], [["0", "1"]])
    works.stop(ref)


def test_one_failing_pod_fails_the_gang_and_ends_the_others(works: RunningHarness) -> None:
    shown = works.finished(replica=3, run=f"[ $RANK != 1 ] || exit 4; {WAIT}")
    ref = shown["workloadId"]
    assert (shown["phase"], shown["message"]) == ("Failed", f"pod {ref}-worker-0 exited with code 4")
    assert len(shown["pods"]) == 3
    assert {pod["phase"] for pod in shown["pods"]} <= {"Succeeded", "Failed"}


def test_a_gang_succeeds_when_all_have(works: RunningHarness) -> None:
    shown = works.finished(replica=2, gpu="1", run="echo $RANK of $WORLD_SIZE")
    assert shown["phase"] == "Succeeded"
    ref = shown["workloadId"]
    assert works.printed(ref, f"{ref}-master-0") == ["0 of 2"]
    assert works.printed(ref, f"{ref}-worker-0") == ["1 of 2"]


def test_a_gang_starts_as_a_whole_or_not_at_all(works: RunningHarness) -> None:
    workspace = works.add_workspace(member="member")
    works.add_quota(workspace, "3")
    first = works.submit(workspaceId=workspace, gpu="2", run=WAIT)
    works.running(first)
    gang = works.submit(workspaceId=workspace, gpu="1", replica=2, run="true")
    works.until(lambda: "quota" in works.detail(gang)["message"], "it is told why it waits")
    shown = works.detail(gang)
    assert (shown["phase"], shown["pods"], shown["schedulerOrder"]) == ("Pending", [], 1)
    assert all(number in shown["message"] for number in ("2 GPUs", "3 GPUs"))
    works.stop(first)
    assert works.ended(gang)["phase"] == "Succeeded"


def test_what_does_not_fit_now_is_told_so(works: RunningHarness) -> None:
    fill = [works.submit(gpu="8", run=WAIT) for _ in range(2)]
    for ref in fill:
        works.running(ref)
    waiting = works.submit(gpu="1", run="true")
    works.until(lambda: works.row(waiting)["message"] != NOT_YET_SCHEDULED.message, "it is told why it waits")
    assert "1 GPU" in works.row(waiting)["message"]
    assert works.detail(waiting)["message"] == works.row(waiting)["message"]
    works.stop(*fill)
    assert works.ended(waiting)["phase"] == "Succeeded"


# Variables


def variables(works: RunningHarness, **fields: Any) -> dict[str, str]:
    """What a job finds in its environment."""
    shown = works.finished(run="env", **fields)
    assert shown["phase"] == "Succeeded"
    return dict(line.split("=", 1) for line in works.printed(shown["workloadId"]) if "=" in line)


def test_devices_and_ranks_are_stokers_and_the_rest_is_the_users(works: RunningHarness) -> None:
    sent = {
        "CUDA_VISIBLE_DEVICES": "99",
        "HIP_VISIBLE_DEVICES": "99",
        "ROCR_VISIBLE_DEVICES": "99",
        "RANK": "99",
        "WORLD_SIZE": "99",
        "MASTER_ADDR": "elsewhere",
        "NODE_NAME": "mine",
        "POD_NAME": "mine too",
        "LANG": "de_DE.UTF-8",
        "GPUS_PER_NODE": "99",
        "OWN": "a=b c",
    }
    ref = works.submit(run="env", env=sent, gpu="2")
    shown = works.ended(ref)
    found = dict(line.split("=", 1) for line in works.printed(ref) if "=" in line)
    assert shown["env"] == sent
    overridden = next(each["message"] for each in shown["conditions"] if each["reason"] == "EnvOverridden")
    for name in list(sent)[:6]:
        assert found[name] != sent[name]
        assert name in overridden
    for name in list(sent)[6:]:
        assert found[name] == sent[name]
        assert name not in overridden
    assert len(found["CUDA_VISIBLE_DEVICES"].split(",")) == 2
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("0", "1", "127.0.0.1")


def test_without_gpus_no_device_is_visible(works: RunningHarness) -> None:
    found = variables(works, env={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert [found[f"{name}_VISIBLE_DEVICES"] for name in ("CUDA", "HIP", "ROCR")] == ["", "", ""]


def test_what_runs_at_once_sees_different_gpus(works: RunningHarness) -> None:
    refs = [works.submit(gpu="3", run=f"echo gpus $CUDA_VISIBLE_DEVICES; {WAIT}") for _ in range(2)]
    seen = []
    for ref in refs:
        [line] = works.prints(ref, "gpus")
        seen.append((works.detail(ref)["nodes"][0][0], line.removeprefix("gpus ").split(",")))
    assert seen[0][0] != seen[1][0] or not set(seen[0][1]) & set(seen[1][1])
    works.stop(*refs)


# Authoring, Deployment, TTL


def test_a_replica_that_exits_is_begun_again_and_the_deployment_goes_on(works: RunningHarness) -> None:
    ref = works.submit(kind="Deployment", run=f'echo x >> runs; [ "$(wc -l < runs)" -gt 1 ] || exit 5; echo up; {WAIT}')
    works.prints(ref, "up")
    works.until(lambda: works.detail(ref)["message"] == "", "every pod runs")
    shown = works.detail(ref)
    assert (shown["phase"], shown["dispatchCount"], shown["pods"][0]["phase"]) == ("Running", 1, "Running")
    assert any("exit code 5" in line for line in works.printed(ref))
    works.stop(ref)
    assert works.ended(ref)["phase"] == "Stopped"


def test_an_authoring_without_script_is_an_idle_shell(works: RunningHarness) -> None:
    ref = works.submit(kind="Authoring", entryPoint=None)
    shown = works.running(ref)
    assert (shown["entryPoint"], shown["pods"][0]["phase"]) == ("", "Running")
    works.stop(ref)
    assert works.ended(ref)["phase"] == "Stopped"


def test_the_ttl_removes_what_the_engine_holds_and_nothing_else(works: RunningHarness) -> None:
    shown = works.finished(run="echo kept | tee kept", ttlSecondsAfterFinished=0)
    ref = shown["workloadId"]
    [pod] = works.pods(ref)
    local = works.installation.admin_key_file.parent / "local"
    works.until(lambda: not (local / "pods" / pod.uid).exists(), "the engine has let go of it")
    assert works.detail(ref) == shown
    assert works.printed(ref) == ["kept"]
    assert (local / "work" / ref / "kept").read_text() == "kept\n"
    assert works.delete(f"{MANAGEMENT_PATH}/{ref}", as_="member").status_code == 204
    works.until(lambda: not (local / "work" / ref).exists(), "its folder is gone")


# Dependencies and start times


def test_what_depends_on_a_success_waits_for_it_and_runs(works: RunningHarness) -> None:
    first = works.submit(run=f"echo up; {WAIT}")
    second = works.submit(run="echo second", dependencies=[first])
    works.prints(first, "up")
    works.until(lambda: works.detail(second)["message"] != NOT_YET_SCHEDULED.message, "it is told why it waits")
    waiting = works.detail(second)
    assert (waiting["phase"], waiting["schedulerOrder"] > 0) == ("Pending", True)
    assert first in waiting["message"]
    third = works.submit(run="true")
    fourth = works.submit(run="echo fourth", dependencies=[third, works.inside(third).uid])
    assert works.ended(third)["phase"] == "Succeeded"
    assert works.ended(fourth)["phase"] == "Succeeded"
    assert works.detail(second)["phase"] == "Pending"
    works.stop(first)
    assert works.ended(second)["phase"] == "Failed"


@pytest.mark.parametrize("first", [{"run": "exit 1"}, {"run": "exit 1", "maxRetry": 1}])
def test_what_depends_on_a_failure_fails(works: RunningHarness, first: dict[str, Any]) -> None:
    failing = works.submit(**first)
    after = works.submit(run="true", dependencies=[failing])
    last = works.submit(run="true", dependencies=[after])
    shown = works.ended(after)
    assert (shown["phase"], shown["dispatchCount"], shown["startTime"]) == ("Failed", 0, "")
    assert failing in shown["message"]
    assert types(shown) == ["Queued", "Failed"]
    assert after in works.ended(last)["message"]


def test_what_has_a_start_time_waits_for_it_in_its_place(works: RunningHarness) -> None:
    workspace = works.add_workspace(member="member")
    due = datetime.now(UTC) + timedelta(seconds=2)
    ref = works.submit(workspaceId=workspace, run="true", startAfter=due.isoformat())
    works.until(lambda: works.detail(ref)["message"] != NOT_YET_SCHEDULED.message, "it is told why it waits")
    shown = works.detail(ref)
    assert (shown["phase"], shown["schedulerOrder"]) == ("Pending", 1)
    assert due.strftime("%Y-%m-%dT%H:%M:%S") in shown["message"]
    other = works.finished(workspaceId=workspace, run="true")
    shown = works.ended(ref)
    assert (other["phase"], shown["phase"]) == ("Succeeded", "Succeeded")
    assert other["startTime"] < due.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] <= shown["startTime"]
    past = (due - timedelta(days=1)).isoformat()
    assert works.finished(workspaceId=workspace, run="true", startAfter=past)["phase"] == "Succeeded"


# The queue


def test_a_queue_is_served_by_priority_and_then_by_time(works: RunningHarness) -> None:
    workspace = works.add_workspace(manager="manager")
    works.add_quota(workspace, "1")
    holder = works.submit("manager", workspaceId=workspace, gpu="1", run=WAIT)
    works.running(holder)
    refs = {}
    for number, priority in enumerate((0, 1, 0, 2, 1)):
        refs[number] = works.submit("manager", workspaceId=workspace, gpu="1", priority=priority, run="sleep 0.05")
    assert [works.detail(ref)["schedulerOrder"] for ref in refs.values()] == [4, 2, 5, 1, 3]
    works.stop(holder)
    ended = {number: works.ended(ref) for number, ref in refs.items()}
    assert {shown["phase"] for shown in ended.values()} == {"Succeeded"}
    assert sorted(ended, key=lambda number: ended[number]["startTime"]) == [3, 1, 4, 0, 2]
    for before, after in ((3, 1), (1, 4), (4, 0), (0, 2)):
        assert ended[before]["endTime"] <= ended[after]["startTime"]


def test_a_quota_is_never_exceeded_however_many_ask_at_once(works: RunningHarness) -> None:
    workspace = works.add_workspace(member="member")
    works.add_quota(workspace, "3")
    body = {"workspaceId": workspace, "gpu": "1", "run": "sleep 0.02"}
    asks = [works.ask("POST", MANAGEMENT_PATH, as_="member", json=works.body(**body)) for _ in range(50)]
    refs = [answer.json()["workloadId"] for answer in works.together(*asks)]
    works.until(lambda: not works.listed(workspaceId=workspace, phase="Pending,Running"), "all have ended", 40)
    assert {item["phase"] for item in works.listed(workspaceId=workspace)} == {"Succeeded"}
    assert len(set(refs)) == 50
    rows = works.run(works.installation.store.read(lambda tx: tx.fetch_all(HELD, {"workspace": workspace})))
    assert len(rows) == 50
    held, most = 0, 0
    for _, change in sorted([(begin, milli) for milli, begin, _ in rows] + [(end, -milli) for milli, _, end in rows]):
        held += change
        most = max(most, held)
    assert 0 < most <= 3 * MILLI
