"""What a create takes and what it refuses: each rule at its edge, and the field it names."""

import base64
import re
from typing import Any

import pytest
from tests.api.lab import SAFE
from tests.contract.safe.lab import QueueLab, big_node, encoded
from tests.contract.safe.promises import refused

BAD = "Stoker.00002"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LONG = "a" * 57


@pytest.fixture(scope="module")
def queue(lab: QueueLab) -> QueueLab:
    lab.add_nodes(big_node("node-001"), big_node("node-002"))
    return lab


# The name and the id made from it


@pytest.mark.parametrize("name", ["a", "a1", "a-b", "a--b", LONG, "a" + "-" * 55 + "b", "x9"])
def test_a_display_name_is_lower_case_with_digits_and_dashes(queue: QueueLab, name: str) -> None:
    assert queue.detail(queue.submit(displayName=name))["displayName"] == name


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a b", "é", "a\n", "a" * 58, "a" * 56 + "-", "a" * 57 + "-"]
)
def test_any_other_display_name_is_refused(queue: QueueLab, name: str) -> None:
    refused(queue.create(displayName=name), "displayName")


@pytest.mark.parametrize(
    ("name", "front"),
    [
        ("my-training-job", "my-training-job"),
        ("a" * 45, "a" * 45),
        ("a" * 46, "a" * 45),
        (LONG, "a" * 45),
        ("a" * 44 + "-b", "a" * 44),
        ("a" * 43 + "--b", "a" * 43),
        ("a" * 45 + "-b", "a" * 45),
    ],
)
def test_the_id_is_the_first_45_characters_and_five_more(queue: QueueLab, name: str, front: str) -> None:
    ref = queue.submit(displayName=name)
    assert re.fullmatch(f"{front}-[{LETTERS}]{{5}}", ref)
    assert len(f"{ref}-worker-100000") <= 66
    assert len(ref) <= 51


def test_ids_of_one_name_differ_and_use_the_whole_alphabet(queue: QueueLab) -> None:
    asks = [queue.ask("POST", SAFE, as_="member", json=queue.body(displayName="same")) for _ in range(100)]
    tails = [answer.json()["workloadId"].removeprefix("same-") for answer in queue.together(*asks)]
    assert len(set(tails)) == 100
    assert set("".join(tails)) == set(LETTERS)


def test_the_inner_uid_names_a_workload_wherever_its_id_does(queue: QueueLab) -> None:
    ref = queue.submit(service={"port": 80})
    uid = queue.inside(ref).uid
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uid)
    assert queue.detail(uid) == queue.detail(ref)
    assert queue.get(f"{SAFE}/{uid}/service", as_="member").json()["serviceName"] == ref
    assert queue.patch(f"{SAFE}/{uid}", as_="member", json={"description": "by uid"}).status_code == 204
    assert queue.detail(ref)["description"] == "by uid"
    after = queue.submit(dependencies=[uid])
    assert queue.detail(after)["dependencies"] == [uid]
    assert queue.post(f"{SAFE}/clone", as_="member", json={"workloadIds": [uid]}).status_code == 204
    assert queue.post(f"{SAFE}/stop", as_="member", json={"workloadIds": [uid]}).status_code == 204
    assert queue.detail(ref)["phase"] == "Stopped"
    assert queue.post(f"{SAFE}/{uid}/stop", as_="member").status_code == 204
    assert queue.delete(f"{SAFE}/{uid}", as_="member").status_code == 204
    assert queue.get(f"{SAFE}/{uid}", as_="member").status_code == 404


# Kind, version, image


@pytest.mark.parametrize("kind", ["PyTorchJob", "Deployment", "StatefulSet", "Authoring", "Job"])
def test_these_kinds_are_taken(queue: QueueLab, kind: str) -> None:
    assert queue.detail(queue.submit(kind=kind))["groupVersionKind"] == {"kind": kind, "version": "v1"}


@pytest.mark.parametrize("kind", ["pytorchjob", "CronJob", "", None, 1])
def test_no_other_kind_is(queue: QueueLab, kind: Any) -> None:
    message = refused(queue.create(kind=kind), "groupVersionKind.kind")
    assert all(word in message for word in ("PyTorchJob", "Deployment", "StatefulSet", "Authoring", "Job"))


@pytest.mark.parametrize("version", ["v2", "V1", "", "1", 1])
def test_the_version_is_v1(queue: QueueLab, version: Any) -> None:
    body = {**queue.body(), "groupVersionKind": {"kind": "Job", "version": version}}
    assert "v1" in refused(queue.post(SAFE, as_="member", json=body), "groupVersionKind.version")


def test_an_image_is_text(queue: QueueLab) -> None:
    for image in ("", 7, "i" * 1025):
        refused(queue.create(image=image), "image")


# The entry point


@pytest.mark.parametrize(
    "entry",
    ["python train.py", "cHl0aG9uIHRyYWluLnB5=", "cHl0aG9u IHRyYWluLnB5", "cHl0aG9uIHRyYWluLnB", "__8=", "é"],
)
def test_an_entry_point_that_is_not_base64_is_refused_with_an_example(queue: QueueLab, entry: str) -> None:
    assert '"python train.py" is "cHl0aG9uIHRyYWluLnB5"' in refused(queue.create(entryPoint=entry), "entryPoint")


def test_an_entry_point_that_is_not_text_is_refused_with_an_example(queue: QueueLab) -> None:
    raw = base64.b64encode(b"\xff\xfe\x00").decode()
    assert "cHl0aG9uIHRyYWluLnB5" in refused(queue.create(entryPoint=raw), "entryPoint")


def test_a_script_with_a_nul_is_refused_because_it_could_never_be_run(queue: QueueLab) -> None:
    assert "NUL" in refused(queue.create(run="echo a\0b"), "entryPoint")
    ref = queue.submit()
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"entryPoint": encoded("a\0")})
    assert "NUL" in refused(answer, "entryPoint")


def test_the_entry_point_is_shown_decoded(queue: QueueLab) -> None:
    script = "set -e\necho 'ümläut 🚀'\n"
    assert queue.detail(queue.submit(run=script))["entryPoint"] == script


@pytest.mark.parametrize("kind", ["PyTorchJob", "Deployment", "StatefulSet", "Job"])
@pytest.mark.parametrize("entry", [None, ""])
def test_the_local_engine_has_no_image_command_to_fall_back_on(queue: QueueLab, kind: str, entry: str | None) -> None:
    assert "required" in refused(queue.create(kind=kind, entryPoint=entry), "entryPoint")


def test_an_authoring_without_entry_point_is_taken(queue: QueueLab) -> None:
    assert queue.detail(queue.submit(kind="Authoring", entryPoint=None))["entryPoint"] == ""


def test_an_entry_point_cannot_be_patched_away_where_it_is_needed(queue: QueueLab) -> None:
    job, shell = queue.submit(), queue.submit(kind="Authoring")
    refused(queue.patch(f"{SAFE}/{job}", as_="member", json={"entryPoint": ""}), "entryPoint")
    assert queue.detail(job)["entryPoint"] == "true"
    assert queue.patch(f"{SAFE}/{shell}", as_="member", json={"entryPoint": ""}).status_code == 204


# Resources


@pytest.mark.parametrize("cpu", ["1", "100m", "0.5", "1m", "2e0", "128", "0.1", "1k"])
def test_a_cpu_is_a_kubernetes_quantity_and_is_echoed(queue: QueueLab, cpu: str) -> None:
    made = queue.create(cpu=cpu)
    if cpu == "1k":  # a thousand CPUs are a quantity, only more than there are
        assert made.json()["errorCode"] == "Stoker.00008"
        return
    assert queue.detail(made.json()["workloadId"])["resource"]["cpu"] == cpu


@pytest.mark.parametrize("cpu", ["0", "0m", "-1", "", "one", "1 ", "1Kib", "1e", None, 1, 1.5])
def test_any_other_cpu_is_refused(queue: QueueLab, cpu: Any) -> None:
    refused(queue.create(cpu=cpu), "resource.cpu")


@pytest.mark.parametrize("memory", ["256Gi", "1Mi", "1000000", "1G", "0.5Gi", "1e6", "128974848", "1Ti"])
def test_a_memory_is_a_kubernetes_quantity_and_is_echoed(queue: QueueLab, memory: str) -> None:
    assert queue.detail(queue.submit(memory=memory))["resource"]["memory"] == memory


@pytest.mark.parametrize("memory", ["0", "-1Gi", "", "much", "1GiB", "1 Gi", None, 5])
def test_any_other_memory_is_refused(queue: QueueLab, memory: Any) -> None:
    refused(queue.create(memory=memory), "resource.memory")


@pytest.mark.parametrize("gpu", ["0", "1", "8", "0.5", "500m", "1000m"])
def test_a_gpu_is_shown_as_the_string_that_was_sent(queue: QueueLab, gpu: str) -> None:
    assert queue.detail(queue.submit(gpu=gpu))["resource"]["gpu"] == gpu


def test_no_gpu_is_shown_as_the_string_0(queue: QueueLab) -> None:
    ref = queue.submit()
    assert queue.detail(ref)["resource"]["gpu"] == "0"
    assert queue.row(ref)["resource"]["gpu"] == "0"


@pytest.mark.parametrize("gpu", ["-1", "", "eight", "1.5", "2500m", None, 8])
def test_any_other_gpu_is_refused(queue: QueueLab, gpu: Any) -> None:
    refused(queue.create(gpu=gpu), "resource.gpu")


@pytest.mark.parametrize("replica", [0, -1, "1", 1.5, None, True])
def test_a_replica_is_an_integer_from_1(queue: QueueLab, replica: Any) -> None:
    refused(queue.create(replica=replica), "resource.replica")


# Numbers


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("timeout", (0, 1, 86_400), (-1, "60", 1.5, None, True)),
        ("maxRetry", (0, 1, 50), (-1, 51, "1", None)),
        ("priority", (0, 1), (-1, 3, "0", 0.5, None)),
        ("ttlSecondsAfterFinished", (0, 60), (-1, "60", None)),
    ],
)
def test_numbers_are_taken_within_their_bounds_and_never_clamped(
    queue: QueueLab, field: str, good: tuple[int, ...], bad: tuple[Any, ...]
) -> None:
    for value in good:
        assert queue.detail(queue.submit(**{field: value}))[field] == value
    for value in bad:
        refused(queue.post(SAFE, as_="member", json={**queue.body(), field: value}), field)


def test_the_highest_priority_is_for_managers_and_admins(queue: QueueLab) -> None:
    for caller in ("manager", "admin"):
        assert queue.detail(queue.submit(caller, priority=2))["priority"] == 2
    refusal = queue.create("member", priority=2)
    assert (refusal.status_code, refusal.json()["errorCode"]) == (403, "Stoker.00003")
    assert "manager" in refusal.json()["errorMessage"]


# Nodes


def test_specified_nodes_set_the_number_of_replicas(queue: QueueLab) -> None:
    shown = queue.detail(queue.submit(specifiedNodes=["node-002", "node-001"], replica=7))
    assert (shown["specifiedNodes"], shown["resource"]["replica"]) == (["node-002", "node-001"], 2)


def test_an_unknown_or_duplicate_node_is_refused(queue: QueueLab) -> None:
    assert "node-001, node-002" in refused(queue.create(specifiedNodes=["node-003"]), "specifiedNodes")
    assert "twice" in refused(queue.create(specifiedNodes=["node-001", "node-001"]), "specifiedNodes")


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
def test_an_unknown_field_is_named(queue: QueueLab, where: tuple[str, ...], named: str) -> None:
    body = queue.body(service={"port": 80})
    inner = body
    for step in where:
        inner = inner[step]
    inner["colour"] = "red"
    assert "there is no such field" in refused(queue.post(SAFE, as_="member", json=body), named)


def test_an_unknown_query_parameter_is_ignored(queue: QueueLab) -> None:
    assert queue.post(f"{SAFE}?colour=red", as_="member", json=queue.body()).status_code == 200


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'"text"', b"\xff"])
def test_a_body_that_is_no_object_is_refused(queue: QueueLab, raw: bytes) -> None:
    answer = queue.post(SAFE, as_="member", content=raw)
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
def test_a_bad_service_is_refused(queue: QueueLab, service: dict[str, Any], field: str) -> None:
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
def test_a_service_is_taken(queue: QueueLab, service: dict[str, Any], port: dict[str, Any]) -> None:
    ref = queue.submit(service=service)
    shown = queue.get(f"{SAFE}/{ref}/service", as_="member").json()
    assert shown["ports"] == [{"name": "http", **port}]


@pytest.mark.parametrize("name", ["", "A=B", "="])
def test_a_variable_that_cannot_be_one_is_refused(queue: QueueLab, name: str) -> None:
    answer = queue.create(env={name: "1"})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, BAD)
    assert "env" in answer.json()["errorMessage"]


def test_a_variable_that_no_program_could_be_started_with_is_refused_and_named(queue: QueueLab) -> None:
    most = 131_071 - len("LONG=")
    ref = queue.submit(env={"LONG": "x" * most})
    for value in ("x" * (most + 1), "ä" * (most // 2 + 1)):
        for answer in (
            queue.create(env={"LONG": value}),
            queue.patch(f"{SAFE}/{ref}", as_="member", json={"env": {"LONG": value}}),
        ):
            assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
            assert answer.json()["errorMessage"].startswith("env: ")
            assert '"LONG"' in answer.json()["errorMessage"]


def test_variables_that_are_too_long_together_are_refused(queue: QueueLab) -> None:
    many = {f"V{number}": "x" * 100_000 for number in range(15)}
    ref = queue.submit(env=many)
    assert queue.create(env={**many, "V15": "x" * 100_000}).status_code == 400
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"env": {"V15": "x" * 100_000}})
    assert answer.status_code == 400
    assert "1572864" in answer.json()["errorMessage"]


@pytest.mark.parametrize("env", [{"A": 1}, {"A": None}, ["A=1"], "A=1", {"A": "x\0"}])
def test_variables_are_text(queue: QueueLab, env: Any) -> None:
    answer = queue.post(SAFE, as_="member", json={**queue.body(), "env": env})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, BAD)


def test_labels_and_annotations_are_text_and_are_echoed(queue: QueueLab) -> None:
    shown = queue.detail(queue.submit(customerLabels={"team": "vision"}, annotations={"note": "a b ü"}))
    assert (shown["customerLabels"], shown["annotations"]) == ({"team": "vision"}, {"note": "a b ü"})
    for field in ("customerLabels", "annotations"):
        most = {f"k{number}": "" for number in range(256)}
        assert queue.create(**{field: most}).status_code == 200
        for value in ({"a": 1}, {"": "x"}, ["a"], most | {"more": ""}):
            answer = queue.create(**{field: value})
            assert (answer.status_code, field in answer.json()["errorMessage"]) == (400, True)


def test_switches_are_echoed(queue: QueueLab) -> None:
    names = ("isSupervised", "isTolerateAll", "preemptible")
    assert [queue.detail(queue.submit())[name] for name in names] == [False, False, False]
    shown = queue.detail(queue.submit(**dict.fromkeys(names, True)))
    assert [shown[name] for name in names] == [True, True, True]
    for name in names:
        refused(queue.create(**{name: "yes"}), name)


def test_an_unknown_dependency_is_not_found(queue: QueueLab) -> None:
    hidden = queue.submit("outsider", workspaceId="audio")
    for ref in ("nothing-bcdfg", hidden):
        answer = queue.create(dependencies=[ref])
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")
        assert ref in answer.json()["errorMessage"]


@pytest.mark.parametrize("moment", ["tomorrow", "", "2026-13-01T00:00:00Z", 5])
def test_a_start_time_that_is_none_is_refused(queue: QueueLab, moment: Any) -> None:
    refused(queue.create(startAfter=moment), "startAfter")


@pytest.mark.parametrize("moment", ["2026-01-15T10:30:00Z", "2030-01-15T10:30:00.123+08:00"])
def test_a_start_time_is_rfc_3339_with_any_offset(queue: QueueLab, moment: str) -> None:
    assert queue.create(startAfter=moment).status_code == 200


# The workspace


def test_without_a_workspace_it_is_the_default_one(queue: QueueLab) -> None:
    for caller, workspace in (("member", "vision"), ("outsider", "audio"), ("admin", "default")):
        assert queue.detail(queue.submit(caller, workspaceId=None))["workspaceId"] == workspace
    changed = queue.add_user("between", role="user")
    queue.put("/api/stoker/v1/workspaces/vision/members/between", as_="admin", json={"role": "member"})
    queue.put("/api/stoker/v1/workspaces/audio/members/between", as_="admin", json={"role": "member"})
    path = f"/api/stoker/v1/users/{changed}"
    assert queue.patch(path, as_="admin", json={"defaultWorkspace": "audio"}).status_code == 200
    assert queue.detail(queue.submit("between", workspaceId=None))["workspaceId"] == "audio"


def test_a_workspace_that_is_absent_or_hidden_is_not_found(queue: QueueLab) -> None:
    for caller, workspace in (("member", "audio"), ("member", "nowhere"), ("nobody", "vision"), ("nobody", None)):
        answer = queue.create(caller, workspaceId=workspace)
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")
