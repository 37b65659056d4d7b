"""What every plan promises, whatever the cluster looks like."""

import random
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.property.scheduler.world import World, any_worlds, crowded_worlds, over

from stoker.domain.identity import QueuePolicy
from stoker.domain.resources import MILLI, NONE
from stoker.scheduler import Plan, plan
from stoker.scheduler.reasons import NodeTaken, NoRoom, OverQuota, Preempting
from stoker.scheduler.snapshot import Queue, Snapshot, Waiting

T = TypeVar("T")


def line(world: World, queue: Queue) -> list[Waiting]:
    """The queue of a workspace in its order, without those that fail."""

    def key(each: Waiting) -> tuple[object, ...]:
        first = each.requeued and not (each.preemptible and queue.preemption)
        return (
            not each.promised,
            not (first or each.promised),
            -each.priority,
            not each.requeued,
            each.submitted_at,
            each.uid,
        )

    mine = [each for each in world.waiting.values() if each.workspace_id == queue.workspace_id]
    return sorted((each for each in mine if not each.failed_dependency), key=key)


def ready(world: World, each: Waiting) -> bool:
    return not each.waits_for and (each.not_before is None or each.not_before <= world.now)


def carry_out(world: World, made: Plan) -> None:
    for place in made.placements:
        assert world.start(world.waiting[place.uid], place.nodes), f"{place} has no room"


@given(any_worlds)
def test_nothing_is_placed_where_there_is_no_room_for_it_on_any_node_or_device(world: World) -> None:
    carry_out(world, plan(world.snapshot()))


@given(any_worlds)
def test_a_gang_is_placed_whole_and_only_where_it_may_be(world: World) -> None:
    for place in plan(world.snapshot()).placements:
        asked = world.waiting[place.uid]
        there = [world.machines[name] for name in place.nodes]
        assert len(place.nodes) == asked.replicas
        assert all(machine.usable or asked.tolerate_all for machine in there)
        if asked.specified_nodes:
            assert sorted(place.nodes) == sorted(asked.specified_nodes)
        else:
            assert len({machine.pool for machine in there}) == 1
            assert there[0].pool in asked.pools


@given(any_worlds)
def test_the_first_pool_that_takes_the_whole_gang_is_used(world: World) -> None:
    made = plan(world.snapshot())
    if any(isinstance(wait.reason, Preempting) for wait in made.waits.values()):
        return  # room may then be there, and kept for somebody
    for place in made.placements:
        asked = world.waiting[place.uid]
        if not asked.specified_nodes:
            pool = world.machines[place.nodes[0]].pool
            before = structs.replace(asked, pools=asked.pools[: asked.pools.index(pool)])
            assert not world.fits(before)
        world.start(asked, place.nodes)


@settings(max_examples=400)
@given(any_worlds)
def test_only_what_is_preemptible_goes_over_the_quota(world: World) -> None:
    for place in plan(world.snapshot()).placements:
        asked = world.waiting[place.uid]
        assert asked.preemptible or world.inside(asked)
        world.start(asked, place.nodes)


@given(any_worlds)
def test_every_waiting_workload_starts_fails_or_has_a_reason_and_a_place(world: World) -> None:
    made = plan(world.snapshot())
    started = {place.uid for place in made.placements}
    failed = {fail.uid for fail in made.failures}
    assert failed == {each.uid for each in world.waiting.values() if each.failed_dependency}
    assert started | failed | set(made.waits) == set(world.waiting)
    assert len(started) + len(failed) + len(made.waits) == len(world.waiting)
    for queue in world.queues.values():
        remaining = [each.uid for each in line(world, queue) if each.uid not in started]
        assert [made.waits[uid].order for uid in remaining] == list(range(1, len(remaining) + 1))
    for wait in made.waits.values():
        assert wait.reason.sentence().endswith(".")
        assert wait.reason.code


@given(any_worlds, st.randoms(use_true_random=False))
def test_the_order_of_the_snapshot_does_not_matter(world: World, rng: random.Random) -> None:
    def shuffled(snapshot: Snapshot) -> Snapshot:
        def mixed(row: tuple[T, ...]) -> tuple[T, ...]:
            return tuple(rng.sample(row, len(row)))

        nodes, queues = mixed(snapshot.nodes), mixed(snapshot.queues)
        return Snapshot(snapshot.now, nodes, queues, mixed(snapshot.waiting), mixed(snapshot.placed))

    assert plan(shuffled(world.snapshot())) == plan(world.snapshot())


@settings(max_examples=400)
@given(any_worlds)
def test_fifo_never_passes_its_head_and_balance_never_a_higher_priority(world: World) -> None:
    started = {place.uid for place in plan(world.snapshot()).placements}
    for queue in world.queues.values():
        held_up: list[Waiting] = []
        for each in line(world, queue):
            if not ready(world, each):
                assert each.uid not in started
            elif each.uid not in started:
                held_up.append(each)
            elif queue.policy is QueuePolicy.FIFO:
                assert not held_up
            else:
                assert all(one.specified_nodes or one.priority <= each.priority for one in held_up)


@settings(max_examples=400)
@given(any_worlds)
def test_what_is_told_to_wait_for_room_or_quota_has_none(world: World) -> None:
    made = plan(world.snapshot())
    carry_out(world, made)
    reasons = {uid: wait.reason for uid, wait in made.waits.items()}
    if any(isinstance(reason, Preempting) for reason in reasons.values()):
        return  # room may then be there, and kept for somebody
    for uid, reason in reasons.items():
        asked = world.waiting[uid]
        if isinstance(reason, NoRoom | NodeTaken):
            assert not world.fits(asked)
        if isinstance(reason, OverQuota):
            assert not world.inside(asked)
            assert not asked.preemptible


@settings(max_examples=500)
@given(crowded_worlds)
def test_victims_are_preemptible_and_either_borrow_or_come_after_in_their_own_workspace(world: World) -> None:
    for preempt in plan(world.snapshot()).preemptions:
        victim, winner = world.held[preempt.uid], world.waiting[preempt.for_uid]
        assert victim.asked.preemptible
        assert not victim.leaving
        own = victim.asked.workspace_id
        if own == winner.workspace_id:
            assert world.queues[own].preemption
            assert victim.asked.priority < winner.priority
        else:
            assert any(over(world.used(own, leaving=False), world.queues[own].quota, victim.total))
        victim.leaving = True


@settings(max_examples=500)
@given(crowded_worlds)
def test_a_workspace_is_not_pushed_below_its_quota_by_others(world: World) -> None:
    """Each that leaves for another workspace was over the quota even when all that left before it had gone."""
    made = plan(world.snapshot())
    taken = dict.fromkeys(world.queues, NONE)
    for preempt in made.preemptions:
        victim, winner = world.held[preempt.uid], world.waiting[preempt.for_uid]
        own = victim.asked.workspace_id
        if own != winner.workspace_id:
            kept = world.used(own, leaving=False) - taken[own]
            assert any(over(kept, world.queues[own].quota, victim.total))
        taken[own] += victim.total


@settings(max_examples=500)
@given(crowded_worlds)
def test_preemption_frees_enough_and_nothing_needless(world: World) -> None:
    made = plan(world.snapshot())
    promised = [uid for uid, wait in made.waits.items() if isinstance(wait.reason, Preempting)]
    parts = any(0 < world.waiting[place.uid].each.gpu_milli < MILLI for place in made.placements)
    carry_out(world, made)
    if len(promised) != 1 or parts:
        return  # which device a part of a GPU goes to is not for the plan to say
    winner = world.waiting[promised[0]]
    for uid in [uid for uid, held in world.held.items() if held.leaving]:
        world.remove(uid)
    gone = [world.remove(preempt.uid) for preempt in made.preemptions]
    assert world.fits(winner)
    assert world.inside(winner)
    for victim in gone:
        world.restore(victim)
        assert not (world.fits(winner) and world.inside(winner))
        world.remove(victim.asked.uid)
