"""Pods as Run:ai's clients list, filter, sort and count them, on both databases."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import structs
from tests.contract.management.harness import QueueHarness, big_node
from tests.contract.runai.submissions import WORKLOADS, submit

from stoker.domain.cluster.resources import Resources
from stoker.domain.names import new_uuid4
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.pod import Pod
from stoker.store.workloads import pods

PATH = f"{WORKLOADS}/pods"
HOUR = 3_600_000


@pytest.fixture
def harness(database_url: str, tmp_path: Path) -> Iterator[QueueHarness]:
    """Three pods of one workload, an hour after each other, of which the first has ended; and one that is hidden."""
    with QueueHarness(tmp_path / "data", database_url) as opened:
        opened.add_staff()
        opened.add_nodes(big_node("node-1"), structs.replace(big_node("node-2"), pool="spare"))
        mine, gone = submit(opened)["workloadId"], submit(opened)["workloadId"]
        cluster = opened.inside(mine).cluster_id
        made = [_pod(mine, number, opened.clock.now() + number * HOUR) for number in range(3)]
        made.append(_pod(gone, 7, opened.clock.now()))
        opened.run(opened.installation.store.write(lambda tx: pods.add(tx, cluster, made)))
        opened.delete(f"{WORKLOADS}/trainings/{gone}", as_="member")
        yield opened


def _pod(workload: str, number: int, at: int) -> Pod:
    ended = number == 0
    return Pod(
        uid=f"00000000-0000-4000-8000-00000000000{number}",
        workload_uid=workload,
        name=f"pod-{number}",
        attempt=1,
        revision=1,
        rank=number,
        node=f"node-{1 + number % 2}",
        resources=Resources(1000, 500, 2**30),
        phase=PodPhase.SUCCEEDED if ended else PodPhase.RUNNING,
        created_at=at,
        started_at=at,
        ended_at=at + 1 if ended else None,
    )


def _get(harness: QueueHarness, path: str = PATH, as_: str = "viewer", **query: Any) -> Any:
    answer = harness.get(f"{path}?{httpx.QueryParams(query)}", as_=as_)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _names(harness: QueueHarness, **query: Any) -> list[str]:
    return [each["name"] for each in _get(harness, **query)["pods"]]


def test_pods_are_listed_filtered_sorted_and_counted(harness: QueueHarness) -> None:
    everything = ["pod-0", "pod-1", "pod-2"]
    for query, names in (
        ({}, everything),
        ({"sortOrder": "desc"}, everything[::-1]),
        ({"sortBy": "createdAt", "sortOrder": "desc"}, everything[::-1]),
        ({"sortBy": "nodeName"}, ["pod-0", "pod-2", "pod-1"]),
        ({"sortBy": "completedAt"}, everything),
        ({"filterBy": "nodeName==node-1"}, ["pod-0", "pod-2"]),
        ({"filterBy": "nodeName!=node-1"}, ["pod-1"]),
        ({"filterBy": "nodeName=@ODE"}, everything),
        ({"filterBy": "nodeName!@e-1"}, ["pod-1"]),
        ({"filterBy": "nodeName=^node"}, everything),
        ({"filterBy": "nodeName=$2"}, ["pod-1"]),
        ({"filterBy": "nodeName=@_"}, []),
        ({"filterBy": "createdAt>=2026-01-15T11:30:00Z,nodeName==node-1"}, ["pod-2"]),
        ({"filterBy": "nodeName!=a,b, nodeName=$2"}, ["pod-1"]),
        ({"filterBy": "createdAt<=2026-01-15T13:30:00 02:00"}, ["pod-0", "pod-1"]),
        ({"filterBy": "createdAt<=2026-01-15T11:30:00"}, ["pod-0", "pod-1"]),
        ({"filterBy": "completedAt!=2000-01-01T00:00:00Z"}, everything),
        ({"completed": "true"}, ["pod-0"]),
        ({"completed": "false"}, ["pod-1", "pod-2"]),
        ({"search": "POD-2"}, ["pod-2"]),
        ({"deleted": "true"}, ["pod-7"]),
    ):
        assert _names(harness, **query) == names, query
        counted = {name: value for name, value in query.items() if not name.startswith("sort")}
        assert _get(harness, f"{PATH}/count", **counted) == {"count": len(names)}, query


def test_a_pod_shows_where_it_is_and_what_it_holds(harness: QueueHarness) -> None:
    first, second, _ = _get(harness, verbosity="full")["pods"]
    assert (first["k8sPhase"], first["completedAt"] is None) == ("Succeeded", False)
    assert (first["currentNodePool"], first["projectName"]) == ("default", "vision")
    assert first["allocatedResources"] == {"gpu": 0, "cpu": 0, "cpuMemory": "0"}
    assert second["allocatedResources"] == {"gpu": 1, "cpu": 0.5, "cpuMemory": "1Gi"}
    assert second["containers"][0]["image"] == "python:3.11"
    assert "workloadName" not in _get(harness)["pods"][0]
    assert [each["id"] for each in _get(harness, f"{WORKLOADS}/{first['workloadId']}/pods")["pods"]] == [
        each["id"] for each in _get(harness)["pods"]
    ]


def test_pages_of_pods_follow_each_other(harness: QueueHarness) -> None:
    page = _get(harness, limit=2)
    assert ([each["name"] for each in page["pods"]], page["next"]) == (["pod-0", "pod-1"], 2)
    page = _get(harness, limit=2, offset=2)
    assert ([each["name"] for each in page["pods"]], page["next"]) == (["pod-2"], None)


def test_the_pods_of_a_deleted_workload_are_still_listed_by_its_id(harness: QueueHarness) -> None:
    [mine, *_], [gone] = _get(harness)["pods"], _get(harness, deleted=True)["pods"]
    for ref, deleted, there in ((gone, True, True), (gone, False, True), (mine, True, False), (mine, False, True)):
        shown = _get(harness, f"{WORKLOADS}/{ref['workloadId']}/pods", deleted=deleted)["pods"]
        assert (ref["id"] in [each["id"] for each in shown]) is there, (ref["name"], deleted)
    assert harness.get(f"{WORKLOADS}/{gone['workloadId']}/pods", as_="outsider").status_code == 404


def test_who_may_not_see_the_workload_sees_no_pod(harness: QueueHarness) -> None:
    ref = _get(harness)["pods"][0]["workloadId"]
    for other in ("outsider", "nobody"):
        assert _get(harness, as_=other)["pods"] == []
        assert _get(harness, f"{PATH}/count", other) == {"count": 0}
        assert harness.get(f"{WORKLOADS}/{ref}/pods", as_=other).status_code == 404
    assert harness.get(PATH).status_code == 401


@pytest.mark.parametrize("query", ["filterBy=colour==red", "filterBy=createdAt=@x", "sortBy=colour", "limit=501"])
def test_a_bad_question_about_pods_is_refused_by_name(harness: QueueHarness, query: str) -> None:
    answer = harness.get(f"{PATH}?{query}", as_="viewer")
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert answer.json()["message"].startswith(f"{query.partition('=')[0]}: ")


def test_pods_are_found_by_the_pool_of_their_node(harness: QueueHarness) -> None:
    shown = {each["name"]: each["currentNodePool"] for each in _get(harness)["pods"]}
    assert shown == {"pod-0": "default", "pod-1": "spare", "pod-2": "default"}
    for asked, expected in {
        "currentNodepool==spare": ["pod-1"],
        "currentNodepool!=spare": ["pod-0", "pod-2"],
        "currentNodepool=@PAR": ["pod-1"],
        "currentNodepool=^def": ["pod-0", "pod-2"],
    }.items():
        assert _names(harness, filterBy=asked) == expected
        assert _get(harness, f"{PATH}/count", filterBy=asked)["count"] == len(expected)
    assert _names(harness, sortBy="currentNodepool", sortOrder="desc") == ["pod-1", "pod-2", "pod-0"]


def test_pods_are_sorted_by_node_in_natural_order_on_every_page(harness: QueueHarness) -> None:
    mine = submit(harness)["workloadId"]
    cluster = harness.inside(mine).cluster_id
    numbers = (10, 2, 100, 1, 20)
    harness.add_nodes(*(big_node(f"gpu-node-{number}") for number in numbers))
    made = [
        structs.replace(
            _pod(mine, 1, harness.clock.now()), uid=new_uuid4(), name=f"n-{number}", node=f"gpu-node-{number}"
        )
        for number in numbers
    ]
    harness.run(harness.installation.store.write(lambda tx: pods.add(tx, cluster, made)))
    natural = ["n-1", "n-2", "n-10", "n-20", "n-100"]
    asked = {"sortBy": "nodeName", "filterBy": f"workloadId=={mine}"}
    assert _names(harness, **asked) == natural
    assert _names(harness, **asked, sortOrder="desc") == natural[::-1]
    assert [_names(harness, **asked, limit=2, offset=offset) for offset in (0, 2, 4)] == [
        natural[:2],
        natural[2:4],
        natural[4:],
    ]
