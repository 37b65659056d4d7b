"""A new revision replaces pods one by one or all at once; more or fewer replicas leave the others alone."""

from collections.abc import Iterable

from tests.conformance.harness import ConformanceHarness
from tests.conformance.programs import HOUR, RUNS, Program

from stoker.domain.workload.spec import Kind
from stoker.engines.model import Disconnected, LaunchSpec, Observation

SLOW_END = Program("trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.05; done", HOUR)


def start_replicas(harness: ConformanceHarness, replicas: int) -> LaunchSpec:
    """A Deployment of which every replica is ready."""
    launch_spec = harness.start(RUNS, kind=Kind.DEPLOYMENT, replicas=replicas, grace_seconds=5.0)
    for uid in harness.uids(launch_spec):
        harness.ready(uid)
    return launch_spec


def count_ready(observations: Iterable[Observation], ready: set[str]) -> list[int]:
    """How many pods were ready after each observation; `ready` are those before the first one, and is updated."""
    counts = []
    for observation in observations:
        assert not isinstance(observation, Disconnected)
        for pod in observation.pods:
            (ready.add if pod.ready else ready.discard)(pod.uid)
        counts.append(len(ready))
    return counts


class TestRollouts:
    def test_replicas_are_replaced_one_by_one(self, harness: ConformanceHarness) -> None:
        old = start_replicas(harness, 3)
        new = harness.specs.next_revision(old, RUNS)
        harness.view.observations.clear()
        harness.apply(new)
        harness.apply(new)
        for uid in harness.uids(new):
            assert harness.ready(uid).revision == 2
        for uid in harness.uids(old):
            harness.ended(uid)
        ready = set(harness.uids(old))
        assert min(count_ready(harness.view.observations, ready)) >= 2
        assert ready == set(harness.uids(new))
        starts = [harness.view.pods[uid].started_at or 0 for uid in harness.uids(new)]
        assert starts == sorted(starts)
        assert len(set(starts)) == 3

    def test_a_rollout_goes_on_after_a_crash_when_it_is_applied_again(self, harness: ConformanceHarness) -> None:
        old = start_replicas(harness, 2)
        new = harness.apply(harness.specs.next_revision(old, RUNS))
        harness.ready(harness.uids(new)[0])
        harness.reopen()
        harness.apply(new)
        for uid in harness.uids(new):
            harness.ready(uid)
        for uid in harness.uids(old):
            harness.ended(uid)

    def test_a_stop_ends_a_rollout_too(self, harness: ConformanceHarness) -> None:
        old = start_replicas(harness, 3)
        new = harness.apply(harness.specs.next_revision(old, RUNS))
        harness.ready(harness.uids(new)[0])
        harness.terminate(new)
        for uid in (*harness.uids(old), *harness.uids(new)):
            harness.ended_or_gone(uid)
        harness.settle()
        assert not [pod for pod in harness.view.pods.values() if pod.workload_uid and not pod.phase.is_finished]

    def test_a_gang_is_stopped_as_a_whole_before_the_next_one_starts(self, harness: ConformanceHarness) -> None:
        old = harness.start(SLOW_END, replicas=2)
        for uid in harness.uids(old):
            harness.running(uid)
        new = harness.apply(harness.specs.next_revision(old, RUNS))
        for uid in harness.uids(new):
            harness.running(uid)
        ends = [harness.view.pods[uid].ended_at or 0 for uid in harness.uids(old)]
        starts = [harness.view.pods[uid].started_at or 0 for uid in harness.uids(new)]
        assert 0 < max(ends) <= min(starts)

    def test_scaling_leaves_the_other_replicas_alone(self, harness: ConformanceHarness) -> None:
        first = start_replicas(harness, 1)
        [uid] = harness.uids(first)
        started_at = harness.view.pods[uid].started_at
        more = harness.apply(harness.specs.scale(first, 3))
        for each in harness.uids(more):
            harness.ready(each)
        fewer = harness.apply(harness.specs.scale(more, 2))
        harness.ended(harness.uids(more)[2])
        assert [harness.ready(each).restarts for each in harness.uids(fewer)] == [0, 0]
        assert harness.view.pods[uid].started_at == started_at

    def test_a_replica_that_stays_belongs_to_the_new_revision(self, harness: ConformanceHarness) -> None:
        first = start_replicas(harness, 1)
        [uid] = harness.uids(first)
        more = harness.apply(harness.specs.scale(first, 2))
        harness.until(uid, lambda pod: pod.revision == 2, "the new revision")
        harness.ready(harness.uids(more)[1])
        harness.reopen()
        harness.apply(more)
        harness.until(uid, lambda pod: pod.revision == 2, "the new revision")
