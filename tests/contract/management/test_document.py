"""Every example of the document, sent as it stands there; every answer with the fields and types that it shows."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.examples import EXAMPLE, PATCH
from tests.contract.management.guarantees import TIME
from tests.contract.management.harness import WAIT, QueueHarness, RunningHarness, big_node, encoded

IN_BOTH = {
    "workloadId": str,
    "displayName": str,
    "description": str,
    "workspaceId": str,
    "clusterId": str,
    "userId": str,
    "userName": str,
    "phase": str,
    "priority": int,
    "resource": dict,
    "groupVersionKind": dict,
    "creationTime": str,
    "startTime": str,
    "endTime": str,
    "runtime": str,
    "timeout": int,
    "secondsUntilTimeout": int,
}
IN_LIST = IN_BOTH | {"schedulerOrder": int, "dispatchCount": int, "isTolerateAll": bool, "message": str}
IN_DETAIL = IN_BOTH | {
    "image": str,
    "entryPoint": str,
    "isSupervised": bool,
    "maxRetry": int,
    "ttlSecondsAfterFinished": int,
    "env": dict,
    "conditions": list,
    "pods": list,
    "nodes": list,
    "ranks": list,
    "customerLabels": dict,
    "specifiedNodes": list,
}
# What the list shows and create takes is in the detail too.
BESIDES = {
    "schedulerOrder": int,
    "dispatchCount": int,
    "isTolerateAll": bool,
    "message": str,
    "preemptible": bool,
    "guaranteedUntil": str,
    "annotations": dict,
    "dependencies": list,
}
ID = re.compile(r"my-training-job-[bcdfghjklmnpqrstvwxz2456789]{5}\Z")


def types(shown: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in shown.items()}


@pytest.fixture(scope="module")
def queue(harness: QueueHarness) -> QueueHarness:
    """Two nodes on which everything of the document fits."""
    harness.add_user("zhangsan")
    harness.add_workspace("cluster-workspace", member="zhangsan")
    harness.add_nodes(big_node("node-001", 16), big_node("node-002", 16))
    return harness


@pytest.fixture(scope="module")
def running(works: RunningHarness) -> Iterator[str]:
    """The example, running; only its script is another one."""
    works.add_user("zhangsan")
    works.add_workspace("cluster-workspace", member="zhangsan")
    script = f"echo 'INFO Starting training...'; echo 'INFO Epoch 1/100'; {WAIT}"
    body = {**EXAMPLE, "entryPoint": encoded(script), "service": {"port": 8080}}
    made = works.post(MANAGEMENT_PATH, as_="zhangsan", json=body)
    assert made.status_code == 200, made.text
    ref = made.json()["workloadId"]
    works.running(ref)
    yield ref
    works.stop(ref)


def test_the_create_example_is_accepted_as_it_stands(queue: QueueHarness) -> None:
    made = queue.post(MANAGEMENT_PATH, as_="zhangsan", json=EXAMPLE)
    assert made.status_code == 200
    assert made.json().keys() == {"workloadId"}
    assert ID.match(made.json()["workloadId"])
    shown = queue.detail(made.json()["workloadId"], as_="zhangsan")
    assert shown["entryPoint"] == "python train.py"
    sent = {name: value for name, value in EXAMPLE.items() if name != "entryPoint"}
    assert {name: shown[name] for name in sent} == sent


def test_a_list_item_has_the_fields_of_the_example(works: RunningHarness, running: str) -> None:
    page = works.page(workloadId=running)
    assert (page.keys(), page["totalCount"]) == ({"totalCount", "items"}, 1)
    [item] = page["items"]
    assert types(item) == IN_LIST
    user = works.get("/api/stoker/v1/users/zhangsan", as_="admin").json()
    assert item == {
        "workloadId": running,
        "displayName": "my-training-job",
        "description": "Training job description",
        "workspaceId": "cluster-workspace",
        "clusterId": "local",
        "userId": user["id"],
        "userName": "zhangsan",
        "phase": "Running",
        "priority": 0,
        "resource": {"cpu": "128", "gpu": "8", "memory": "256Gi", "replica": 1},
        "groupVersionKind": {"kind": "PyTorchJob", "version": "v1"},
        "creationTime": item["creationTime"],
        "startTime": item["startTime"],
        "endTime": "",
        "runtime": item["runtime"],
        "schedulerOrder": 0,
        "dispatchCount": 1,
        "isTolerateAll": False,
        "timeout": 3600,
        "secondsUntilTimeout": item["secondsUntilTimeout"],
        "message": "",
    }
    assert TIME.match(item["creationTime"])
    assert TIME.match(item["startTime"])
    assert re.fullmatch(r"\d+s", item["runtime"])
    assert 3500 < item["secondsUntilTimeout"] <= 3600


def test_the_detail_has_the_fields_of_the_example(works: RunningHarness, running: str) -> None:
    shown = works.detail(running)
    assert types(shown) == IN_DETAIL | BESIDES
    [item] = works.listed(workloadId=running)
    moving = {"runtime", "secondsUntilTimeout"}
    assert {name: shown[name] for name in IN_LIST if name not in moving} == {
        name: item[name] for name in IN_LIST if name not in moving
    }
    assert shown["image"] == "harbor.example.com/ai/pytorch:2.0"
    assert shown["entryPoint"].startswith("echo 'INFO Starting training...'")
    assert (shown["isSupervised"], shown["maxRetry"], shown["timeout"]) == (False, 0, 3600)
    assert shown["ttlSecondsAfterFinished"] == 60
    assert shown["env"] == EXAMPLE["env"]
    assert shown["pods"] == [{"podId": f"{running}-worker-0", "phase": "Running", "nodeName": shown["nodes"][0][0]}]
    assert shown["nodes"] in ([["node-001"]], [["node-002"]])
    assert (shown["ranks"], shown["customerLabels"], shown["specifiedNodes"]) == ([["0"]], {}, [])
    dispatched = next(each for each in shown["conditions"] if each["type"] == "Dispatched")
    assert dispatched == {
        "type": "Dispatched",
        "status": "True",
        "lastTransitionTime": dispatched["lastTransitionTime"],
        "reason": "Dispatch0",
        "message": "workload dispatched",
    }
    assert TIME.match(dispatched["lastTransitionTime"])


def test_the_logs_have_the_fields_of_the_example(works: RunningHarness, running: str) -> None:
    works.prints(running, "Epoch")
    pod = f"{running}-worker-0"
    answer = works.get(
        f"{MANAGEMENT_PATH}/{running}/pods/{pod}/logs?tailLines=1000&container=pytorch&sinceSeconds=600", as_="admin"
    )
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "workloadId": running,
            "podId": pod,
            "namespace": "cluster-workspace",
            "logs": ["INFO Starting training...", "INFO Epoch 1/100"],
        },
    )


def test_the_containers_have_the_fields_of_the_example(works: RunningHarness, running: str) -> None:
    answer = works.get(f"{MANAGEMENT_PATH}/{running}/pods/{running}-worker-0/containers", as_="zhangsan")
    assert answer.status_code == 200
    assert answer.json().keys() == {"containers", "shells"}
    assert answer.json()["containers"] == [{"name": "pytorch"}]
    assert {"bash", "sh"} <= set(answer.json()["shells"])


def test_the_service_has_the_fields_of_the_example(works: RunningHarness, running: str) -> None:
    answer = works.get(f"{MANAGEMENT_PATH}/{running}/service", as_="zhangsan")
    assert answer.status_code == 200
    [port] = answer.json().pop("ports")
    assert answer.json() == {"serviceName": running, "clusterIP": "127.0.0.1", "ports": [port]}
    assert port == {"name": "http", "port": port["port"], "targetPort": 8080, "protocol": "TCP"}
    assert type(port["port"]) is int


def test_the_patch_example_is_taken_as_it_stands(queue: QueueHarness) -> None:
    ref = queue.post(MANAGEMENT_PATH, as_="zhangsan", json=EXAMPLE).json()["workloadId"]
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="zhangsan", json=PATCH)
    assert (answer.status_code, answer.content) == (204, b"")
    shown = queue.detail(ref)
    assert shown["resource"] == {"cpu": "256", "gpu": "16", "memory": "512Gi", "replica": 2}
    assert shown["env"] == {**EXAMPLE["env"], "NEW_VAR": "value"}
    same = ("priority", "image", "description", "timeout")
    assert {name: shown[name] for name in same} == {name: PATCH[name] for name in same}


@pytest.mark.parametrize("verb", ["delete", "stop", "clone"])
def test_the_batch_examples_are_taken_as_they_stand(queue: QueueHarness, verb: str) -> None:
    refs = [queue.post(MANAGEMENT_PATH, as_="zhangsan", json=EXAMPLE).json()["workloadId"] for _ in range(3)]
    answer = queue.post(f"{MANAGEMENT_PATH}/{verb}", as_="zhangsan", json={"workloadIds": refs})
    assert (answer.status_code, answer.content) == (204, b"")
    unknown = {"workloadIds": ["workload-001", "workload-002", "workload-003"]}
    answer = queue.post(f"{MANAGEMENT_PATH}/{verb}", as_="zhangsan", json=unknown)
    assert answer.status_code == 404
    assert answer.json().keys() == {"succeeded", "failed"}


def test_stop_and_delete_answer_with_no_content(queue: QueueHarness) -> None:
    ref = queue.post(MANAGEMENT_PATH, as_="zhangsan", json=EXAMPLE).json()["workloadId"]
    stopped = queue.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="zhangsan")
    assert (stopped.status_code, stopped.content) == (204, b"")
    deleted = queue.delete(f"{MANAGEMENT_PATH}/{ref}", as_="zhangsan")
    assert (deleted.status_code, deleted.content) == (204, b"")


def test_only_what_the_document_requires_is_required(queue: QueueHarness) -> None:
    required = ("displayName", "groupVersionKind", "image", "resource")
    least = {name: EXAMPLE[name] for name in required} | {
        "workspaceId": "cluster-workspace",
        "groupVersionKind": {"kind": "Authoring", "version": "v1"},
        "resource": {"cpu": "1", "memory": "1Gi", "replica": 1},
    }
    assert queue.post(MANAGEMENT_PATH, as_="zhangsan", json=least).status_code == 200
    for name in required:
        answer = queue.post(MANAGEMENT_PATH, as_="zhangsan", json={key: least[key] for key in least if key != name})
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
        assert answer.json()["errorMessage"].startswith(f"{name}: it is required.")
    for outer, name in (
        ("groupVersionKind", "kind"),
        ("groupVersionKind", "version"),
        ("resource", "cpu"),
        ("resource", "memory"),
        ("resource", "replica"),
    ):
        inner = {key: value for key, value in least[outer].items() if key != name}
        answer = queue.post(MANAGEMENT_PATH, as_="zhangsan", json={**least, outer: inner})
        assert answer.status_code == 400
        assert answer.json()["errorMessage"].startswith(f"{outer}.{name}: it is required.")


def test_what_is_left_out_has_the_documented_default(queue: QueueHarness) -> None:
    left_out = ("description", "priority", "timeout", "maxRetry", "env", "specifiedNodes")
    body = {name: value for name, value in EXAMPLE.items() if name not in left_out}
    shown = queue.detail(queue.post(MANAGEMENT_PATH, as_="zhangsan", json=body).json()["workloadId"])
    assert {name: shown[name] for name in left_out} == {
        "description": "",
        "priority": 0,
        "timeout": 0,
        "maxRetry": 0,
        "env": {},
        "specifiedNodes": [],
    }
