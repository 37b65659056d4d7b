"""A guaranteed place is nobody else's until its time has passed, and then it is like any other."""

from hypothesis import given
from msgspec import structs
from tests.property.example_counts import examples
from tests.property.scheduler.cluster_model import NOW, ClusterModel, any_worlds, crowded_worlds

from stoker.scheduler import Planner, SnapshotDelta, plan
from stoker.scheduler.model import AdmittedWorkload, Snapshot


def as_counted(snapshot: Snapshot) -> Snapshot:
    """The same without guarantees: what still has one is not preemptible."""

    def counted(placed: AdmittedWorkload) -> AdmittedWorkload:
        lasts = placed.guaranteed_until is not None and placed.guaranteed_until > snapshot.now
        return structs.replace(placed, guaranteed_until=None, preemptible=placed.preemptible and not lasts)

    return structs.replace(snapshot, admitted=tuple(map(counted, snapshot.admitted)))


@examples(400)
@given(crowded_worlds)
def test_nothing_is_preempted_before_its_guarantee_ends(world: ClusterModel) -> None:
    for preempt in plan(world.snapshot()).preemptions:
        until = world.held[preempt.uid].guaranteed_until
        assert until is None or until <= world.now


@given(any_worlds)
def test_what_is_guaranteed_counts_as_not_preemptible_and_then_as_what_it_is(world: ClusterModel) -> None:
    for now in range(NOW, NOW + 6):
        world.now = now
        assert plan(world.snapshot()) == plan(as_counted(world.snapshot()))


@examples(300)
@given(crowded_worlds)
def test_when_guarantees_end_capacity_is_made_without_any_other_event(world: ClusterModel) -> None:
    planner, now = Planner(world.snapshot()), world.now
    while (due := planner.next_event_at) is not None:
        assert due > now
        for moment in range(now, min(due, now + 6)):
            world.now = moment
            assert planner.replan(SnapshotDelta(now=world.now)) == plan(world.snapshot())
        world.now = now = due
        planner.update(SnapshotDelta(now=now))
        assert planner.plan() == plan(world.snapshot())
    free = structs.replace(
        world.snapshot(),
        admitted=tuple(structs.replace(each, guaranteed_until=None) for each in world.snapshot().admitted),
    )
    assert planner.plan() == plan(free)


@given(any_worlds)
def test_only_what_is_preemptible_gets_a_guarantee_and_one_inside_its_quota_always(world: ClusterModel) -> None:
    for place in plan(world.snapshot()).placements:
        asked = world.waiting[place.uid]
        seconds = world.queues[asked.workspace_id].guaranteed_seconds
        promised = world.now + seconds * 1000 if seconds and asked.preemptible else None
        assert place.guaranteed_until in {None, promised}
        if world.inside(asked, leaving=False):
            assert place.guaranteed_until == promised
        world.start(asked, place.nodes)
