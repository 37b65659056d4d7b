"""Invariants of every plan, for any cluster."""

import random
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.property.example_counts import examples
from tests.property.scheduler.cluster_model import ClusterModel, any_worlds, crowded_worlds, over

from stoker.domain.access.identity import QueuePolicy
from stoker.domain.cluster.resources import MILLI, NO_RESOURCES
from stoker.scheduler import Plan, plan
from stoker.scheduler.explain.reasons import InsufficientCapacity, InsufficientOnNode, OverQuota, Preempting
from stoker.scheduler.model import PendingWorkload, Queue, Snapshot

T = TypeVar("T")


def line(world: ClusterModel, queue: Queue) -> list[PendingWorkload]:
    """The queue of a workspace in its order, without those that fail."""

    def key(each: PendingWorkload) -> tuple[object, ...]:
        first = each.requeued and not (each.preemptible and queue.preemption)
        return (
            not each.reserved_nodes,
            not (first or each.reserved_nodes),
            -each.priority,
            not each.requeued,
            each.submitted_at,
            each.uid,
        )

    mine = [each for each in world.waiting.values() if each.workspace_id == queue.workspace_id]
    return sorted((each for each in mine if not each.failed_dependency), key=key)


def ready(world: ClusterModel, each: PendingWorkload) -> bool:
    return not each.unfinished_dependencies and (each.not_before is None or each.not_before <= world.now)


def carry_out(world: ClusterModel, made: Plan) -> None:
    for place in made.placements:
        assert world.start(world.waiting[place.uid], place.nodes), f"{place} does not fit"


@given(any_worlds)
def test_nothing_is_placed_where_there_is_no_capacity_for_it_on_any_node_or_device(world: ClusterModel) -> None:
    carry_out(world, plan(world.snapshot()))


@given(any_worlds)
def test_a_gang_is_placed_whole_and_only_where_it_may_be(world: ClusterModel) -> None:
    for place in plan(world.snapshot()).placements:
        asked = world.waiting[place.uid]
        there = [world.machines[name] for name in place.nodes]
        assert len(place.nodes) == asked.replicas
        assert all(machine.usable or asked.tolerate_all for machine in there)
        if asked.specified_nodes:
            assert sorted(place.nodes) == sorted(asked.specified_nodes)
        else:
            assert len({machine.pool for machine in there}) == 1
            assert there[0].pool in asked.node_pools


@given(any_worlds)
def test_the_first_pool_that_takes_the_whole_gang_is_used(world: ClusterModel) -> None:
    made = plan(world.snapshot())
    if any(isinstance(wait.reason, Preempting) for wait in made.pending.values()) or any(made.reservations.values()):
        return  # capacity may be free and reserved for another workload
    for place in made.placements:
        asked = world.waiting[place.uid]
        if not asked.specified_nodes:
            pool = world.machines[place.nodes[0]].pool
            before = structs.replace(asked, node_pools=asked.node_pools[: asked.node_pools.index(pool)])
            assert not world.fits(before)
        world.start(asked, place.nodes)


@examples(400)
@given(any_worlds)
def test_only_what_is_preemptible_goes_over_the_quota(world: ClusterModel) -> None:
    for place in plan(world.snapshot()).placements:
        asked = world.waiting[place.uid]
        assert asked.preemptible or world.inside(asked)
        world.start(asked, place.nodes)


@given(any_worlds)
def test_every_waiting_workload_starts_fails_or_has_a_reason_and_a_place(world: ClusterModel) -> None:
    made = plan(world.snapshot())
    started = {place.uid for place in made.placements}
    failed = {fail.uid for fail in made.failures}
    assert failed == {each.uid for each in world.waiting.values() if each.failed_dependency}
    assert started | failed | set(made.pending) == set(world.waiting)
    assert len(started) + len(failed) + len(made.pending) == len(world.waiting)
    for queue in world.queues.values():
        remaining = [each.uid for each in line(world, queue) if each.uid not in started]
        assert [made.pending[uid].position for uid in remaining] == list(range(1, len(remaining) + 1))
    for wait in made.pending.values():
        assert wait.reason.message().endswith(".")
        assert wait.reason.code


@given(any_worlds, st.randoms(use_true_random=False))
def test_the_order_of_the_snapshot_does_not_matter(world: ClusterModel, rng: random.Random) -> None:
    def shuffled(snapshot: Snapshot) -> Snapshot:
        def mixed(row: tuple[T, ...]) -> tuple[T, ...]:
            return tuple(rng.sample(row, len(row)))

        nodes, queues = mixed(snapshot.nodes), mixed(snapshot.queues)
        return Snapshot(snapshot.now, nodes, queues, mixed(snapshot.pending), mixed(snapshot.admitted))

    assert plan(shuffled(world.snapshot())) == plan(world.snapshot())


@examples(400)
@given(any_worlds)
def test_fifo_never_passes_its_head_and_balance_never_a_higher_priority(world: ClusterModel) -> None:
    started = {place.uid: place.nodes for place in plan(world.snapshot()).placements}
    for queue in world.queues.values():
        held_up: list[PendingWorkload] = []
        for each in line(world, queue):
            if not ready(world, each):
                assert each.uid not in started
            elif started.get(each.uid) == each.reserved_nodes:
                continue  # it fits without preemption
            elif each.uid not in started:
                held_up.append(each)
            elif queue.policy is QueuePolicy.FIFO:
                assert not held_up
            else:
                assert all(one.specified_nodes or one.priority <= each.priority for one in held_up)


@examples(400)
@given(any_worlds)
def test_what_is_told_to_wait_for_capacity_or_quota_has_none(world: ClusterModel) -> None:
    made = plan(world.snapshot())
    carry_out(world, made)
    reasons = {uid: wait.reason for uid, wait in made.pending.items()}
    if any(isinstance(reason, Preempting) for reason in reasons.values()) or any(made.reservations.values()):
        return  # capacity may be free and reserved for another workload
    for uid, reason in reasons.items():
        asked = world.waiting[uid]
        if isinstance(reason, InsufficientCapacity | InsufficientOnNode):
            assert not world.fits(asked)
        if isinstance(reason, OverQuota):
            assert not world.inside(asked)
            assert not asked.preemptible


@examples(500)
@given(crowded_worlds)
def test_victims_are_preemptible_and_either_borrow_or_come_after_in_their_own_workspace(world: ClusterModel) -> None:
    for preempt in plan(world.snapshot()).preemptions:
        victim, winner = world.held[preempt.uid], world.waiting[preempt.preemptor_uid]
        assert victim.asked.preemptible
        assert not victim.leaving
        own = victim.asked.workspace_id
        if own == winner.workspace_id:
            assert world.queues[own].preemption
            assert victim.asked.priority < winner.priority
        else:
            assert any(over(world.used(own, leaving=False), world.queues[own].quota, victim.total))
        victim.leaving = True


@examples(500)
@given(crowded_worlds)
def test_a_workspace_is_not_pushed_below_its_quota_by_others(world: ClusterModel) -> None:
    """Each that leaves for another workspace was over the quota even when all that left before it had gone."""
    made = plan(world.snapshot())
    taken = dict.fromkeys(world.queues, NO_RESOURCES)
    for preempt in made.preemptions:
        victim, winner = world.held[preempt.uid], world.waiting[preempt.preemptor_uid]
        own = victim.asked.workspace_id
        if own != winner.workspace_id:
            kept = world.used(own, leaving=False) - taken[own]
            assert any(over(kept, world.queues[own].quota, victim.total))
        taken[own] += victim.total


@examples(500)
@given(crowded_worlds)
def test_preemption_frees_enough_and_nothing_needless(world: ClusterModel) -> None:
    made = plan(world.snapshot())
    promised = [uid for uid, wait in made.pending.items() if isinstance(wait.reason, Preempting)]
    parts = any(0 < world.waiting[place.uid].pod_request.gpu_milli < MILLI for place in made.placements)
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
