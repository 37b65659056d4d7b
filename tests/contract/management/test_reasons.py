"""Every workload says why it waits: at once, for missing replicas too, and when no server drives its cluster."""

from tests.api.harness import MANAGEMENT_PATH, V1
from tests.contract.management.harness import WAIT, QueueHarness, RunningHarness

from stoker.domain.workload.events import Dispatched, PodsReady

RUNAI = "/api/v1/workloads"


def test_the_first_look_at_a_queued_workload_says_why_it_waits(any_harness: QueueHarness) -> None:
    ref = any_harness.submit()
    message = any_harness.detail(ref)["message"]
    assert message == "Queued. The scheduler has not considered it yet."
    assert any_harness.row(ref)["message"] == message
    assert any_harness.get(f"{RUNAI}/{any_harness.inside(ref).uid}", as_="admin").json()["phaseMessage"] == message


def test_replicas_without_capacity_say_why_in_every_family_and_in_explain(works: RunningHarness) -> None:
    other = works.submit(gpu="8", run=WAIT)
    ref = works.submit(kind="Deployment", gpu="4", replica=1, run=WAIT)
    works.running(other)
    works.running(ref)
    assert works.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"replica": 3}).status_code == 204
    told = "2 of 3 replicas wait. Needs 2 x 4 GPUs; 1 of 2 fit on 2 nodes."
    works.until(lambda: works.detail(ref)["message"] == told, "the missing replicas have a reason")
    assert works.row(ref)["message"] == told
    shown = works.get(f"{RUNAI}/{works.inside(ref).uid}", as_="admin").json()
    assert shown["phaseMessage"] == told
    assert [each["userMessage"] for each in shown["pendingSchedulingMessages"]] == [told]
    explained = works.get(f"{V1}/workloads/{ref}/explain", as_="member").json()
    assert explained["reason"] == {"code": "no_room", "sentence": told}
    assert {"replica": 2} in [edit["patch"] for edit in explained["edits"]]
    assert works.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"replica": 2}).status_code == 204
    works.until(lambda: "wait" not in works.detail(ref)["message"], "nothing is missing any more")
    works.until(lambda: len(works.detail(ref)["pods"]) == 2, "the replica that has room is there")
    works.stop(ref, other)


def test_workloads_of_a_cluster_that_nobody_drives_say_so(any_harness: QueueHarness) -> None:
    waits, runs = any_harness.submit(), any_harness.submit()
    any_harness.go(runs, Dispatched, PodsReady)
    any_harness.stop_driving()
    undriven = 'No server drives cluster "local"'
    assert any_harness.detail(waits)["message"].startswith(f"{undriven}, so it cannot start. ")
    assert any_harness.row(runs)["message"].startswith(f"{undriven}, so this is its last known state. ")
    for ref in (waits, runs):
        explained = any_harness.get(f"{V1}/workloads/{ref}/explain", as_="admin").json()
        assert explained["reason"] == {"code": "not_driven", "sentence": any_harness.detail(ref)["message"]}
    parts = any_harness.get("/readyz").json()["parts"]
    assert [part["message"] for part in parts if part["name"] == "cluster"] == [
        f"{undriven}: nothing in it starts, stops or is observed. Start the server that drives it."
    ]
    any_harness.drive()
    assert undriven not in any_harness.detail(waits)["message"]
    assert [part["name"] for part in any_harness.get("/readyz").json()["parts"]] == ["database"]


def test_a_stop_on_a_cluster_that_nobody_drives_is_recorded_and_says_so(any_harness: QueueHarness) -> None:
    waits, runs = any_harness.submit(), any_harness.submit()
    any_harness.go(runs, Dispatched, PodsReady)
    any_harness.stop_driving()
    for ref in (waits, runs):
        assert any_harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="member").status_code == 204
    assert any_harness.detail(waits)["phase"] == "Stopped"
    assert any_harness.detail(waits)["message"] == "stopped by member"
    stopping = any_harness.detail(runs)
    assert stopping["phase"] == "Running"
    assert 'cluster "local". The stop is recorded and takes place when a server drives it.' in stopping["message"]
