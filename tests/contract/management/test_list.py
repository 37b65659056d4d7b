"""The list: every filter alone and together, every order, and pages that fit together; on both databases."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.guarantees import PHASES
from tests.contract.management.harness import QueueHarness

from stoker.domain.workload.events import (
    Dispatched,
    EngineUnreachable,
    PodsFinished,
    PodsNotReady,
    PodsReady,
    ResumeRequested,
    SpecChanged,
    StopRequested,
)
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec

SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "create_time": lambda item: item["creationTime"],
    "start_time": lambda item: item["startTime"],
    "end_time": lambda item: item["endTime"],
    "priority": lambda item: item["priority"],
    "display_name": lambda item: item["displayName"],
    "phase": lambda item: item["phase"],
    "runtime": lambda item: _seconds(item["runtime"]),
    "gpu": lambda item: int(item["resource"]["gpu"]) * item["resource"]["replica"],
}

WORDS = {
    Phase.CREATING: "Pending",
    Phase.PENDING: "Pending",
    Phase.SUBMITTED: "Pending",
    Phase.INITIALIZING: "Pending",
    Phase.RUNNING: "Running",
    Phase.DEGRADED: "Running",
    Phase.UPDATING: "Updating",
    Phase.STOPPING: "Running",
    Phase.STOPPED: "Stopped",
    Phase.RESUMING: "Pending",
    Phase.COMPLETED: "Succeeded",
    Phase.FAILED: "Failed",
    Phase.TERMINATING: "Running",
    Phase.UNKNOWN: "Running",
}


def _seconds(runtime: str) -> int:
    seconds = 0
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        number, found, rest = runtime.partition(unit)
        seconds, runtime = (seconds + int(number) * size, rest) if found else (seconds, runtime)
    return seconds


class ListedWorkloads:
    """A dozen workloads in every phase; `ids` has them by a name of the test's own."""

    def __init__(self, harness: QueueHarness) -> None:
        self.harness = harness
        self.ids: dict[str, str] = {}
        self.made_at: dict[str, int] = {}
        harness.add_staff()
        harness.add_user("li.wei")
        harness.put("/api/stoker/v1/workspaces/vision/members/li.wei", as_="admin", json={"role": "member"})
        self._add("waiting", gpu="4", description="Resnet 50% done")
        self._add("running", gpu="8", replica=2, kind="Deployment", description="serves_all")
        harness.go(self.ids["running"], Dispatched, PodsReady, seconds=5)
        self._add("done", "li.wei", gpu="1", description="RESNET again")
        harness.go(self.ids["done"], Dispatched, PodsReady, lambda at: PodsFinished(at, True, "well"), seconds=90)
        self._add("failed", "li.wei", priority=1)
        harness.go(
            self.ids["failed"], Dispatched, PodsReady, lambda at: PodsFinished(at, False, "pod x exited with code 3")
        )
        self._add("stopped", kind="StatefulSet", gpu="1")
        harness.go(self.ids["stopped"], lambda at: StopRequested(at, "member"))
        self._add("heard", "outsider", workspaceId="audio", kind="Authoring", description="100% of_it")
        self._add("urgent", "manager", priority=2, kind="Job")
        self._add("starting", gpu="1", description="ÜBER größe")
        harness.go(self.ids["starting"], Dispatched)
        self._add("degraded", kind="Deployment")
        harness.go(
            self.ids["degraded"], Dispatched, PodsReady, lambda at: PodsNotReady(at, "1 of 2 pods are up"), seconds=40
        )
        self._add("lost")
        harness.go(
            self.ids["lost"], Dispatched, PodsReady, lambda at: EngineUnreachable(at, "no contact"), seconds=4000
        )
        self._add("updating")
        harness.go(
            self.ids["updating"],
            Dispatched,
            PodsReady,
            lambda at: SpecChanged(at, "member", Spec(image="other")),
            seconds=1,
        )
        self._add("resuming")
        harness.go(
            self.ids["resuming"], lambda at: StopRequested(at, "member"), lambda at: ResumeRequested(at, "member")
        )
        self._add("deleted")
        assert harness.delete(f"{MANAGEMENT_PATH}/{self.ids.pop('deleted')}", as_="admin").status_code == 204

    def _add(self, name: str, as_: str = "member", /, **fields: Any) -> None:
        self.harness.clock.advance(seconds=1)
        self.made_at[name] = self.harness.clock.now()
        self.ids[name] = self.harness.submit(as_, displayName=name, **fields)

    def names(self, as_: str = "admin", /, **query: Any) -> list[str]:
        """The workloads of a list by their names here, in order."""
        page = self.harness.page(as_, **query)
        assert page["totalCount"] == len(page["items"])
        return [item["displayName"] for item in page["items"]]

    def found(self, as_: str = "admin", /, **query: Any) -> set[str]:
        return set(self.names(as_, **query))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def stock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListedWorkloads]:
    folder = tmp_path_factory.mktemp("list")
    if request.param == "sqlite":
        with QueueHarness(folder / "data") as harness:
            yield ListedWorkloads(harness)
        return
    server = request.getfixturevalue("postgres_server")
    with server.database() as url, QueueHarness(folder / "data", url) as harness:
        yield ListedWorkloads(harness)


def test_everything_that_is_not_deleted_is_there_newest_first(stock: ListedWorkloads) -> None:
    assert stock.names() == list(reversed(stock.ids))


def test_a_list_without_hits_is_an_empty_list(stock: ListedWorkloads) -> None:
    assert stock.harness.page(workloadId="nothing-of-this-name") == {"totalCount": 0, "items": []}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"workspaceId": "audio"}, {"heard"}),
        ({"workspaceId": "nowhere"}, set()),
        ({"clusterId": "local", "workspaceId": "audio"}, {"heard"}),
        ({"phase": "Succeeded"}, {"done"}),
        ({"phase": "Failed"}, {"failed"}),
        ({"phase": "Stopped"}, {"stopped"}),
        ({"phase": "Updating"}, {"updating"}),
        ({"phase": "Pending"}, {"waiting", "heard", "urgent", "starting", "resuming"}),
        ({"phase": "Running"}, {"running", "degraded", "lost"}),
        ({"phase": "Failed,Stopped"}, {"failed", "stopped"}),
        ({"phase": " Failed , Stopped ,"}, {"failed", "stopped"}),
        ({"phase": "Failed,Failed"}, {"failed"}),
        ({"kind": "Authoring"}, {"heard"}),
        ({"kind": "Job, StatefulSet"}, {"urgent", "stopped"}),
        ({"kind": "Deployment", "phase": "Running"}, {"running", "degraded"}),
        ({"kind": "Deployment", "phase": "Failed"}, set()),
        ({"userName": "li.wei"}, {"done", "failed"}),
        ({"userName": "LI."}, {"done", "failed"}),
        ({"userName": "l_"}, set()),
        ({"userName": "%"}, set()),
        ({"userName": "wei", "phase": "Failed", "kind": "PyTorchJob"}, {"failed"}),
        ({"description": "resnet"}, {"waiting", "done"}),
        ({"description": "NET A"}, {"done"}),
        ({"description": "%"}, {"waiting", "heard"}),
        ({"description": "_"}, {"running", "heard"}),
        ({"description": "50%"}, {"waiting"}),
        ({"description": "s_a"}, {"running"}),
        ({"description": "über GRÖSSE"}, {"starting"}),
        ({"description": "!"}, set()),
        ({"description": "\\"}, set()),
        ({"workloadId": "UPDATING-"}, {"updating"}),
        ({"workloadId": "ing-"}, {"waiting", "running", "starting", "updating", "resuming"}),
        ({"workloadId": "_"}, set()),
        ({"workloadId": "%"}, set()),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_each_filter_finds_what_it_says(stock: ListedWorkloads, query: dict[str, str], found: set[str]) -> None:
    assert stock.found(**query) == found


def test_the_user_id_is_exact(stock: ListedWorkloads) -> None:
    user = stock.harness.get("/api/stoker/v1/users/li.wei", as_="admin").json()["id"]
    assert stock.found(userId=user) == {"done", "failed"}
    assert stock.found(userId=user[:-1]) == set()
    assert stock.found(userId="li.wei") == set()


def test_the_cluster_is_named_by_its_id_too_and_an_unknown_one_is_not_found(stock: ListedWorkloads) -> None:
    cluster = stock.harness.get("/api/stoker/v1/clusters/local", as_="admin").json()["id"]
    assert stock.found(clusterId=cluster) == set(stock.ids)
    answer = stock.harness.get(f"{MANAGEMENT_PATH}?clusterId=nowhere", as_="member")
    assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")


def test_since_and_until_hold_for_the_creation_time_and_are_inclusive(stock: ListedWorkloads) -> None:
    times = {item["displayName"]: item["creationTime"] for item in stock.harness.listed()}
    names = list(stock.ids)
    third, fifth = names[2], names[4]
    assert stock.found(since=times[third], until=times[fifth]) == set(names[2:5])
    assert stock.found(since=times[fifth]) == set(names[4:])
    assert stock.found(until=times[third]) == set(names[:3])
    assert stock.found(since=times[third], until=times[third], kind="PyTorchJob") == {third}
    later = times[third].replace("Z", "").rpartition(".")
    assert third not in stock.found(since=f"{later[0]}.{int(later[2]) + 1:03d}Z")
    assert stock.found(since=times[fifth], until=times[third]) == set()


def test_a_time_may_have_any_offset(stock: ListedWorkloads) -> None:
    [item] = stock.harness.listed(workloadId="waiting")
    hour = int(item["creationTime"][11:13])
    shifted = item["creationTime"].replace("Z", "+02:00").replace(f"T{hour:02d}", f"T{hour + 2:02d}")
    assert stock.found(since=shifted, until=shifted) == {"waiting"}


@pytest.mark.parametrize(
    ("query", "field", "allowed"),
    [
        ("phase=Done", "phase", "Succeeded"),
        ("phase=Failed,Done", "phase", "Succeeded"),
        ("phase=running", "phase", "Running"),
        ("kind=CronJob", "kind", "PyTorchJob"),
        ("since=yesterday", "since", ""),
        ("until=2026-02-30T00:00:00Z", "until", ""),
        ("offset=-1", "offset", "0"),
        ("offset=x", "offset", "0"),
        ("limit=0", "limit", "1000"),
        ("limit=-1", "limit", "1000"),
        ("limit=1001", "limit", "1000"),
        ("limit=ten", "limit", "1000"),
        ("limit=1.5", "limit", "1000"),
        ("sortBy=colour", "sortBy", "create_time"),
        ("sortBy=displayName", "sortBy", "display_name"),
        ("order=up", "order", "desc"),
        ("order=DESC", "order", "desc"),
    ],
)
def test_a_bad_value_is_refused_and_the_parameter_named(
    stock: ListedWorkloads, query: str, field: str, allowed: str
) -> None:
    answer = stock.harness.get(f"{MANAGEMENT_PATH}?{query}", as_="member")
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
    assert answer.json()["errorMessage"].startswith(f"{field}: ")
    assert allowed in answer.json()["errorMessage"]


def test_unknown_parameters_are_ignored(stock: ListedWorkloads) -> None:
    assert stock.found(colour="red", page="7") == set(stock.ids)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", SORTS)
def test_each_order_is_the_order_of_what_is_shown(stock: ListedWorkloads, sort: str, order: str) -> None:
    items = stock.harness.listed(sortBy=sort, order=order)
    keys = [SORTS[sort](item) for item in items]
    present = [key for key in keys if key != ""]
    assert keys == [*sorted(present, reverse=order == "desc"), *[""] * (len(keys) - len(present))]
    assert {item["displayName"] for item in items} == set(stock.ids)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", SORTS)
def test_pages_fit_together(stock: ListedWorkloads, sort: str, order: str) -> None:
    whole = stock.harness.listed(sortBy=sort, order=order, limit=1000)
    for size in (1, 5):
        pages = [
            stock.harness.page(sortBy=sort, order=order, limit=size, offset=offset)
            for offset in range(0, len(whole) + size, size)
        ]
        assert [item for page in pages for item in page["items"]] == whole
        assert {page["totalCount"] for page in pages} == {len(whole)}


@pytest.mark.usefixtures("few")
def test_phases_are_in_order_within_a_filter_too(stock: ListedWorkloads) -> None:
    items = stock.harness.listed(phase="Updating,Running,Failed", sortBy="phase", order="asc")
    assert [item["phase"] for item in items] == ["Failed", "Running", "Running", "Running", "Updating"]


def test_order_works_without_sort(stock: ListedWorkloads) -> None:
    assert stock.names(order="asc") == list(stock.ids)
    assert stock.names(order="desc") == stock.names()


def test_the_default_page_is_a_hundred_and_the_largest_a_thousand(stock: ListedWorkloads) -> None:
    harness = stock.harness
    workspace = harness.add_workspace(member="member")
    asks = [
        harness.ask("POST", MANAGEMENT_PATH, as_="member", json=harness.body(workspaceId=workspace)) for _ in range(120)
    ]
    assert {answer.status_code for answer in harness.together(*asks)} == {200}
    assert len(harness.listed(workspaceId=workspace)) == 100
    assert len(harness.listed(workspaceId=workspace, limit=1000)) == 120
    assert harness.page(workspaceId=workspace, limit=1)["totalCount"] == 120
    seen = [
        item["workloadId"]
        for offset in range(0, 120, 7)
        for item in harness.listed(workspaceId=workspace, limit=7, offset=offset, sortBy="priority", order="asc")
    ]
    assert len(seen) == len(set(seen)) == 120
    assert harness.listed(workspaceId=workspace, offset=120) == []
    orders = [item["schedulerOrder"] for item in harness.listed(workspaceId=workspace, limit=1000)]
    assert sorted(orders) == list(range(1, 121))
    refs = [item["workloadId"] for item in harness.listed(workspaceId=workspace, limit=1000)]
    assert harness.post(f"{MANAGEMENT_PATH}/delete", as_="member", json={"workloadIds": refs}).status_code == 204
    assert harness.listed(workspaceId=workspace) == []


def test_one_sees_the_workspaces_one_belongs_to(stock: ListedWorkloads) -> None:
    heard = {"heard"}
    for caller, found in (
        ("viewer", set(stock.ids) - heard),
        ("member", set(stock.ids) - heard),
        ("outsider", heard),
        ("nobody", set()),
    ):
        assert stock.found(caller) == found
        assert stock.found(caller, workspaceId="audio") == found & heard
    user = stock.harness.get("/api/stoker/v1/users/member", as_="admin").json()["id"]
    assert stock.found("outsider", userId=user) == set()


@pytest.mark.parametrize(("phase", "word"), WORDS.items())
def test_every_inner_phase_is_shown_by_the_word_of_the_table(stock: ListedWorkloads, phase: Phase, word: str) -> None:
    harness = stock.harness
    ref = harness.submit("outsider", workspaceId="audio", displayName="phased")
    harness.put_in(ref, phase)
    assert harness.get(f"{MANAGEMENT_PATH}/{ref}", as_="admin").json()["phase"] == word
    for each in PHASES:
        assert [item["phase"] for item in harness.listed(workloadId=ref, phase=each)] == (
            [word] if each == word else []
        )
    harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="admin")
    assert harness.listed(workloadId=ref) == []


def test_the_table_is_complete() -> None:
    assert set(WORDS) | {Phase.DELETING} == set(Phase)
