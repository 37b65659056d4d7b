"""Events and history of a workload: everything that happened to it, in pages that never overlap."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.management.harness import QueueHarness
from tests.contract.runai.submissions import WORKLOADS, submit

from stoker.domain.workload.events import Dispatched, PodsFinished, PodsReady


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHarness]:
    with QueueHarness(tmp_path_factory.mktemp("events") / "data") as opened:
        opened.add_staff()
        yield opened


@pytest.fixture(scope="module")
def ref(harness: QueueHarness) -> str:
    """A workload that has failed."""
    made = submit(harness)["workloadId"]
    harness.go(
        made, Dispatched, PodsReady, lambda at: PodsFinished(at, success=False, message="exit code 3"), seconds=10
    )
    return made


def _get(harness: QueueHarness, ref: str, what: str, **query: Any) -> dict[str, Any]:
    words = "&".join(f"{name}={value}" for name, value in query.items())
    answer = harness.get(f"{WORKLOADS}/{ref}/{what}?{words}", as_="viewer")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_events_are_the_conditions_newest_first(harness: QueueHarness, ref: str) -> None:
    shown = _get(harness, ref, "events")
    conditions = harness.detail(ref)["conditions"]
    assert shown["next"] is None
    assert [(each["reason"], each["message"], each["createdAt"]) for each in reversed(shown["events"])] == [
        (each["reason"], each["message"], each["lastTransitionTime"]) for each in conditions
    ]
    newest = shown["events"][0]
    assert (newest["type"], newest["involvedObject"]["uid"]) == ("Warning", ref)
    assert _get(harness, ref, "events", sortOrder="asc")["events"] == shown["events"][::-1]


def test_history_has_the_phases_too(harness: QueueHarness, ref: str) -> None:
    records = _get(harness, ref, "history", sortOrder="asc")["records"]
    phases = [each["spec"]["phaseUpdate"]["phase"] for each in records if each["meta"]["type"] == "PhaseUpdate"]
    assert phases == ["Pending", "Initializing", "Running", "Failed"]
    events = [each["spec"]["event"]["id"] for each in records if each["meta"]["type"] == "Event"]
    assert events == [each["id"] for each in _get(harness, ref, "events", sortOrder="asc")["events"]]
    assert records[-1]["spec"]["phaseUpdate"]["phaseMessage"] == "exit code 3"
    stamps = [each["meta"]["creationTimestamp"] for each in records]
    assert stamps == sorted(stamps)


def test_a_stop_that_was_resumed_is_in_the_history(harness: QueueHarness) -> None:
    made = submit(harness, image="none")["workloadId"]
    for action in ("suspend", "resume", "suspend"):
        harness.clock.advance(seconds=5)
        assert harness.post(f"{WORKLOADS}/trainings/{made}/{action}", as_="member").status_code == 202
    records = _get(harness, made, "history", sortOrder="asc")["records"]
    updates = [each["spec"]["phaseUpdate"] for each in records if each["meta"]["type"] == "PhaseUpdate"]
    assert [(each["phase"], each["phaseMessage"]) for each in updates] == [
        ("Pending", "submitted by member"),
        ("Stopped", "stopped by member"),
        ("Resuming", "resumed by member"),
        ("Stopped", "stopped by member"),
    ]


@pytest.mark.parametrize(("what", "items"), [("events", "events"), ("history", "records")])
def test_what_happened_to_a_deleted_workload_is_still_known(harness: QueueHarness, what: str, items: str) -> None:
    made = submit(harness)["workloadId"]
    assert harness.delete(f"{WORKLOADS}/trainings/{made}", as_="member").status_code == 202
    assert _get(harness, made, what)[items]
    assert harness.get(f"{WORKLOADS}/{made}/{what}", as_="outsider").status_code == 404


@pytest.mark.parametrize(("what", "items"), [("events", "events"), ("history", "records")])
def test_pages_follow_each_other(harness: QueueHarness, ref: str, what: str, items: str) -> None:
    whole, offset, seen = _get(harness, ref, what)[items], 0, []
    while offset is not None:
        page = _get(harness, ref, what, limit=2, offset=offset)
        seen += page[items]
        offset = page["next"]
    assert seen == whole


@pytest.mark.parametrize("what", ["events", "history"])
def test_who_may_not_see_a_workload_sees_nothing_of_its_life(harness: QueueHarness, ref: str, what: str) -> None:
    assert harness.get(f"{WORKLOADS}/{ref}/{what}", as_="outsider").status_code == 404
    assert harness.get(f"{WORKLOADS}/{ref}/{what}").status_code == 401
    assert harness.get(f"{WORKLOADS}/{ref}/{what}?limit=501", as_="viewer").status_code == 400
