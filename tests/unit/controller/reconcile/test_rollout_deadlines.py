"""Until when a revision has to be ready."""

from typing import Any

from msgspec import structs

from stoker.controller.reconcile.rollout import RolloutPolicy, progress_deadline
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import DEADLINE_EXCEEDED, Phase
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, ReadinessSpec, Spec

POLICY = RolloutPolicy(deadline_seconds=600)


def rolling(**fields: Any) -> Workload:
    workload = Workload(
        uid="w",
        slug="web-bcdfg",
        name="web",
        kind=Kind.DEPLOYMENT,
        cluster_id="c",
        workspace_id=1,
        namespace="n",
        user_id="1",
        user_name="li.wei",
        origin_api="management",
        spec=Spec(replicas=2),
        phase=Phase.UPDATING,
        revision=2,
        good_revision=1,
        attempt=1,
        submitted_at=0,
        phase_at=1_000,
    )
    return structs.replace(workload, **fields)


def pod(rank: int, **fields: Any) -> Pod:
    made = Pod(
        uid=f"p{rank}",
        workload_uid="w",
        name=f"web-bcdfg-{rank}",
        attempt=1,
        revision=2,
        rank=rank,
        node="n",
        resources=Resources(),
        created_at=2_000,
    )
    return structs.replace(made, **fields)


PODS = (pod(0), pod(1))


def test_the_time_counts_from_when_the_last_replica_was_made_or_began() -> None:
    assert progress_deadline(rolling(), PODS, POLICY) == 602_000
    assert progress_deadline(rolling(), (pod(0, started_at=90_000), pod(1)), POLICY) == 690_000
    assert progress_deadline(rolling(phase_at=5_000), PODS, POLICY) == 605_000


def test_a_workload_may_have_a_time_of_its_own() -> None:
    spec = Spec(replicas=2, readiness=ReadinessSpec("/health", 30))
    assert progress_deadline(rolling(spec=spec), PODS, POLICY) == 32_000
    assert (
        progress_deadline(rolling(spec=Spec(replicas=2, readiness=ReadinessSpec("/health"))), PODS, POLICY) == 602_000
    )


def test_there_is_no_deadline_for_what_waits_for_a_place_is_good_or_was_told_already() -> None:
    assert progress_deadline(rolling(), PODS[:1], POLICY) is None
    assert progress_deadline(rolling(good_revision=2), PODS, POLICY) is None
    assert progress_deadline(rolling(notes={DEADLINE_EXCEEDED: "late"}), PODS, POLICY) is None
    assert progress_deadline(rolling(kind=Kind.JOB), PODS, POLICY) is None
    for phase in (Phase.RUNNING, Phase.PENDING, Phase.STOPPING, Phase.STOPPED, Phase.UNKNOWN):
        assert progress_deadline(rolling(phase=phase), PODS, POLICY) is None
