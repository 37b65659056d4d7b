"""Preemption of real workloads across two workspaces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.management.harness import WAIT, RunningHarness
from tests.contract.management.test_lifecycle import types

from stoker.domain.workload.status import NOT_YET_SCHEDULED

# Preemption


@pytest.fixture
def two_teams(tmp_path: Path) -> Iterator[RunningHarness]:
    """An installation of its own: both nodes are shared out between two workspaces."""
    with RunningHarness(tmp_path / "data") as harness:
        harness.add_staff()
        for workspace in ("vision", "audio"):
            harness.add_quota(workspace, "8")
        yield harness


def preempted_by(shown: dict[str, Any]) -> list[str]:
    return [each["message"] for each in shown["conditions"] if each["type"] == "Preempted"]


def test_what_borrowed_gives_its_place_to_the_owner_and_comes_back(two_teams: RunningHarness) -> None:
    harness = two_teams
    own = harness.submit("outsider", workspaceId="audio", gpu="8", run=WAIT)
    harness.running(own)
    borrower = harness.submit("outsider", workspaceId="audio", gpu="8", preemptible=True, run=f"echo up; {WAIT}")
    harness.prints(borrower, "up")
    refused = harness.submit("outsider", workspaceId="audio", gpu="1", run=WAIT)
    harness.until(lambda: "quota" in harness.detail(refused)["message"], "what is not preemptible does not borrow")
    owner = harness.submit("member", gpu="8", run=WAIT)
    harness.running(owner)
    shown = harness.detail(borrower)
    assert (shown["phase"], types(shown).count("Preempted"), shown["schedulerOrder"] > 0) == ("Pending", 1, True)
    assert preempted_by(shown) == ["preempted by a workload of another workspace"]
    assert harness.detail(own)["dispatchCount"] == 1
    harness.stop(owner)
    harness.until(lambda: harness.detail(borrower)["dispatchCount"] == 2, "it runs again")
    assert harness.inside(borrower).retries == 0
    harness.running(borrower)
    harness.stop(own, borrower, refused)


def test_a_lower_priority_gives_way_in_its_own_workspace(two_teams: RunningHarness) -> None:
    harness = two_teams
    harness.running(harness.submit("outsider", workspaceId="audio", gpu="8", run=WAIT))  # nothing is left to borrow
    low = harness.submit("manager", gpu="8", preemptible=True, run=f"echo up; {WAIT}", maxRetry=0)
    harness.prints(low, "up")
    firm = harness.submit("manager", gpu="1", priority=0, run=WAIT)
    harness.until(
        lambda: harness.detail(firm)["message"] != NOT_YET_SCHEDULED.message, "the same priority does not push it out"
    )
    high = harness.submit("manager", gpu="8", priority=2, run=WAIT)
    harness.running(high)
    shown = harness.detail(low)
    assert (shown["phase"], preempted_by(shown)) == ("Pending", [f"preempted by {high}"])
    harness.stop(firm, high)
    harness.until(lambda: harness.detail(low)["dispatchCount"] == 2, "it runs again")
    assert harness.inside(low).retries == 0
    harness.stop(low)
