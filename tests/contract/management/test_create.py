"""A create: accepted and refused values of the documented fields, each at its limits."""

import base64
import re
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.guarantees import refused
from tests.contract.management.harness import QueueHarness, encoded

BAD = "Stoker.00002"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LONG = "a" * 57


# The name and the id made from it


@pytest.mark.parametrize("name", ["a", "a1", "a-b", "a--b", LONG, "a" + "-" * 55 + "b", "x9"])
def test_a_display_name_is_lower_case_with_digits_and_dashes(queue: QueueHarness, name: str) -> None:
    assert queue.detail(queue.submit(displayName=name))["displayName"] == name


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a b", "é", "a\n", "a" * 58, "a" * 56 + "-", "a" * 57 + "-"]
)
def test_any_other_display_name_is_refused(queue: QueueHarness, name: str) -> None:
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
def test_the_id_is_the_first_45_characters_and_five_more(queue: QueueHarness, name: str, front: str) -> None:
    ref = queue.submit(displayName=name)
    assert re.fullmatch(f"{front}-[{LETTERS}]{{5}}", ref)
    assert len(f"{ref}-worker-100000") <= 66
    assert len(ref) <= 51


def test_ids_of_one_name_differ_and_use_the_whole_alphabet(queue: QueueHarness) -> None:
    asks = [queue.ask("POST", MANAGEMENT_PATH, as_="member", json=queue.body(displayName="same")) for _ in range(100)]
    tails = [answer.json()["workloadId"].removeprefix("same-") for answer in queue.together(*asks)]
    assert len(set(tails)) == 100
    assert set("".join(tails)) == set(LETTERS)


def test_the_inner_uid_names_a_workload_wherever_its_id_does(queue: QueueHarness) -> None:
    ref = queue.submit(service={"port": 80})
    uid = queue.inside(ref).uid
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uid)
    assert queue.detail(uid) == queue.detail(ref)
    assert queue.get(f"{MANAGEMENT_PATH}/{uid}/service", as_="member").json()["serviceName"] == ref
    assert queue.patch(f"{MANAGEMENT_PATH}/{uid}", as_="member", json={"description": "by uid"}).status_code == 204
    assert queue.detail(ref)["description"] == "by uid"
    after = queue.submit(dependencies=[uid])
    assert queue.detail(after)["dependencies"] == [uid]
    assert queue.post(f"{MANAGEMENT_PATH}/clone", as_="member", json={"workloadIds": [uid]}).status_code == 204
    assert queue.post(f"{MANAGEMENT_PATH}/stop", as_="member", json={"workloadIds": [uid]}).status_code == 204
    assert queue.detail(ref)["phase"] == "Stopped"
    assert queue.post(f"{MANAGEMENT_PATH}/{uid}/stop", as_="member").status_code == 204
    assert queue.delete(f"{MANAGEMENT_PATH}/{uid}", as_="member").status_code == 204
    assert queue.get(f"{MANAGEMENT_PATH}/{uid}", as_="member").status_code == 404


# Kind, version, image


@pytest.mark.parametrize("kind", ["PyTorchJob", "Deployment", "StatefulSet", "Authoring", "Job"])
def test_these_kinds_are_taken(queue: QueueHarness, kind: str) -> None:
    assert queue.detail(queue.submit(kind=kind))["groupVersionKind"] == {"kind": kind, "version": "v1"}


@pytest.mark.parametrize("kind", ["pytorchjob", "CronJob", "", None, 1])
def test_no_other_kind_is(queue: QueueHarness, kind: Any) -> None:
    message = refused(queue.create(kind=kind), "groupVersionKind.kind")
    assert all(word in message for word in ("PyTorchJob", "Deployment", "StatefulSet", "Authoring", "Job"))


@pytest.mark.parametrize("version", ["v2", "V1", "", "1", 1])
def test_the_version_is_v1(queue: QueueHarness, version: Any) -> None:
    body = {**queue.body(), "groupVersionKind": {"kind": "Job", "version": version}}
    assert "v1" in refused(queue.post(MANAGEMENT_PATH, as_="member", json=body), "groupVersionKind.version")


def test_an_image_is_text(queue: QueueHarness) -> None:
    for image in ("", 7, "i" * 1025):
        refused(queue.create(image=image), "image")


# The entry point


@pytest.mark.parametrize(
    "entry",
    ["python train.py", "cHl0aG9uIHRyYWluLnB5=", "cHl0aG9u IHRyYWluLnB5", "cHl0aG9uIHRyYWluLnB", "__8=", "é"],
)
def test_an_entry_point_that_is_not_base64_is_refused_with_an_example(queue: QueueHarness, entry: str) -> None:
    assert '"python train.py" is "cHl0aG9uIHRyYWluLnB5"' in refused(queue.create(entryPoint=entry), "entryPoint")


def test_an_entry_point_that_is_not_text_is_refused_with_an_example(queue: QueueHarness) -> None:
    raw = base64.b64encode(b"\xff\xfe\x00").decode()
    assert "cHl0aG9uIHRyYWluLnB5" in refused(queue.create(entryPoint=raw), "entryPoint")


def test_a_script_with_a_nul_is_refused_because_it_could_never_be_run(queue: QueueHarness) -> None:
    assert "NUL" in refused(queue.create(run="echo a\0b"), "entryPoint")
    ref = queue.submit()
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"entryPoint": encoded("a\0")})
    assert "NUL" in refused(answer, "entryPoint")


def test_the_entry_point_is_shown_decoded(queue: QueueHarness) -> None:
    script = "set -e\necho 'ümläut 🚀'\n"
    assert queue.detail(queue.submit(run=script))["entryPoint"] == script


@pytest.mark.parametrize("kind", ["PyTorchJob", "Deployment", "StatefulSet", "Job"])
@pytest.mark.parametrize("entry", [None, ""])
def test_the_local_engine_has_no_image_command_to_fall_back_on(
    queue: QueueHarness, kind: str, entry: str | None
) -> None:
    assert "required" in refused(queue.create(kind=kind, entryPoint=entry), "entryPoint")


def test_an_authoring_without_entry_point_is_taken(queue: QueueHarness) -> None:
    assert queue.detail(queue.submit(kind="Authoring", entryPoint=None))["entryPoint"] == ""


def test_an_entry_point_cannot_be_patched_away_where_it_is_needed(queue: QueueHarness) -> None:
    job, shell = queue.submit(), queue.submit(kind="Authoring")
    refused(queue.patch(f"{MANAGEMENT_PATH}/{job}", as_="member", json={"entryPoint": ""}), "entryPoint")
    assert queue.detail(job)["entryPoint"] == "true"
    assert queue.patch(f"{MANAGEMENT_PATH}/{shell}", as_="member", json={"entryPoint": ""}).status_code == 204


# Resources


@pytest.mark.parametrize("cpu", ["1", "100m", "0.5", "1m", "2e0", "128", "0.1", "1k"])
def test_a_cpu_is_a_kubernetes_quantity_and_is_echoed(queue: QueueHarness, cpu: str) -> None:
    made = queue.create(cpu=cpu)
    if cpu == "1k":  # a thousand CPUs are a quantity, only more than there are
        assert made.json()["errorCode"] == "Stoker.00008"
        return
    assert queue.detail(made.json()["workloadId"])["resource"]["cpu"] == cpu


@pytest.mark.parametrize("cpu", ["0", "0m", "-1", "", "one", "1 ", "1Kib", "1e", None, 1, 1.5])
def test_any_other_cpu_is_refused(queue: QueueHarness, cpu: Any) -> None:
    refused(queue.create(cpu=cpu), "resource.cpu")


@pytest.mark.parametrize("memory", ["256Gi", "1Mi", "1000000", "1G", "0.5Gi", "1e6", "128974848", "1Ti"])
def test_a_memory_is_a_kubernetes_quantity_and_is_echoed(queue: QueueHarness, memory: str) -> None:
    assert queue.detail(queue.submit(memory=memory))["resource"]["memory"] == memory


@pytest.mark.parametrize("memory", ["0", "-1Gi", "", "much", "1GiB", "1 Gi", None, 5])
def test_any_other_memory_is_refused(queue: QueueHarness, memory: Any) -> None:
    refused(queue.create(memory=memory), "resource.memory")


@pytest.mark.parametrize("gpu", ["0", "1", "8", "0.5", "500m", "1000m"])
def test_a_gpu_is_shown_as_the_string_that_was_sent(queue: QueueHarness, gpu: str) -> None:
    assert queue.detail(queue.submit(gpu=gpu))["resource"]["gpu"] == gpu


def test_no_gpu_is_shown_as_the_string_0(queue: QueueHarness) -> None:
    ref = queue.submit()
    assert queue.detail(ref)["resource"]["gpu"] == "0"
    assert queue.row(ref)["resource"]["gpu"] == "0"


@pytest.mark.parametrize("gpu", ["-1", "", "eight", "1.5", "2500m", None, 8])
def test_any_other_gpu_is_refused(queue: QueueHarness, gpu: Any) -> None:
    refused(queue.create(gpu=gpu), "resource.gpu")


@pytest.mark.parametrize("replica", [0, -1, "1", 1.5, None, True])
def test_a_replica_is_an_integer_from_1(queue: QueueHarness, replica: Any) -> None:
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
    queue: QueueHarness, field: str, good: tuple[int, ...], bad: tuple[Any, ...]
) -> None:
    for value in good:
        assert queue.detail(queue.submit(**{field: value}))[field] == value
    for value in bad:
        refused(queue.post(MANAGEMENT_PATH, as_="member", json={**queue.body(), field: value}), field)


def test_the_highest_priority_is_for_managers_and_admins(queue: QueueHarness) -> None:
    for caller in ("manager", "admin"):
        assert queue.detail(queue.submit(caller, priority=2))["priority"] == 2
    refusal = queue.create("member", priority=2)
    assert (refusal.status_code, refusal.json()["errorCode"]) == (403, "Stoker.00003")
    assert "manager" in refusal.json()["errorMessage"]


# Nodes


def test_specified_nodes_set_the_number_of_replicas(queue: QueueHarness) -> None:
    shown = queue.detail(queue.submit(specifiedNodes=["node-002", "node-001"], replica=7))
    assert (shown["specifiedNodes"], shown["resource"]["replica"]) == (["node-002", "node-001"], 2)


def test_an_unknown_or_duplicate_node_is_refused(queue: QueueHarness) -> None:
    assert "node-001, node-002" in refused(queue.create(specifiedNodes=["node-003"]), "specifiedNodes")
    assert "twice" in refused(queue.create(specifiedNodes=["node-001", "node-001"]), "specifiedNodes")
