"""Which pod carries a rank while another takes its place."""

from typing import Any

import pytest

from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.placement import current_pods, current_pods_by_rank
from stoker.domain.workload.pod import Pod

RUNS = {"phase": PodPhase.RUNNING, "ready": True}
COMES_UP = {"phase": PodPhase.RUNNING}
WAITS = {"phase": PodPhase.PENDING}
ENDED = {"phase": PodPhase.FAILED}
LOST = {"phase": PodPhase.LOST}


def pod(uid: str, rank: int = 0, revision: int = 1, created_at: int = 1, **fields: Any) -> Pod:
    return Pod(
        uid=uid,
        workload_uid="w",
        name=f"web-{rank}",
        attempt=1,
        revision=revision,
        rank=rank,
        node="n",
        resources=Resources(),
        created_at=created_at,
        **fields,
    )


@pytest.mark.parametrize(
    ("old", "new", "carrier"),
    [
        (RUNS, WAITS, "old"),
        (RUNS, COMES_UP, "old"),
        (RUNS, RUNS, "new"),
        (COMES_UP, WAITS, "old"),
        (ENDED, WAITS, "new"),
        (ENDED, RUNS, "new"),
        (ENDED, ENDED, "new"),
        (LOST, WAITS, "new"),
    ],
    ids=str,
)
def test_the_old_pod_carries_its_rank_until_the_new_one_is_ready(
    old: dict[str, Any], new: dict[str, Any], carrier: str
) -> None:
    pair = [pod("old", **old), pod("new", revision=2, created_at=2, **new)]
    assert [each.uid for each in current_pods_by_rank(pair)] == [carrier]
    assert [each.uid for each in current_pods_by_rank(reversed(pair))] == [carrier]


def test_a_pod_that_a_later_revision_took_over_goes_before_what_was_given_up() -> None:
    taken_over, given_up = pod("old", revision=3, **ENDED), pod("new", revision=2, created_at=2, **LOST)
    assert [each.uid for each in current_pods_by_rank([taken_over, given_up])] == ["old"]


def test_what_went_because_fewer_were_asked_for_carries_nothing() -> None:
    pods = [pod("a", 0, **RUNS), pod("b", 1, **ENDED), pod("c", 2, **RUNS)]
    assert [each.uid for each in current_pods(pods, 1)] == ["a", "c"]
