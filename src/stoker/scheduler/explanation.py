"""Why one workload waits, who is in its way, and what would start it now.

Every edit that is suggested was tried: the cluster was planned again with it, and the workload started.
"""

from collections.abc import Collection, Iterator

from msgspec import Struct

from stoker.domain.resources import NONE, Resources
from stoker.scheduler.blockers import Blocker, ahead, blockers
from stoker.scheduler.desk import Desk
from stoker.scheduler.edits import Edit, RaisePriority, cuts, has_room, kept_whole, size
from stoker.scheduler.planner import Planner
from stoker.scheduler.reasons import BehindHead, BehindPriority, NotYet, Reason, WaitsFor
from stoker.scheduler.snapshot import Snapshot, Waiting
from stoker.scheduler.waits import Waits

EDITS = 5
"""As many are suggested at most."""
TRIALS = 6
"""As many are tried."""


class Explanation(Struct, frozen=True):
    """`reason` is None, and `order` 0, when the workload starts now. `ahead` counts those before it in the queue of
    its workspace; `asked_ahead` is what they ask for together."""

    uid: str
    reason: Reason | None
    order: int
    ahead: int
    asked_ahead: Resources
    blockers: tuple[Blocker, ...]
    edits: tuple[Edit, ...]


def explain(snapshot: Snapshot, uid: str, priorities: Collection[int] = ()) -> Explanation:
    """Why a workload waits; KeyError when it does not. `priorities` are those that a workload may have."""
    return explain_in(Planner(snapshot), uid, priorities)


def explain_in(planner: Planner, uid: str, priorities: Collection[int] = ()) -> Explanation:
    """The same, for a cluster that is planned again and again."""
    waiting = planner.waiting(uid)
    desk, turns = planner.decided(planner.lines)
    if uid in desk.started:
        return Explanation(uid, None, 0, 0, NONE, (), ())
    wait = Waits(desk, turns, planner.now)[uid]
    before = list(ahead(desk, turns[waiting.workspace_id].line, waiting))
    return Explanation(
        uid,
        wait.reason,
        wait.order,
        len(before),
        sum((each.each * each.replicas for each in before), NONE),
        blockers(desk, turns, waiting, wait.reason),
        tuple(_that_start(planner, waiting, _worth_trying(planner, desk, waiting, wait.reason, priorities))),
    )


def _that_start(planner: Planner, waiting: Waiting, edits: Collection[Edit]) -> Iterator[Edit]:
    """Those edits with which a new plan starts the workload at once; of each kind the smallest."""
    found: set[object] = set()
    tried = 0
    for edit in sorted(edits, key=lambda edit: size(edit, waiting)):
        kind = (type(edit), getattr(edit, "resource", None))
        if kind not in found and len(found) < EDITS and tried < TRIALS:
            tried += 1
            desk, _ = planner.decided(planner.with_edit(edit.on(waiting)), until=waiting.uid)
            if waiting.uid in desk.started:
                found.add(kind)
                yield edit


def _worth_trying(
    planner: Planner, desk: Desk, waiting: Waiting, reason: Reason, priorities: Collection[int]
) -> Collection[Edit]:
    """Edits that could help. There is never more room than before the plan, and never less than after it."""
    if isinstance(reason, NotYet | WaitsFor):
        return ()
    before, after = planner.holders.account(waiting.workspace_id), desk.accounts[waiting.workspace_id]
    line = planner.lines[waiting.workspace_id]
    known = {-key[1] for key in line.keys}.union(priorities)
    higher: set[Edit] = {RaisePriority(priority) for priority in known if priority > waiting.priority}
    if isinstance(reason, BehindHead | BehindPriority):
        return higher if has_room(waiting, planner.nodes) else ()
    pools = sorted({pool for pool, _ in planner.nodes.sections})
    whole = [edit for edit in kept_whole(waiting, pools) if has_room(edit.on(waiting), planner.nodes)]
    if has_room(waiting, planner.nodes):
        whole += higher
    return {*whole, *cuts(waiting, planner.nodes, before), *cuts(waiting, desk.now, after)}
