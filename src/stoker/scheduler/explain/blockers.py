"""Who is in the way of a workload: what it depends on, who is ahead of it, who leaves, or who holds what it needs."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from stoker.domain.resources import NONE, Resources
from stoker.scheduler.desk import Desk
from stoker.scheduler.guarantees import guaranteed_until
from stoker.scheduler.holders import Offer, held_by, offer_of
from stoker.scheduler.line import Shape, shape_of
from stoker.scheduler.need import Need
from stoker.scheduler.preemption import needed
from stoker.scheduler.reasons import BehindHead, BehindPriority, NodeUnusable, NotYet, Preempting, Reason, WaitsFor
from stoker.scheduler.round import Round
from stoker.scheduler.snapshot import Placed, Waiting


class Blocks(StrEnum):
    """How a workload is in the way of another."""

    DEPENDENCY = "dependency"
    AHEAD = "ahead"
    LEAVING = "leaving"
    HOLDS = "holds"


class Blocker(Struct, frozen=True):
    """`held` is what it holds, or asks for when it waits itself. Until `guaranteed_until` it is not preempted, though
    it is preemptible."""

    uid: str
    how: Blocks
    held: Resources = NONE
    guaranteed_until: int | None = None


def blockers(made: Round, waiting: Waiting, reason: Reason) -> tuple[Blocker, ...]:
    """Those without whom it would start, as far as they are known."""
    match reason:
        case NotYet() | NodeUnusable():
            return ()
        case WaitsFor(uids):
            return tuple(Blocker(uid, Blocks.DEPENDENCY) for uid in uids)
        case BehindHead() | BehindPriority():
            return tuple(Blocker(each.uid, Blocks.AHEAD, each.each * each.replicas) for each in ahead(made, waiting))
        case Preempting(victims):
            placed = made.desk.holders.placed
            return tuple(Blocker(uid, Blocks.LEAVING, held_by(placed[uid])) for uid in victims)
        case _:
            found = _holders(made, waiting)
            return tuple(Blocker(each.uid, Blocks.HOLDS, held_by(each), guaranteed_until(each)) for each in found)


def ahead(made: Round, waiting: Waiting) -> Iterator[Waiting]:
    """Those before it in the queue that do not start now."""
    line = made.turns[waiting.workspace_id].line
    for each in line.waiting[: line.position(waiting.uid)]:
        if each.uid not in made.desk.started:
            yield each


def _holders(made: Round, waiting: Waiting) -> list[Placed]:
    """The fewest that would have to go for it to start, whether they may be preempted or not."""
    desk = made.desk
    shape, named = shape_of(waiting, {}), desk.named(waiting)
    offers = sorted(offer_of(placed) for placed in _placed(made) if placed.uid != waiting.uid)
    for pool in ("",) if named else shape.pools:
        found = _in_the_way(desk, waiting, shape, Need(desk, shape, pool, named, anywhere=True), offers)
        if found is not None:
            return found
    return []


def _in_the_way(desk: Desk, waiting: Waiting, shape: Shape, need: Need, offers: list[Offer]) -> list[Placed] | None:
    own, account = waiting.workspace_id, desk.accounts[waiting.workspace_id]
    chosen: list[Offer] = []
    freed, inside = NONE, waiting.preemptible or account.within_later(shape.total)
    for offer in offers:
        if inside and need.met:
            break
        _, placed, held = offer
        if need.without(placed) or (not inside and placed.workspace_id == own):
            chosen.append(offer)
            if placed.workspace_id == own:
                freed += held
                inside = inside or account.within_later(shape.total, freed)
    if not (inside and need.met):
        return None
    return needed(chosen, need, None if waiting.preemptible else account, shape, own)


def _placed(made: Round) -> Iterator[Placed]:
    """All that holds room once the plan is carried out."""
    desk = made.desk
    for placed in desk.holders.placed.values():
        if not placed.leaving and placed.uid not in desk.preempted:
            yield placed
    for turn in made.turns.values():
        for position in turn.started:
            each = turn.line.waiting[position]
            yield Placed(
                uid=each.uid,
                workspace_id=each.workspace_id,
                priority=each.priority,
                placed_at=each.submitted_at,
                nodes=desk.started[each.uid],
                each=each.each,
                preemptible=each.preemptible,
            )
