"""What is accepted and what can never be: judged against nodes and quota, done once, and rehearsed."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.guarantees import refused
from tests.contract.management.harness import QueueHarness, big_node


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHarness]:
    """A cluster that has never reported."""
    with QueueHarness(tmp_path_factory.mktemp("fresh") / "data") as opened:
        opened.add_staff()
        yield opened


# What can never fit


@pytest.mark.parametrize(
    ("fields", "numbers"),
    [
        ({"gpu": "9"}, ("9 GPUs", "8")),
        ({"cpu": "257"}, ("257 CPUs", "256")),
        ({"memory": "1025Gi"}, ("1,025 GiB", "1,024 GiB")),
        ({"gpu": "8", "replica": 3}, ("3 replicas", "2")),
        ({"gpu": "9", "specifiedNodes": ["node-002"]}, ("9 GPUs", "node-002", "8")),
    ],
)
def test_what_no_node_or_cluster_can_hold_is_refused_with_the_numbers(
    queue: QueueHarness, fields: dict[str, Any], numbers: tuple[str, ...]
) -> None:
    answer = queue.create(**fields)
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert all(number in answer.json()["errorMessage"] for number in numbers), answer.text


def test_what_is_larger_than_the_quota_is_refused_with_the_numbers(queue: QueueHarness) -> None:
    workspace = queue.add_workspace(member="member")
    queue.add_quota(workspace, "4")
    assert queue.create(workspaceId=workspace, gpu="2", replica=2).status_code == 200
    answer = queue.create(workspaceId=workspace, gpu="3", replica=2)
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert "6 GPUs" in answer.json()["errorMessage"]
    assert "quota of its workspace is 4" in answer.json()["errorMessage"]
    assert queue.create(workspaceId=workspace, gpu="3", replica=2, preemptible=True).status_code == 200


def test_it_is_judged_on_all_nodes_whatever_their_health(fresh: QueueHarness) -> None:
    sick = big_node("node-001")
    fresh.add_nodes(type(sick)(sick.name, sick.cpu_milli, sick.memory_bytes, sick.devices, ready=False, cordoned=True))
    assert fresh.create(gpu="8").status_code == 200
    assert fresh.create(gpu="9").status_code == 403


def test_a_cluster_that_has_never_reported_accepts_what_waits(fresh: QueueHarness) -> None:
    shown = fresh.detail(fresh.submit(gpu="64", cpu="1000", memory="9Ti", replica=50))
    assert (shown["phase"], shown["schedulerOrder"]) == ("Pending", 1)


# Once, and rehearsed


def test_a_get_right_after_a_create_sees_it(queue: QueueHarness) -> None:
    queue.clock.advance(seconds=1)
    ref = queue.submit()
    assert queue.detail(ref, as_="viewer")["phase"] == "Pending"
    assert queue.listed("viewer", limit=1)[0]["workloadId"] == ref


def test_the_same_key_and_body_give_the_same_answer_once(any_harness: QueueHarness) -> None:
    body = any_harness.body()
    headers = {"Idempotency-Key": "one"}
    asks = [any_harness.ask("POST", MANAGEMENT_PATH, as_="member", headers=headers, json=body) for _ in range(200)]
    answers = any_harness.together(*asks)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert any_harness.page()["totalCount"] == 1
    other = any_harness.post(MANAGEMENT_PATH, as_="member", headers=headers, json={**body, "description": "x"})
    assert (other.status_code, other.json()["errorCode"]) == (409, "Stoker.00004")
    any_harness.clock.advance(hours=24)
    assert any_harness.post(MANAGEMENT_PATH, as_="member", headers=headers, json=body).json() != answers[0].json()
    assert any_harness.page()["totalCount"] == 2


def test_the_same_answer_comes_after_the_workload_was_deleted(queue: QueueHarness) -> None:
    body, headers = queue.body(), {"Idempotency-Key": "kept"}
    ref = queue.post(MANAGEMENT_PATH, as_="member", headers=headers, json=body).json()["workloadId"]
    queue.delete(f"{MANAGEMENT_PATH}/{ref}", as_="member")
    assert queue.post(MANAGEMENT_PATH, as_="member", headers=headers, json=body).json() == {"workloadId": ref}


def test_a_rehearsal_says_what_would_be_and_writes_nothing(queue: QueueHarness) -> None:
    workspace = queue.add_workspace(member="member", manager="manager")
    before = queue.page(limit=1)["totalCount"]
    audited = len(queue.audit(action="workload.create", actor="manager"))

    def dry_run(**fields: Any) -> dict[str, Any]:
        body = queue.body(workspaceId=workspace, **fields)
        answer = queue.post(
            f"{MANAGEMENT_PATH}?dryRun=true", as_="manager", headers={"Idempotency-Key": "dry"}, json=body
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert dry_run() == {"dryRun": True, "accepted": True, "message": "It would be accepted.", "schedulerOrder": 1}
    assert queue.page(limit=1)["totalCount"] == before
    assert len(queue.audit(action="workload.create", actor="manager")) == audited
    queue.submit(workspaceId=workspace, priority=1)
    queue.submit(workspaceId=workspace)
    assert [dry_run(priority=priority)["schedulerOrder"] for priority in (0, 1, 2)] == [3, 2, 1]
    never = dry_run(gpu="9")
    assert (never["accepted"], never["schedulerOrder"]) == (False, 0)
    assert "9 GPUs" in never["message"]


def test_a_rehearsal_refuses_what_a_create_refuses(queue: QueueHarness) -> None:
    path = f"{MANAGEMENT_PATH}?dryRun=true"
    refused(queue.post(path, as_="member", json=queue.body(cpu="0")), "resource.cpu")
    assert queue.post(path, as_="viewer", json=queue.body()).status_code == 403
    assert queue.post(path, as_="nobody", json=queue.body()).status_code == 404
    refused(queue.post(f"{MANAGEMENT_PATH}?dryRun=perhaps", as_="member", json=queue.body()), "dryRun")


def test_variables_that_are_stokers_are_stored_echoed_and_noted(queue: QueueHarness) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "7", "RANK": "3", "NCCL_DEBUG": "INFO"}
    shown = queue.detail(queue.submit(env=env))
    assert shown["env"] == env
    noted = [each["message"] for each in shown["conditions"] if each["reason"] == "EnvOverridden"]
    assert noted == ["Stoker sets CUDA_VISIBLE_DEVICES, RANK; the submitted values are ignored"]
    assert not [each for each in queue.detail(queue.submit())["conditions"] if each["reason"] == "EnvOverridden"]
