"""What an explanation says is true, and what it suggests works."""

from hypothesis import given
from msgspec import structs
from tests.property.example_counts import examples
from tests.property.scheduler.cluster_model import ClusterModel, ModelNode, any_worlds, crowded_worlds

from stoker.domain.cluster.node import Device, Node
from stoker.scheduler import ClusterCapacity, Planner, check_feasibility, explain, plan
from stoker.scheduler.explain.blockers import BlockerKind
from stoker.scheduler.explain.reasons import InsufficientCapacity, InsufficientOnNode, OverQuota, ResourceName
from stoker.scheduler.explain.suggestions import FewerReplicas, MakePreemptible, OtherPool, RaisePriority, ReduceRequest
from stoker.scheduler.explain.what_if import WhatIf
from stoker.scheduler.model import PendingWorkload, Snapshot


def edited(snapshot: Snapshot, changed: PendingWorkload) -> Snapshot:
    waiting = tuple(changed if each.uid == changed.uid else each for each in snapshot.pending)
    return structs.replace(snapshot, pending=waiting)


@given(any_worlds)
def test_every_edit_that_is_suggested_starts_the_workload_at_once(world: ClusterModel) -> None:
    snapshot = world.snapshot()
    for uid in plan(snapshot).pending:
        edits = explain(snapshot, uid, priorities=(0, 1, 2, 3)).suggestions
        assert len(edits) <= 5
        for edit in edits:
            again = plan(edited(snapshot, edit.apply_to(world.waiting[uid])))
            assert uid in {place.uid for place in again.placements}, edit.message()


@examples(300)
@given(crowded_worlds)
def test_a_trial_that_goes_on_from_the_middle_of_a_plan_ends_as_a_plan_from_scratch(world: ClusterModel) -> None:
    snapshot = world.snapshot()
    planner = Planner(snapshot)
    edits = [
        MakePreemptible(),
        RaisePriority(3),
        FewerReplicas(1),
        ReduceRequest(ResourceName.GPU, 500),
        OtherPool("spare"),
    ]
    for uid in planner.plan().pending:
        trials = WhatIf(planner, world.waiting[uid])
        for edit in edits:
            changed = edit.apply_to(world.waiting[uid])
            again = plan(edited(snapshot, changed))
            assert trials.would_start(changed) == (uid in {place.uid for place in again.placements}), edit


@given(any_worlds)
def test_an_explanation_says_what_the_plan_says(world: ClusterModel) -> None:
    snapshot = world.snapshot()
    made = plan(snapshot)
    for place in made.placements:
        assert explain(snapshot, place.uid).reason is None
    for uid, wait in made.pending.items():
        told = explain(snapshot, uid)
        assert (told.reason, told.position, told.workloads_ahead) == (wait.reason, wait.position, wait.position - 1)


@given(crowded_worlds)
def test_it_would_start_if_those_who_hold_what_it_needs_were_gone(world: ClusterModel) -> None:
    snapshot = world.snapshot()
    made = plan(snapshot)
    for place in made.placements:
        world.start(world.waiting[place.uid], place.nodes)
    leaving = [uid for uid, held in world.held.items() if held.leaving] + [each.uid for each in made.preemptions]
    for uid in leaving:
        world.remove(uid)
    if any(wait.reason.code == "preempting" for wait in made.pending.values()):
        return  # capacity is reserved for another workload
    for uid, wait in made.pending.items():
        if isinstance(wait.reason, InsufficientCapacity | InsufficientOnNode | OverQuota):
            asked = world.waiting[uid]
            holders = [
                blocker.uid for blocker in explain(snapshot, uid).blockers if blocker.kind is BlockerKind.ALLOCATED
            ]
            gone = [world.remove(holder) for holder in holders]
            started = world.fits(asked) and (asked.preemptible or world.inside(asked))
            assert started or not holders
            for held in gone:
                world.restore(held)


@given(crowded_worlds)
def test_what_is_refused_could_not_start_in_an_empty_cluster_and_what_is_not_can(world: ClusterModel) -> None:
    empty = ClusterModel([machine.emptied() for machine in world.machines.values()], list(world.queues.values()))
    for asked in world.waiting.values():
        empty.waiting = {asked.uid: structs.replace(asked, preemptible=False)}
        nodes = [_node(machine) for machine in empty.machines.values()]
        refused = check_feasibility(
            asked.pod_request, asked.replicas, (), ClusterCapacity(nodes), empty.queues[asked.workspace_id].quota
        )
        assert bool(plan(empty.snapshot()).placements) == (refused is None)
        assert refused is None or refused.message().endswith(".")


def _node(machine: ModelNode) -> Node:
    devices = tuple(Device(index, f"{machine.name}-{index}", "any") for index in range(machine.gpus))
    return Node(machine.name, machine.cpu, machine.memory, devices)
