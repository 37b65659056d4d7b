"""A create: unknown fields, the fields that Stoker adds, and the workspace."""

from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.guarantees import refused
from tests.contract.management.harness import QueueHarness
from tests.contract.management.test_create import BAD

# Fields that do not exist


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ((), "colour"),
        (("groupVersionKind",), "groupVersionKind.colour"),
        (("resource",), "resource.colour"),
        (("service",), "service.colour"),
    ],
)
def test_an_unknown_field_is_named(queue: QueueHarness, where: tuple[str, ...], named: str) -> None:
    body = queue.body(service={"port": 80})
    inner = body
    for step in where:
        inner = inner[step]
    inner["colour"] = "red"
    assert "there is no such field" in refused(queue.post(MANAGEMENT_PATH, as_="member", json=body), named)


def test_an_unknown_query_parameter_is_ignored(queue: QueueHarness) -> None:
    assert queue.post(f"{MANAGEMENT_PATH}?colour=red", as_="member", json=queue.body()).status_code == 200


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'"text"', b"\xff"])
def test_a_body_that_is_no_object_is_refused(queue: QueueHarness, raw: bytes) -> None:
    answer = queue.post(MANAGEMENT_PATH, as_="member", content=raw)
    assert (answer.status_code, answer.json()["errorCode"]) == (400, BAD)


# The extras


@pytest.mark.parametrize(
    ("service", "field"),
    [
        ({"port": 0}, "service.port"),
        ({"port": 65_536}, "service.port"),
        ({"port": "80"}, "service.port"),
        ({}, "service.port"),
        ({"port": 80, "protocol": "HTTP"}, "service.protocol"),
        ({"port": 80, "protocol": "tcp"}, "service.protocol"),
        ({"port": 80, "targetPort": 0}, "service.targetPort"),
        ({"port": 80, "nodePort": 70_000}, "service.nodePort"),
        ({"port": 80, "serviceType": "External"}, "service.serviceType"),
    ],
)
def test_a_bad_service_is_refused(queue: QueueHarness, service: dict[str, Any], field: str) -> None:
    refused(queue.create(service=service), field)


@pytest.mark.parametrize(
    ("service", "port"),
    [
        ({"port": 80}, {"port": 80, "targetPort": 80, "protocol": "TCP"}),
        ({"port": 1, "targetPort": 65_535}, {"port": 1, "targetPort": 65_535, "protocol": "TCP"}),
        ({"port": 53, "protocol": "UDP"}, {"port": 53, "targetPort": 53, "protocol": "UDP"}),
        (
            {"port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30_080, "serviceType": "NodePort"},
            {"port": 80, "targetPort": 8080, "protocol": "TCP"},
        ),
    ],
)
def test_a_service_is_taken(queue: QueueHarness, service: dict[str, Any], port: dict[str, Any]) -> None:
    ref = queue.submit(service=service)
    shown = queue.get(f"{MANAGEMENT_PATH}/{ref}/service", as_="member").json()
    assert shown["ports"] == [{"name": "http", **port}]


@pytest.mark.parametrize("name", ["", "A=B", "="])
def test_a_variable_that_cannot_be_one_is_refused(queue: QueueHarness, name: str) -> None:
    answer = queue.create(env={name: "1"})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, BAD)
    assert "env" in answer.json()["errorMessage"]


def test_a_variable_that_no_program_could_be_started_with_is_refused_and_named(queue: QueueHarness) -> None:
    most = 131_071 - len("LONG=")
    ref = queue.submit(env={"LONG": "x" * most})
    for value in ("x" * (most + 1), "ä" * (most // 2 + 1)):
        for answer in (
            queue.create(env={"LONG": value}),
            queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"env": {"LONG": value}}),
        ):
            assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
            assert answer.json()["errorMessage"].startswith("env: ")
            assert '"LONG"' in answer.json()["errorMessage"]


def test_variables_that_are_too_long_together_are_refused(queue: QueueHarness) -> None:
    many = {f"V{number}": "x" * 100_000 for number in range(15)}
    ref = queue.submit(env=many)
    assert queue.create(env={**many, "V15": "x" * 100_000}).status_code == 400
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"env": {"V15": "x" * 100_000}})
    assert answer.status_code == 400
    assert "1572864" in answer.json()["errorMessage"]


@pytest.mark.parametrize("env", [{"A": 1}, {"A": None}, ["A=1"], "A=1", {"A": "x\0"}])
def test_variables_are_text(queue: QueueHarness, env: Any) -> None:
    answer = queue.post(MANAGEMENT_PATH, as_="member", json={**queue.body(), "env": env})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, BAD)


def test_labels_and_annotations_are_text_and_are_echoed(queue: QueueHarness) -> None:
    shown = queue.detail(queue.submit(customerLabels={"team": "vision"}, annotations={"note": "a b ü"}))
    assert (shown["customerLabels"], shown["annotations"]) == ({"team": "vision"}, {"note": "a b ü"})
    for field in ("customerLabels", "annotations"):
        most = {f"k{number}": "" for number in range(256)}
        assert queue.create(**{field: most}).status_code == 200
        for value in ({"a": 1}, {"": "x"}, ["a"], most | {"more": ""}):
            answer = queue.create(**{field: value})
            assert (answer.status_code, field in answer.json()["errorMessage"]) == (400, True)


def test_switches_are_echoed(queue: QueueHarness) -> None:
    names = ("isSupervised", "isTolerateAll", "preemptible")
    assert [queue.detail(queue.submit())[name] for name in names] == [False, False, False]
    shown = queue.detail(queue.submit(**dict.fromkeys(names, True)))
    assert [shown[name] for name in names] == [True, True, True]
    for name in names:
        refused(queue.create(**{name: "yes"}), name)


def test_an_unknown_dependency_is_not_found(queue: QueueHarness) -> None:
    hidden = queue.submit("outsider", workspaceId="audio")
    for ref in ("nothing-bcdfg", hidden):
        answer = queue.create(dependencies=[ref])
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")
        assert ref in answer.json()["errorMessage"]


@pytest.mark.parametrize("moment", ["tomorrow", "", "2026-13-01T00:00:00Z", 5])
def test_a_start_time_that_is_none_is_refused(queue: QueueHarness, moment: Any) -> None:
    refused(queue.create(startAfter=moment), "startAfter")


@pytest.mark.parametrize("moment", ["2026-01-15T10:30:00Z", "2030-01-15T10:30:00.123+08:00"])
def test_a_start_time_is_rfc_3339_with_any_offset(queue: QueueHarness, moment: str) -> None:
    assert queue.create(startAfter=moment).status_code == 200


# The workspace


def test_without_a_workspace_it_is_the_default_one(queue: QueueHarness) -> None:
    for caller, workspace in (("member", "vision"), ("outsider", "audio"), ("admin", "default")):
        assert queue.detail(queue.submit(caller, workspaceId=None))["workspaceId"] == workspace
    changed = queue.add_user("between", role="user")
    queue.put("/api/stoker/v1/workspaces/vision/members/between", as_="admin", json={"role": "member"})
    queue.put("/api/stoker/v1/workspaces/audio/members/between", as_="admin", json={"role": "member"})
    path = f"/api/stoker/v1/users/{changed}"
    assert queue.patch(path, as_="admin", json={"defaultWorkspace": "audio"}).status_code == 200
    assert queue.detail(queue.submit("between", workspaceId=None))["workspaceId"] == "audio"


def test_a_workspace_that_is_absent_or_hidden_is_not_found(queue: QueueHarness) -> None:
    for caller, workspace in (("member", "audio"), ("member", "nowhere"), ("nobody", "vision"), ("nobody", None)):
        answer = queue.create(caller, workspaceId=workspace)
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")


CLI = {"User-Agent": "stoker-cli/1.0"}


def test_an_image_is_taken_and_a_condition_says_that_it_is_not_used(queue: QueueHarness) -> None:
    shown = queue.detail(queue.submit(image="harbor.example.com/ai/pytorch:2.0"))
    assert shown["image"] == "harbor.example.com/ai/pytorch:2.0"
    [said] = [each for each in shown["conditions"] if each["reason"] == "ImageNotUsed"]
    assert said["type"] == "Queued"
    assert said["message"].startswith('image "harbor.example.com/ai/pytorch:2.0" is not used')
    [copied] = (
        queue.post(f"{MANAGEMENT_PATH}/clone", as_="member", json={"workloadIds": [shown["workloadId"]]})
        .headers["X-Workload-Ids"]
        .split(",")
    )
    assert "ImageNotUsed" in {each["reason"] for each in queue.detail(copied)["conditions"]}


def test_none_is_no_image_and_nothing_is_said_of_it(queue: QueueHarness) -> None:
    shown = queue.detail(queue.submit(image="none"))
    assert "ImageNotUsed" not in {each["reason"] for each in shown["conditions"]}


def test_an_image_that_was_typed_is_refused_and_none_is_not(queue: QueueHarness) -> None:
    answer = queue.post(MANAGEMENT_PATH, as_="member", json=queue.body(image="pytorch:2.0"), headers=CLI)
    assert (answer.status_code, answer.json()["errorMessage"].partition(":")[0]) == (400, "image")
    assert "uses no images" in answer.json()["errorMessage"]
    made = queue.post(MANAGEMENT_PATH, as_="member", json=queue.body(image="none"), headers=CLI)
    assert made.status_code == 200
    answer = queue.patch(
        f"{MANAGEMENT_PATH}/{made.json()['workloadId']}", as_="member", json={"image": "x:1"}, headers=CLI
    )
    assert (answer.status_code, answer.json()["errorMessage"].partition(":")[0]) == (400, "image")


def test_an_image_that_is_patched_in_is_said_not_to_be_used_once(queue: QueueHarness) -> None:
    ref = queue.submit(image="none")
    for fields in ({"image": "x:1"}, {"env": {"A": "1"}}):
        assert queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json=fields).status_code == 204
    shown = queue.detail(ref)
    assert [each["reason"] for each in shown["conditions"]].count("ImageNotUsed") == 1
