"""The list, the detail, the hierarchy and the metadata: every filter, every order, what is held, what is hidden."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.monitoring.harness import MODEL, MonitoringHarness

from stoker.domain.workload.events import Dispatched, EngineUnreachable, PodsLost, PodsTerminated, StopRequested
from stoker.domain.workload.phase import Phase

WORDS = {
    Phase.CREATING: ("Pending", "yellow"),
    Phase.PENDING: ("Pending", "yellow"),
    Phase.INITIALIZING: ("Pending", "yellow"),
    Phase.RUNNING: ("Running", "green"),
    Phase.DEGRADED: ("Running", "green"),
    Phase.UPDATING: ("Running", "green"),
    Phase.STOPPING: ("Running", "green"),
    Phase.STOPPED: ("Unknown", "gray"),
    Phase.RESUMING: ("Pending", "yellow"),
    Phase.COMPLETED: ("Completed", "green"),
    Phase.FAILED: ("Failed", "red"),
    Phase.TERMINATING: ("Running", "green"),
    Phase.UNKNOWN: ("Unknown", "gray"),
}
STATUSES = ("Running", "Completed", "Failed", "Pending", "Unknown")
HELD = {"AMD_Instinct_MI300X_OAM": 8}


def test_a_running_workload_is_shown_with_what_it_holds(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit(gpu="8")
    any_harness.start(ref, {"node-001": range(8)}, seconds=90)
    uid = any_harness.inside(ref).uid
    assert any_harness.only() == {
        "kind": "PyTorchJob",
        "name": any_harness.inside(ref).name,
        "namespace": "vision",
        "uid": uid,
        "gpuAllocated": 8,
        "gpuAllocation": HELD,
        "status": "Running",
        "statusColor": "green",
        "startAt": any_harness.clock.now() // 1000,
        "endAt": 0,
        "source": "local",
    }
    for name in (uid, ref):
        assert any_harness.data(f"/api/workloads/{name}") == {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "name": any_harness.inside(ref).name,
            "namespace": "vision",
            "uid": uid,
            "gpuAllocation": HELD,
            "pods": [{"nodeName": "node-001", "podNamespace": "vision", "podName": f"{ref}-0"}],
            "startTime": any_harness.clock.now() // 1000,
            "endTime": 0,
            "source": "local",
        }


def test_one_that_waits_holds_nothing_and_has_no_times(harness: MonitoringHarness) -> None:
    ref = harness.submit(gpu="8")
    row = harness.only()
    assert (row["gpuAllocated"], row["gpuAllocation"], row["startAt"], row["endAt"]) == (0, {}, 0, 0)
    shown = harness.data(f"/api/workloads/{ref}")
    assert (shown["pods"], shown["gpuAllocation"], shown["startTime"], shown["endTime"]) == ([], {}, 0, 0)


def test_one_that_has_ended_shows_what_its_last_attempt_held(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit(gpu="4", maxRetry=3)
    any_harness.start(ref, {"node-001": range(4)}, model="Old Model")
    any_harness.release(*any_harness.pods(ref))
    any_harness.go(ref, lambda at: PodsLost(at, "node lost"))
    assert any_harness.only()["gpuAllocation"] == {}
    any_harness.start(ref, {"node-002": range(4)}, seconds=60)
    any_harness.end(ref, seconds=30)
    row = any_harness.only()
    assert (row["status"], row["gpuAllocated"]) == ("Completed", 4)
    assert row["gpuAllocation"] == {"AMD_Instinct_MI300X_OAM": 4}
    assert row["endAt"] == any_harness.clock.now() // 1000
    shown = any_harness.data(f"/api/workloads/{ref}")
    assert (shown["endTime"], [pod["nodeName"] for pod in shown["pods"]]) == (row["endAt"], ["node-002"])


def test_fractions_are_rounded_up_and_models_are_told_apart(any_harness: MonitoringHarness) -> None:
    half = any_harness.submit(gpu="500m")
    any_harness.start(half, {"node-001": [0]}, share=500)
    mixed = any_harness.submit(gpu="1", replica=2)
    any_harness.go(mixed, Dispatched)
    any_harness.add_pod(mixed, 0, {"node-001": [1]})
    any_harness.add_pod(mixed, 1, {"node-002": [1]}, model="NVIDIA  H100 80GB\tHBM3")
    rows = any_harness.data("/api/workloads")["data"]
    shown = {any_harness.inside(row["uid"]).slug: (row["gpuAllocated"], row["gpuAllocation"]) for row in rows}
    assert shown[half] == (1, {"AMD_Instinct_MI300X_OAM": 1})
    assert shown[mixed] == (2, {"AMD_Instinct_MI300X_OAM": 1, "NVIDIA_H100_80GB_HBM3": 1})


def test_pods_that_share_gpus_add_up(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit(gpu="500m", replica=4)
    any_harness.go(ref, Dispatched)
    for rank in range(4):
        any_harness.add_pod(ref, rank, {"node-001": [rank // 2]}, share=500)
    assert any_harness.only()["gpuAllocated"] == 2
    any_harness.go(ref, lambda at: StopRequested(at, "member"))
    any_harness.release(*any_harness.pods(ref))
    any_harness.go(ref, PodsTerminated)
    assert any_harness.only()["gpuAllocated"] == 2


def test_a_pod_that_takes_the_place_of_another_is_counted_once(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit(kind="Deployment", gpu="2")
    any_harness.start(ref, {"node-001": [0, 1]})
    any_harness.clock.advance(seconds=1)
    any_harness.release(*any_harness.pods(ref))  # which comes first: a GPU has one holder
    any_harness.add_pod(ref, 0, {"node-001": [0, 1]})
    assert any_harness.only()["gpuAllocated"] == 2
    assert len(any_harness.data(f"/api/workloads/{ref}/hierarchy")["children"]) == 1
    any_harness.clock.advance(seconds=1)
    any_harness.release(any_harness.pods(ref)[0])
    moved = any_harness.add_pod(ref, 0, {"node-002": [4, 5]})
    any_harness.go(ref, lambda at: StopRequested(at, "member"))
    any_harness.release(*any_harness.pods(ref))
    any_harness.go(ref, PodsTerminated)
    assert any_harness.only()["gpuAllocated"] == 2
    [child] = any_harness.data(f"/api/workloads/{ref}/hierarchy")["children"]
    assert child["uid"] == moved.uid


@pytest.mark.parametrize("phase", list(WORDS))
def test_every_phase_has_its_word_and_colour(harness: MonitoringHarness, phase: Phase) -> None:
    ref = harness.submit()
    harness.put_in(ref, phase)
    row = harness.only()
    assert (row["status"], row["statusColor"]) == WORDS[phase]
    for status in STATUSES:
        assert harness.names(status=status) == ([ref] if status == row["status"] else [])


def test_a_deleted_workload_is_hidden_everywhere(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit()
    any_harness.start(ref)
    assert any_harness.data("/api/workloads")["total"] == 1
    assert any_harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="admin").status_code == 204
    assert any_harness.data("/api/workloads") == {"data": [], "total": 0}
    assert any_harness.data("/api/workloadMetadata") == {"namespaces": [], "kinds": []}
    for path in ("", "/hierarchy"):
        answer = any_harness.get(f"/api/workloads/{ref}{path}")
        assert (answer.status_code, answer.json()["message"]) == (404, f"Workload with UID '{ref}' not found")


def _stock(harness: MonitoringHarness) -> dict[str, str]:
    """Workloads of every kind and state, a minute after each other."""
    made = {}
    for name, as_, fields in (
        ("waits", "member", {"displayName": "train-waits"}),
        ("runs", "member", {"displayName": "train-runs", "kind": "Job"}),
        ("serves", "outsider", {"displayName": "serve-it", "kind": "Deployment", "workspaceId": "audio"}),
        ("done", "outsider", {"displayName": "train-done", "kind": "Job", "workspaceId": "audio"}),
        ("failed", "member", {"displayName": "x-failed", "kind": "StatefulSet"}),
        ("lost", "member", {"displayName": "x-lost", "kind": "Authoring"}),
    ):
        made[name] = harness.submit(as_, **fields)
    for name in ("runs", "serves", "done", "failed", "lost"):
        harness.start(made[name], seconds=60)
    harness.end(made["failed"], success=False, seconds=60)
    harness.end(made["done"], seconds=60)
    harness.go(made["lost"], lambda at: EngineUnreachable(at, "gone"))
    return made


@pytest.mark.usefixtures("few")
def test_filters_alone_and_together(any_harness: MonitoringHarness) -> None:
    made = _stock(any_harness)
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, set(made)),
        ({"name": "TRAIN"}, {"waits", "runs", "done"}),
        ({"name": "in-r"}, {"runs"}),
        ({"name": "%"}, set()),
        ({"name": "_"}, set()),
        ({"kind": "Job"}, {"runs", "done"}),
        ({"kind": "job"}, set()),
        ({"kind": "CronJob"}, set()),
        ({"namespace": "audio"}, {"serves", "done"}),
        ({"namespace": "aud"}, set()),
        ({"status": "Pending"}, {"waits"}),
        ({"status": "Running"}, {"runs", "serves"}),
        ({"status": "Completed"}, {"done"}),
        ({"status": "Failed"}, {"failed"}),
        ({"status": "Unknown"}, {"lost"}),
        ({"status": ""}, set(made)),
        ({"cluster": "local"}, set(made)),
        ({"kind": "Job", "namespace": "audio"}, {"done"}),
        ({"kind": "Job", "status": "Running"}, {"runs"}),
        ({"name": "train", "status": "Completed", "namespace": "audio", "kind": "Job", "cluster": "local"}, {"done"}),
        ({"name": "train", "namespace": "vision"}, {"waits", "runs"}),
        ({"unheardOf": "x"}, set(made)),
    ]
    for query, expected in cases:
        page = any_harness.data("/api/workloads", pageSize=1000, **query)
        found = {any_harness.inside(row["uid"]).slug for row in page["data"]}
        assert (query, found, page["total"]) == (query, {made[name] for name in expected}, len(expected))
    assert any_harness.data("/api/workloadMetadata") == {
        "namespaces": ["audio", "vision"],
        "kinds": ["Authoring", "Deployment", "Job", "PyTorchJob", "StatefulSet"],
    }
    assert any_harness.data("/api/workloadMetadata", cluster="local")["namespaces"] == ["audio", "vision"]


def test_orders(any_harness: MonitoringHarness) -> None:
    made = _stock(any_harness)
    by_start = ["lost", "failed", "done", "serves", "runs", "waits"]
    for query, expected in (
        ({}, by_start),
        ({"order": "asc"}, [*reversed(by_start[:-1]), "waits"]),
        ({"orderBy": "start_at"}, by_start),
        ({"order_by": "start_at", "order": "desc"}, by_start),
    ):
        assert any_harness.names(**query) == [made[name] for name in expected]
    newest_end = any_harness.names(orderBy="end_at")
    assert newest_end[:2] == [made["done"], made["failed"]]
    oldest_end = any_harness.names(orderBy="end_at", order="asc")
    assert oldest_end[:2] == [made["failed"], made["done"]]
    unended = {made[name] for name in ("waits", "runs", "serves", "lost")}
    assert set(newest_end[2:]) == set(oldest_end[2:]) == unended
    assert newest_end[2:] == oldest_end[:1:-1]


def test_both_spellings_of_a_parameter(harness: MonitoringHarness) -> None:
    for _ in range(3):
        harness.submit()
    assert len(harness.data("/api/workloads", page_size=2, page_num=2)["data"]) == 1
    assert len(harness.data("/api/workloads", pageSize=2, pageNum=2)["data"]) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *((f"pageSize={value}", "pageSize") for value in ("0", "-1", "1001", "x", "1.5", "")),
        *((f"pageNum={value}", "pageNum") for value in ("0", "-1", "x", "")),
        ("page_size=0", "pageSize"),
        ("status=Stopped", "status"),
        ("status=running", "status"),
        ("orderBy=name", "orderBy"),
        ("order_by=created_at", "orderBy"),
        ("order=up", "order"),
    ],
)
def test_a_bad_value_is_refused_by_name(harness: MonitoringHarness, query: str, field: str) -> None:
    answer = harness.get(f"/api/workloads?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert answer.json()["message"].startswith(f"{field}: ")


@pytest.mark.parametrize("path", ["/api/workloads", "/api/workloadMetadata", "/api/clusters/overview"])
def test_an_unknown_cluster_is_not_found(harness: MonitoringHarness, path: str) -> None:
    answer = harness.get(f"{path}?cluster=moon")
    assert (answer.status_code, answer.json()["code"]) == (404, 404)
    assert '"moon"' in answer.json()["message"]


def test_a_workload_of_another_cluster_is_not_found_there(harness: MonitoringHarness) -> None:
    ref = harness.submit()
    cluster = harness.add_cluster("moon", "kubernetes")
    assert harness.data(f"/api/workloads/{ref}", cluster="local")["name"] == harness.inside(ref).name
    assert harness.get(f"/api/workloads/{ref}?cluster=moon").status_code == 404
    assert harness.data("/api/workloads", cluster=cluster.id) == {"data": [], "total": 0}


@pytest.mark.parametrize("path", ["", "/hierarchy", "/metrics?start=1&end=2", "/trainingPerformance?start=1&end=2"])
def test_an_unknown_uid_is_not_found_in_the_words_of_the_document(harness: MonitoringHarness, path: str) -> None:
    answer = harness.get(f"/api/workloads/invalid-uid{path}")
    expected = {
        "code": 404,
        "message": "Workload with UID 'invalid-uid' not found",
        "traceId": answer.headers["X-Trace-Id"],
    }
    assert (answer.status_code, answer.json()) == (404, expected)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("PyTorchJob", "kubeflow.org/v1"),
        ("Authoring", "kubeflow.org/v1"),
        ("Job", "batch/v1"),
        ("Deployment", "apps/v1"),
        ("StatefulSet", "apps/v1"),
    ],
)
def test_every_kind_has_its_api_version(harness: MonitoringHarness, kind: str, version: str) -> None:
    assert harness.data(f"/api/workloads/{harness.submit(kind=kind)}")["apiVersion"] == version


def test_the_hierarchy_is_the_workload_and_its_pods(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit(gpu="2", replica=3)
    any_harness.start(ref, *({f"node-{rank}": [0, 1]} for rank in range(3)))
    root = any_harness.data(f"/api/workloads/{ref}/hierarchy")
    pods = any_harness.pods(ref)
    assert root == {
        "kind": "PyTorchJob",
        "name": any_harness.inside(ref).name,
        "namespace": "vision",
        "uid": any_harness.inside(ref).uid,
        "children": [
            {"kind": "Pod", "name": pod.name, "namespace": "vision", "uid": pod.uid, "children": []} for pod in pods
        ],
    }
    assert [child["name"] for child in root["children"]] == [
        pod["podName"] for pod in _detail(any_harness, ref)["pods"]
    ]


def _detail(harness: MonitoringHarness, ref: str) -> dict[str, Any]:
    return harness.data(f"/api/workloads/{ref}")


def test_a_page_past_the_end_is_empty_and_knows_the_total(harness: MonitoringHarness) -> None:
    harness.submit()
    assert harness.data("/api/workloads", pageNum=2) == {"data": [], "total": 1}
    assert harness.data("/api/workloads", pageNum=2**31, pageSize=1000) == {"data": [], "total": 1}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with MonitoringHarness(tmp_path_factory.mktemp("crowd") / "data") as harness:
        harness.add_staff()
        for number in range(60):
            as_, workspace = ("member", "vision") if number % 3 else ("outsider", "audio")
            kind = ("Job", "PyTorchJob", "Deployment")[number % 3]
            ref = harness.submit(
                as_, workspaceId=workspace, kind=kind, displayName=f"{'abc'[number % 3]}-work-{number}"
            )
            if number % 4:
                harness.start(ref, seconds=number % 2)
            if number % 4 == 2:
                harness.end(ref, success=bool(number % 8 == 2), seconds=number % 3)
        yield harness


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(1, 25),
    name=st.sampled_from(["", "work", "a-", "-1", "zz"]),
    kind=st.sampled_from(["", "Job", "Deployment", "PyTorchJob"]),
    namespace=st.sampled_from(["", "audio", "vision"]),
    status=st.sampled_from(["", *STATUSES]),
    order_by=st.sampled_from(["", "start_at", "end_at"]),
    order=st.sampled_from(["asc", "desc"]),
)
def test_pages_never_overlap_and_totals_are_counts(crowd: MonitoringHarness, size: int, **query: str) -> None:
    asked = {("orderBy" if name == "order_by" else name): value for name, value in query.items() if value}
    whole = crowd.data("/api/workloads", pageSize=1000, **asked)
    pages = [
        crowd.data("/api/workloads", pageSize=size, pageNum=number, **asked)
        for number in range(1, whole["total"] // size + 3)
    ]
    assert [row for page in pages for row in page["data"]] == whole["data"]
    assert {page["total"] for page in pages} == {whole["total"]} == {len(whole["data"])}
    for row in whole["data"]:
        assert query["name"] in row["name"]
        assert query["kind"] in ("", row["kind"])
        assert query["namespace"] in ("", row["namespace"])
        assert query["status"] in ("", row["status"])


def test_the_counts_follow_every_change(any_harness: MonitoringHarness) -> None:
    refs = [any_harness.submit() for _ in range(4)]
    any_harness.start(refs[0])
    any_harness.start(refs[1])
    any_harness.end(refs[1])
    any_harness.delete(f"{MANAGEMENT_PATH}/{refs[2]}", as_="admin")
    totals = {status: any_harness.data("/api/workloads", status=status)["total"] for status in STATUSES}
    assert totals == {"Running": 1, "Completed": 1, "Pending": 1, "Failed": 0, "Unknown": 0}
    counted = any_harness.run(
        any_harness.installation.store.read(
            lambda tx: tx.fetch_all(
                "SELECT phase, SUM(workloads) FROM workload_count WHERE visibility = 0 GROUP BY phase "
                "HAVING SUM(workloads) > 0"
            )
        )
    )
    assert sorted(counted) == [("Completed", 1), ("Pending", 1), ("Running", 1)]


def test_the_model_keeps_its_name_but_for_blanks(harness: MonitoringHarness) -> None:
    ref = harness.submit(gpu="1")
    harness.start(ref, {"node-001": [0]})
    assert list(harness.only()["gpuAllocation"]) == [MODEL.replace(" ", "_")]


def test_the_name_is_looked_for_in_the_name_alone(any_harness: MonitoringHarness) -> None:
    ref = any_harness.submit(displayName="train")
    assert any_harness.data("/api/workloads", name="TRAIN")["total"] == 1
    assert any_harness.data("/api/workloads", name=ref)["total"] == 0, "the end of an id is not part of a name"
    assert any_harness.data("/api/workloads", name=ref.removeprefix("train"))["total"] == 0
