"""Workloads: submit, look, change, stop, resume, delete, clone.

Only the intent is written here; a controller makes it true.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, structs

from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.events import DeleteAsked, Event, Replaced, ResumeAsked, StopAsked
from stoker.domain.identity import Quota
from stoker.domain.lifecycle import Change, created, edited, transition
from stoker.domain.listing import Listing, Window, WorkloadQuery
from stoker.domain.permissions import Action, Actor, Target
from stoker.domain.workload import Condition, ConditionType, Phase, Pod, Spec, Workload
from stoker.scheduler import on_borrowed_room
from stoker.scheduler.view import snapshot
from stoker.services.acceptance import LESS_URGENT, Acceptance, engine_of
from stoker.services.capacities import Capacities
from stoker.services.context import Context, authorise, record
from stoker.services.once import Once, only_once
from stoker.services.submission import (
    URGENT,
    NewWorkload,
    WorkloadEdit,
    changed_spec,
    check_script,
    check_spec,
    check_start,
    check_trust,
)
from stoker.services.visible import remembered, visible
from stoker.store import clusters, pods, workload_list, workloads, workspaces
from stoker.store.base import Transaction
from stoker.store.under_way import read_cluster
from stoker.store.workload_list import Entry

EDITED = {
    "priority": "priority",
    "preemptible": "whether it may be preempted",
    "timeout_seconds": "timeout",
    "max_retry": "number of retries",
}


class Detail(Struct, frozen=True):
    """A workload with everything that is kept about it."""

    entry: Entry
    conditions: list[Condition]
    pods: list[Pod]
    place: int


class Life(Struct, frozen=True):
    """What happened to a workload, and the phases that it went through, both oldest first."""

    workload: Workload
    conditions: list[Condition]
    phases: list[workloads.Passed]


class Row(Struct, frozen=True):
    """A workload in a list, with its place in the queue (0 when it does not wait)."""

    entry: Entry
    place: int


class Verdict(Struct, frozen=True):
    """What would become of a workload if it were submitted now."""

    accepted: bool
    message: str
    place: int


class Workloads:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._capacities = Capacities()
        self._acceptance = Acceptance(context, self._capacities)

    async def create(self, actor: Actor, new: NewWorkload, once: Once | None = None) -> Workload:
        """Accept a workload; it is queued when this returns."""

        def change(transaction: Transaction) -> Workload:
            workload = self._acceptance.of(transaction, actor, new)
            workloads.add(transaction, created(workload))
            record(self._context, transaction, actor, Action.WORKLOAD_CREATE, workload.slug)
            return workload

        store = self._context.store
        store.check_room()
        write = store.poke if self._capacities.quick else store.write
        made = await write(only_once(self._context, actor, once, Workload, change))
        self._context.signal.notify()
        return made

    async def rehearse(self, actor: Actor, new: NewWorkload) -> Verdict:
        """Everything a create checks, and nothing of what it writes."""

        def query(transaction: Transaction) -> Verdict:
            try:
                workload = self._acceptance.of(transaction, actor, new)
            except StokerError as error:
                if error.code is not ErrorCode.NEVER_FITS:
                    raise
                return Verdict(False, error.message, 0)
            ahead = workload_list.ahead_of(transaction, workload.workspace_id, workload.priority)
            return Verdict(True, "It would be accepted.", ahead + 1)

        return await self._context.store.read(query)

    async def browse(self, actor: Actor, query: WorkloadQuery, window: Window) -> Listing[Row]:
        """Admins see all, others what is in their workspaces."""
        authorise(actor, Action.WORKLOAD_LIST)
        seen = structs.replace(query, workspace_ids=None if actor.admin else tuple(sorted(actor.memberships)))

        def read(transaction: Transaction) -> Listing[Row]:
            if query.cluster and clusters.find(transaction, query.cluster) is None:
                raise not_found("cluster", query.cluster)
            found = workload_list.browse(transaction, seen, window, self._context.clock.now())
            waiting = {entry.workload.workspace_id for entry in found.items if entry.workload.phase.queued}
            places = workload_list.queue_places(transaction, waiting)
            return Listing([Row(entry, places.get(entry.workload.uid, 0)) for entry in found.items], found.total)

        return await self._context.store.read(read)

    async def read(self, actor: Actor, ref: str) -> Detail:
        def query(transaction: Transaction) -> Detail:
            entry = visible(transaction, actor, ref)
            workload = entry.workload
            places = workload_list.queue_places(transaction, {workload.workspace_id}) if workload.phase.queued else {}
            return Detail(
                entry,
                workloads.conditions(transaction, workload.uid),
                pods.of_workload(transaction, workload.uid),
                places.get(workload.uid, 0),
            )

        return await self._context.store.read(query)

    async def life(self, actor: Actor, ref: str) -> Life:
        """What happened to a workload, to one that is deleted too."""

        def query(transaction: Transaction) -> Life:
            workload = remembered(transaction, actor, ref).workload
            conditions = workloads.conditions(transaction, workload.uid)
            return Life(workload, conditions, _with_ends(workload, workloads.phases(transaction, workload.uid)))

        return await self._context.store.read(query)

    async def stop(self, actor: Actor, ref: str) -> None:
        """Ask for a stop. A workload that has ended stays as it is."""
        await self._ask(actor, Action.WORKLOAD_STOP, ref, lambda at: StopAsked(at, actor.name))

    async def suspend(self, actor: Actor, ref: str) -> None:
        """Stop it, to be resumed later; unlike a stop this is refused for what has ended by itself."""
        await self._ask(actor, Action.WORKLOAD_STOP, ref, lambda at: StopAsked(at, actor.name), _check_suspendable)

    async def delete(self, actor: Actor, ref: str) -> None:
        """Stop it and hide it; its rows stay for the reports."""
        await self._ask(actor, Action.WORKLOAD_DELETE, ref, lambda at: DeleteAsked(at, actor.name))

    async def resume(self, actor: Actor, ref: str) -> None:
        """Queue a stopped workload again; nothing else can be resumed."""
        self._context.store.check_room()
        if not await self._ask(actor, Action.WORKLOAD_RESUME, ref, lambda at: ResumeAsked(at, actor.name)):
            raise StokerError(
                ErrorCode.STATE_FORBIDS,
                f'"{ref}" is not stopped, and only a stopped workload is resumed.',
                hint="To run one again that has ended by itself, clone it.",
            )

    async def edit(self, actor: Actor, ref: str, edit: WorkloadEdit) -> None:
        """Change it in place where that is possible, else by replacing its pods."""

        def change(transaction: Transaction) -> None:
            workload = visible(transaction, actor, ref).workload
            self._authorise(actor, Action.WORKLOAD_UPDATE, workload)
            if workload.phase.ended or workload.phase.leaving:
                raise _unchangeable(workload)
            if isinstance(edit.priority, int) and edit.priority >= URGENT:
                self._authorise(actor, Action.WORKLOAD_URGE, workload, LESS_URGENT)
            self._edit(transaction, actor, workload, edit)
            record(self._context, transaction, actor, Action.WORKLOAD_UPDATE, workload.slug)

        await self._context.store.write(change)
        self._context.signal.notify()

    async def clone(self, actor: Actor, ref: str, once: Once | None = None) -> Workload:
        """The same again, for the caller."""

        def change(transaction: Transaction) -> Workload:
            entry = visible(transaction, actor, ref)
            source = entry.workload
            copied = NewWorkload(
                name=source.name,
                kind=source.kind,
                spec=source.spec,
                workspace=entry.workspace,
                description=source.description,
                priority=source.priority,
                preemptible=source.preemptible,
                timeout_seconds=source.timeout_seconds,
                max_retry=source.max_retry,
                origin_api=source.origin_api,
            )
            workload = self._acceptance.of(transaction, actor, copied)
            workloads.add(transaction, created(workload))
            record(self._context, transaction, actor, Action.WORKLOAD_CREATE, workload.slug, f"clone of {source.slug}")
            return workload

        self._context.store.check_room()
        made = await self._context.store.write(only_once(self._context, actor, once, Workload, change))
        self._context.signal.notify()
        return made

    async def reserve(self, actor: Actor, once: Once | None) -> None:
        """Take a key for a request that makes several things: under another request it makes none of them."""
        if once is not None:
            await self._context.store.write(only_once(self._context, actor, once, type(None), lambda _: None))

    async def _ask(
        self,
        actor: Actor,
        action: Action,
        ref: str,
        event: Callable[[int], Event],
        check: Callable[[Workload], None] = lambda _: None,
    ) -> bool:
        """Let this happen to a workload; False when there is nothing in it to change."""

        def change(transaction: Transaction) -> bool:
            workload = visible(transaction, actor, ref).workload
            self._authorise(actor, action, workload)
            check(workload)
            if action is Action.WORKLOAD_RESUME:
                capacity = self._capacities.of(transaction, workload.cluster_id)
                check_trust(actor, capacity.nodes.values(), self._context.settings.local_trust)
            step = transition(workload, event(self._context.clock.now()))
            if step is None:
                return False
            workloads.apply(transaction, workload, step)
            record(self._context, transaction, actor, action, workload.slug)
            return True

        changed = await self._context.store.write(change)
        self._context.signal.notify()
        return changed

    def _edit(self, transaction: Transaction, actor: Actor, workload: Workload, edit: WorkloadEdit) -> None:
        now = self._context.clock.now()
        spec = changed_spec(workload, edit)
        words = {name: value for name, value in edit.words.items() if value != getattr(workload, name)}
        if words.get("preemptible") is False:
            self._check_own_room(transaction, workload, spec)
        if words:
            after = edited(workload, **words)
            workloads.apply(transaction, workload, Change(after, _noted(workload, words, actor, now)))
            workload = after
        if spec == workload.spec:
            return
        engine = engine_of(transaction, workload.cluster_id)
        check_script(spec, workload.kind, engine)
        check_start(spec, engine)
        workspace = workspaces.get(transaction, workload.workspace_id)
        capacity = self._capacities.of(transaction, workload.cluster_id)
        check_trust(actor, capacity.nodes.values(), self._context.settings.local_trust)
        if workspace is not None:
            check_spec(spec, capacity, Quota() if workload.preemptible else workspace.quota, "gpu")
        if step := transition(workload, Replaced(now, actor.name, spec)):
            workloads.apply(transaction, workload, step)

    def _check_own_room(self, transaction: Transaction, workload: Workload, spec: Spec) -> None:
        """What is not preemptible needs a quota that it fits in, and may not sit on the idle quota of others."""
        workspace = workspaces.get(transaction, workload.workspace_id)
        capacity = self._capacities.of(transaction, workload.cluster_id)
        if workspace is not None:
            check_spec(spec, capacity, workspace.quota, "gpu")
        view = snapshot(read_cluster(transaction, workload.cluster_id), self._context.clock.now())
        if on_borrowed_room(view, workload.uid):
            raise StokerError(
                ErrorCode.STATE_FORBIDS,
                f'"{workload.slug}" stays preemptible: it runs on room that its workspace borrows beyond its quota.',
                hint="Stop other workloads of the workspace first, or ask an admin for more quota.",
            )

    def _authorise(self, actor: Actor, action: Action, workload: Workload, hint: str = "") -> None:
        authorise(actor, action, Target(workspace_id=workload.workspace_id, owner_id=workload.user_id), hint)


def _noted(workload: Workload, words: Iterable[str], actor: Actor, at: int) -> tuple[Condition, ...]:
    """What is written about an edit that changes when a workload starts or ends; it wakes whoever has to know."""
    changed = sorted(set(words) - {"description"})
    if not changed:
        return ()
    kind = ConditionType.RUNNING if workload.running_since is not None else ConditionType.QUEUED
    return (Condition(kind, "Changed", f"{', '.join(EDITED[name] for name in changed)} changed by {actor.name}", at),)


def _with_ends(workload: Workload, phases: list[workloads.Passed]) -> list[workloads.Passed]:
    """Intervals are kept of phases in which something is under way; the ends beside them follow from those."""
    found: list[workloads.Passed] = []
    for passed in phases:
        if passed.phase is Phase.RESUMING and found:
            found.append(workloads.Passed(Phase.STOPPED, found[-1].to_at or passed.from_at, passed.from_at))
        found.append(passed)
    if workload.phase.ended:
        found.append(workloads.Passed(workload.phase, workload.ended_at or workload.phase_at, None))
    return found


def _check_suspendable(workload: Workload) -> None:
    """What is over, or will be once its pods have gone, has nothing to go on with."""
    if workload.phase.terminal or workload.then is Phase.FAILED:
        message = f'"{workload.slug}" has ended, and only what waits or runs is suspended.'
        raise StokerError(ErrorCode.STATE_FORBIDS, message, hint="To run it again, clone it.")


def _unchangeable(workload: Workload) -> StokerError:
    if workload.phase is Phase.STOPPED:
        message, hint = "has stopped, and is not changed while it is.", "Resume it first, or change a clone of it."
    elif workload.phase.ended:
        message, hint = "has ended, and is not changed any more.", "Clone it, and change the copy."
    else:
        message, hint = "is on its way out, and is not changed now.", "Try again when its pods have gone."
    return StokerError(ErrorCode.STATE_FORBIDS, f'"{workload.slug}" {message}', hint=hint)
