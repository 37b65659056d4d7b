"""Why one workload waits, who is in its way, and what would start it now.

Every edit that is suggested was tried: the cluster was planned again with it, and the workload started.
"""

from collections.abc import Collection

from msgspec import Struct

from stoker.domain.resources import NONE, Resources
from stoker.scheduler.blockers import Blocker, ahead, blockers
from stoker.scheduler.desk import Desk
from stoker.scheduler.edits import Edit, RaisePriority, cuts, has_room, kept_whole
from stoker.scheduler.planner import Planner
from stoker.scheduler.reasons import BehindHead, BehindPriority, NotYet, Reason, WaitsFor
from stoker.scheduler.snapshot import Snapshot, Waiting
from stoker.scheduler.trials import Trials
from stoker.scheduler.waits import Waits


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
    """Why a workload waits; KeyError when it does not. `priorities` are those that it may be given."""
    return explain_in(Planner(snapshot), uid, priorities)


def explain_in(planner: Planner, uid: str, priorities: Collection[int] = ()) -> Explanation:
    """The same, for a cluster that is planned again and again."""
    waiting = planner.waiting(uid)
    trials = Trials(planner, waiting)
    made = trials.made
    if uid in made.desk.started:
        return Explanation(uid, None, 0, 0, NONE, (), ())
    wait = Waits(made, planner.now)[uid]
    before = list(ahead(made, waiting))
    return Explanation(
        uid,
        wait.reason,
        wait.order,
        len(before),
        sum((each.each * each.replicas for each in before), NONE),
        blockers(made, waiting, wait.reason),
        tuple(trials.that_start(_worth_trying(planner, made.desk, waiting, wait.reason, priorities))),
    )


def _worth_trying(
    planner: Planner, desk: Desk, waiting: Waiting, reason: Reason, priorities: Collection[int]
) -> Collection[Edit]:
    """Edits that could help. There is never more room than before the plan, and never less than after it."""
    if isinstance(reason, NotYet | WaitsFor):
        return ()
    line = planner.lines[waiting.workspace_id]
    higher = [RaisePriority(priority) for priority in priorities if priority > waiting.priority]
    if not has_room(waiting, planner.nodes):
        higher = []
    match reason:
        case BehindHead(head):
            return [edit for edit in higher if line.key_of(edit.on(waiting)) < line.by_uid[head]]
        case BehindPriority(_, priority):
            return [edit for edit in higher if edit.priority >= priority]
    pools = sorted({pool for pool, _ in planner.nodes.sections})
    whole = [edit for edit in kept_whole(waiting, pools) if has_room(edit.on(waiting), planner.nodes)]
    before, after = planner.holders.account(waiting.workspace_id), desk.accounts[waiting.workspace_id]
    return {*whole, *higher, *cuts(waiting, planner.nodes, before), *cuts(waiting, desk.now, after)}
