"""Who has to leave so that a workload inside its quota can start.

Only preemptible workloads leave: those of other workspaces that are over their quota, and, where the workload's own
workspace allows it, those of lower priority in it. Lowest priority goes first, then the newest, then the smallest;
then each is put back whose leaving is not needed. What is leaving already is counted on before anybody is asked.

None of this can go in circles: what leaves for another workspace was over its quota, so it comes back only where
room is idle, after all that is inside its quota; what leaves in its own workspace has a lower priority.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge

from stoker.domain.resources import NONE, Resources
from stoker.scheduler.accounts import Account, borrows
from stoker.scheduler.desk import Desk, When
from stoker.scheduler.holders import Offer, Row
from stoker.scheduler.line import Shape
from stoker.scheduler.need import Need
from stoker.scheduler.search import search
from stoker.scheduler.snapshot import Placed, Waiting

VICTIMS = "victims"
PODS_PER_NODE = 4
"""Roughly; it only decides which way is the shorter one."""


def make_room(desk: Desk, waiting: Waiting, shape: Shape) -> bool:
    """Promise a workload the room of those who leave, and have others leave if that is not enough."""
    account = desk.accounts[waiting.workspace_id]
    if account.within_later(shape.total) and (desk.later is not desk.now or account.kept != account.used):
        nodes = search(desk, When.LATER, waiting, shape)
        if nodes is not None:
            desk.promise(waiting, nodes)
            return True
    where = (waiting.workspace_id, shape.priority, shape.pools, shape.tolerate_all)
    named = bool(shape.specified_nodes)
    if not named and desk.refusals.cover(VICTIMS, where, shape.ask):
        return False
    victims = find_victims(desk, waiting, shape)
    if victims is None:
        if not named:
            desk.refusals.add(VICTIMS, where, shape.ask)
        return False
    for victim in victims:
        desk.preempt(victim, waiting.uid)
    desk.promise(waiting, search(desk, When.LATER, waiting, shape) or ())
    return True


def find_victims(desk: Desk, waiting: Waiting, shape: Shape) -> list[Placed] | None:
    """Who leaves, in the first of the workload's pools where that helps; None when it helps nowhere."""
    own, held = desk.own_yielding(waiting.workspace_id, shape.priority)
    others = desk.borrowers(waiting.workspace_id)
    if not (own or others) or not desk.accounts[waiting.workspace_id].within_later(shape.total, held):
        return None
    if search(desk, When.HOPED, waiting, shape) is None:
        return None
    named = desk.named(waiting)
    for pool in ("",) if named else shape.pools:
        need = Need(desk, shape, pool, named)
        victims = choose(desk, waiting, shape, need, merge(own, *_on_useful_nodes(desk, need, others)))
        if victims is not None:
            return victims
    return None


def _on_useful_nodes(desk: Desk, need: Need, others: Mapping[int, Row]) -> Iterable[Row]:
    """The workloads of these rows, without those on other nodes where only few nodes are of use."""
    names = need.useful_nodes(sum(map(len, others.values())) // PODS_PER_NODE)
    if names is None:
        return others.values()
    found = {
        offer
        for name in names
        for offer in desk.hope.on(name)
        if offer[1].workspace_id in others and not offer[1].leaving and offer[1].uid not in desk.preempted
    }
    return [sorted(found)]


def choose(desk: Desk, waiting: Waiting, shape: Shape, need: Need, offers: Iterable[Offer]) -> list[Placed] | None:
    """As few victims as will do, in order; None when all of them together are not enough."""
    own, account = waiting.workspace_id, desk.accounts[waiting.workspace_id]
    excess: dict[int, Resources] = {}
    chosen: list[Offer] = []
    freed, inside = NONE, account.within_later(shape.total)
    for offer in offers:
        if inside and need.met:
            break
        _, placed, held = offer
        other = placed.workspace_id
        if other == own:
            if placed.uid != waiting.uid and (need.without(placed) or not inside):
                chosen.append(offer)
                freed += held
                inside = inside or account.within_later(shape.total, freed)
            continue
        over = excess.get(other)
        if over is None:
            over = excess[other] = desk.accounts[other].excess()
        if borrows(held, over) and need.without(placed):
            chosen.append(offer)
            excess[other] = over - held
    return needed(chosen, need, account, shape, own) if inside and need.met else None


def needed(chosen: Sequence[Offer], need: Need, account: Account | None, shape: Shape, own: int) -> list[Placed]:
    """Put back each whose leaving is not needed, last to go first. Without an account no quota counts."""
    freed = sum((held for _, placed, held in chosen if placed.workspace_id == own), NONE)
    kept: list[Placed] = []
    for _, placed, held in reversed(chosen):
        need.put_back(placed)
        spared = freed - held if placed.workspace_id == own else freed
        if need.met and (account is None or account.within_later(shape.total, spared)):
            freed = spared
        else:
            need.without(placed)
            kept.append(placed)
    return kept[::-1]
