"""What happens when plans are carried out one after the other: it comes to rest, and everybody gets a turn."""

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs
from tests.property.scheduler.cluster_model import ClusterModel, crowded_worlds

from stoker.domain.access.identity import QueuePolicy
from stoker.scheduler import Plan, plan


def play(world: ClusterModel, keep_reservations: bool) -> Plan:
    """One round: who was leaving is gone and waits again, then the next plan is carried out."""
    for uid in [uid for uid, held in world.held.items() if held.leaving]:
        held = world.remove(uid)
        world.waiting[uid] = structs.replace(held.asked, requeued=True, reserved_nodes=())
    made = plan(world.snapshot())
    for place in made.placements:
        assert world.start(world.waiting[place.uid], place.nodes, place.guaranteed_until)
    for preempt in made.preemptions:
        world.held[preempt.uid].leaving = True
    if keep_reservations:
        for uid, nodes in made.reservations.items():
            world.waiting[uid] = structs.replace(world.waiting[uid], reserved_nodes=nodes)
    world.now += 1
    return made


def settle(world: ClusterModel, keep_reservations: bool) -> int:
    """Rounds until nothing moves."""
    rounds = 0
    while True:
        made = play(world, keep_reservations)
        if not made.placements and not made.preemptions and not any(held.leaving for held in world.held.values()):
            return rounds
        rounds += 1
        assert rounds <= 4 * (len(world.held) + len(world.waiting)) + 4, "it does not come to rest"


@given(crowded_worlds, st.booleans())
def test_a_cluster_comes_to_rest_and_nobody_is_moved_in_circles(world: ClusterModel, keep_reservations: bool) -> None:
    settle(world, keep_reservations)


@given(crowded_worlds)
def test_what_left_for_another_does_not_take_its_capacity_back(world: ClusterModel) -> None:
    first = play(world, keep_reservations=False)
    pairs = {preempt.uid: preempt.preemptor_uid for preempt in first.preemptions}
    second = play(world, keep_reservations=False)
    back = {preempt.uid: preempt.preemptor_uid for preempt in second.preemptions}
    assert not any(pairs.get(winner) == victim for victim, winner in back.items())


@given(crowded_worlds, st.booleans())
def test_every_queue_is_served_to_its_end_as_others_finish(world: ClusterModel, keep_reservations: bool) -> None:
    world.queues = {key: structs.replace(queue, policy=QueuePolicy.FIFO) for key, queue in world.queues.items()}
    empty = ClusterModel([machine.emptied() for machine in world.machines.values()], list(world.queues.values()))
    everybody = [*world.waiting.values(), *(held.asked for held in world.held.values())]
    assume(all(empty.fits(asked) and (asked.preemptible or empty.inside(asked)) for asked in everybody))
    for _ in range(len(everybody) + 1):
        settle(world, keep_reservations)
        if not world.held:
            break
        world.remove(min(world.held, key=lambda uid: (world.held[uid].placed_at, uid)))
    assert not world.held
    assert not world.waiting
