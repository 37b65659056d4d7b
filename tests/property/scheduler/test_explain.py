"""What an explanation says is true, and what it suggests works."""

from hypothesis import given, settings
from msgspec import structs
from tests.property.scheduler.world import Machine, World, any_worlds, crowded_worlds

from stoker.domain.node import Device, Node
from stoker.scheduler import Capacity, Planner, explain, never_fits, plan
from stoker.scheduler.blockers import Blocks
from stoker.scheduler.edits import AskLess, FewerReplicas, MakePreemptible, OtherPool, RaisePriority
from stoker.scheduler.reasons import NodeTaken, NoRoom, OverQuota, Resource
from stoker.scheduler.snapshot import Snapshot, Waiting
from stoker.scheduler.trials import Trials


def edited(snapshot: Snapshot, changed: Waiting) -> Snapshot:
    waiting = tuple(changed if each.uid == changed.uid else each for each in snapshot.waiting)
    return structs.replace(snapshot, waiting=waiting)


@given(any_worlds)
def test_every_edit_that_is_suggested_starts_the_workload_at_once(world: World) -> None:
    snapshot = world.snapshot()
    for uid in plan(snapshot).waits:
        edits = explain(snapshot, uid, priorities=(0, 1, 2, 3)).edits
        assert len(edits) <= 5
        for edit in edits:
            again = plan(edited(snapshot, edit.on(world.waiting[uid])))
            assert uid in {place.uid for place in again.placements}, edit.sentence()


@settings(max_examples=300)
@given(crowded_worlds)
def test_a_trial_that_goes_on_from_the_middle_of_a_plan_ends_as_a_plan_from_scratch(world: World) -> None:
    snapshot = world.snapshot()
    planner = Planner(snapshot)
    edits = [MakePreemptible(), RaisePriority(3), FewerReplicas(1), AskLess(Resource.GPU, 500), OtherPool("spare")]
    for uid in planner.plan().waits:
        trials = Trials(planner, world.waiting[uid])
        for edit in edits:
            changed = edit.on(world.waiting[uid])
            again = plan(edited(snapshot, changed))
            assert trials.starts(changed) == (uid in {place.uid for place in again.placements}), edit


@given(any_worlds)
def test_an_explanation_says_what_the_plan_says(world: World) -> None:
    snapshot = world.snapshot()
    made = plan(snapshot)
    for place in made.placements:
        assert explain(snapshot, place.uid).reason is None
    for uid, wait in made.waits.items():
        told = explain(snapshot, uid)
        assert (told.reason, told.order, told.ahead) == (wait.reason, wait.order, wait.order - 1)


@given(crowded_worlds)
def test_it_would_start_if_those_who_hold_what_it_needs_were_gone(world: World) -> None:
    snapshot = world.snapshot()
    made = plan(snapshot)
    for place in made.placements:
        world.start(world.waiting[place.uid], place.nodes)
    leaving = [uid for uid, held in world.held.items() if held.leaving] + [each.uid for each in made.preemptions]
    for uid in leaving:
        world.remove(uid)
    if any(wait.reason.code == "preempting" for wait in made.waits.values()):
        return  # then room is kept for somebody
    for uid, wait in made.waits.items():
        if isinstance(wait.reason, NoRoom | NodeTaken | OverQuota):
            asked = world.waiting[uid]
            holders = [blocker.uid for blocker in explain(snapshot, uid).blockers if blocker.how is Blocks.HOLDS]
            gone = [world.remove(holder) for holder in holders]
            started = world.fits(asked) and (asked.preemptible or world.inside(asked))
            assert started or not holders
            for held in gone:
                world.restore(held)


@given(crowded_worlds)
def test_what_is_refused_could_not_start_in_an_empty_cluster_and_what_is_not_can(world: World) -> None:
    empty = World([machine.emptied() for machine in world.machines.values()], list(world.queues.values()))
    for asked in world.waiting.values():
        empty.waiting = {asked.uid: structs.replace(asked, preemptible=False)}
        nodes = [_node(machine) for machine in empty.machines.values()]
        refused = never_fits(asked.each, asked.replicas, (), Capacity(nodes), empty.queues[asked.workspace_id].quota)
        assert bool(plan(empty.snapshot()).placements) == (refused is None)
        assert refused is None or refused.sentence().endswith(".")


def _node(machine: Machine) -> Node:
    devices = tuple(Device(index, f"{machine.name}-{index}", "any") for index in range(machine.gpus))
    return Node(machine.name, machine.cpu, machine.memory, devices)
