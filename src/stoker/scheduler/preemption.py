"""Who has to leave so that a workload inside its quota can start.

Only preemptible workloads leave: those of other workspaces that are over their quota, and, where the workload's own
workspace allows it, those of lower priority in it. Lowest priority goes first, then the newest, then the smallest;
then each is put back whose leaving is not needed. What is leaving already is counted on before anybody is asked.

None of this can go in circles: what leaves for another workspace was over its quota, so it comes back only where
room is idle, after all that is inside its quota; what leaves in its own workspace has a lower priority.
"""

from collections.abc import Sequence
from heapq import merge

from stoker.domain.resources import NONE
from stoker.scheduler.desk import Desk
from stoker.scheduler.holders import Candidates, Rank, held_by
from stoker.scheduler.line import Shape
from stoker.scheduler.need import Need
from stoker.scheduler.snapshot import Placed, Waiting


def make_room(desk: Desk, waiting: Waiting, shape: Shape) -> bool:
    """Promise a workload the room of those who leave, and have others leave if that is not enough."""
    account, named = desk.accounts[waiting.workspace_id], desk.named(waiting)
    where = (waiting.workspace_id, shape.priority, shape.pools, shape.tolerate_all)
    if not named and desk.no_victims.cover(where, shape.ask):
        return False
    inside = account.within_later(shape.total)
    rows, own = candidates(desk, waiting, shape)
    if not inside and not account.within_later(shape.total, own):
        return False
    if not rows and not (inside and (desk.later or account.leaving != NONE)):
        return False
    needs = [Need(desk, shape, pool, named) for pool in (("",) if named else shape.pools)]
    for need in needs:
        if inside and need.met:
            desk.promise(waiting, need.nodes(), own_leaving(desk, waiting))
            return True
    for need in needs:
        victims = choose(desk, waiting, shape, need, rows)
        if victims is not None:
            for victim in victims:
                desk.preempt(victim, waiting.uid)
            desk.promise(waiting, Need(desk, shape, need.pool, named).nodes(), victims)
            return True
    if not named:
        desk.no_victims.add(where, shape.ask)
    return False


def candidates(desk: Desk, waiting: Waiting, shape: Shape) -> Candidates:
    """All that could be asked to leave for a workload, first to go first, and what its own workspace holds of it."""
    key = (waiting.workspace_id, shape.priority)
    found = desk.candidates.get(key)
    if found is None:
        yielding, own = desk.holders.yielding, []
        if desk.holders.queue(key[0]).preemption:
            own = [pair for pair in yielding.get(key[0], ()) if pair[0][0] < shape.priority]
        over = [row for other, row in yielding.items() if other != key[0] and desk.accounts[other].over]
        held = sum((held_by(placed) for _, placed in own), NONE)
        found = desk.candidates[key] = (list(merge(own, *over)), held)
    return found


def choose(
    desk: Desk, waiting: Waiting, shape: Shape, need: Need, rows: Sequence[tuple[Rank, Placed]]
) -> list[Placed] | None:
    """As few victims as will do, in order; None when all of them together are not enough."""
    own, account = waiting.workspace_id, desk.accounts[waiting.workspace_id]
    freed = {own: NONE}
    chosen: list[Placed] = []
    inside = account.within_later(shape.total)
    for _, placed in rows:
        if inside and need.met:
            break
        workspace_id = placed.workspace_id
        if placed.uid in desk.preempted or placed.uid == waiting.uid:
            continue
        held = held_by(placed)
        if workspace_id != own and not desk.accounts[workspace_id].borrows(held, freed.get(workspace_id, NONE)):
            continue
        if need.without(placed) or (workspace_id == own and not inside):
            chosen.append(placed)
            freed[workspace_id] = freed.get(workspace_id, NONE) + held
            inside = inside or account.within_later(shape.total, freed[own])
    if not (inside and need.met):
        return None
    needed: list[Placed] = []
    for placed in reversed(chosen):
        need.put_back(placed)
        spared = freed[own] - held_by(placed) if placed.workspace_id == own else freed[own]
        if need.met and account.within_later(shape.total, spared):
            freed[own] = spared
        else:
            need.without(placed)
            needed.append(placed)
    return needed[::-1]


def own_leaving(desk: Desk, waiting: Waiting) -> list[Placed]:
    """What leaves in a workload's own workspace, where it has to wait for the quota and not for room."""
    if desk.accounts[waiting.workspace_id].within(waiting.each * waiting.replicas):
        return []
    leaving = [placed for placed in desk.holders.leaving.values() if placed.workspace_id == waiting.workspace_id]
    return leaving + [
        desk.holders.placed[uid]
        for uid in desk.preempted
        if desk.holders.placed[uid].workspace_id == waiting.workspace_id
    ]
