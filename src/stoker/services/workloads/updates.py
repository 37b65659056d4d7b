"""Changes of an accepted workload: edits and rollbacks.

A field that the pods do not run with changes in place; a changed spec is a new revision, and its pods are replaced.
"""

from collections.abc import Iterable

from msgspec import Struct, structs

from stoker.domain.access.identity import Quota
from stoker.domain.access.permissions import Action, Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.events import SpecChanged
from stoker.domain.workload.lifecycle import Transition, apply_edit, transition
from stoker.domain.workload.model import Phase, Spec, Workload
from stoker.domain.workload.phase import Condition, ConditionType
from stoker.services.access import authorise_for_workload, get_visible
from stoker.services.context import Context, record_audit
from stoker.services.workloads.admission import LOWER_PRIORITY_HINT
from stoker.services.workloads.capacity_cache import CapacityCache
from stoker.services.workloads.plan_cache import ClusterPlanCache
from stoker.services.workloads.validation import (
    HIGH_PRIORITY,
    UpdateWorkloadInput,
    apply_update,
    check_env,
    check_local_trust,
    check_readiness,
    check_schedulable,
    check_script,
    check_unused_image,
    with_default_image,
)
from stoker.store.cluster import clusters
from stoker.store.db.base import Row, Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import pods, revisions, transitions

PATCH_HINT = "Change the spec with a PATCH of the workload, or: stoker patch"
MAX_EDIT_ATTEMPTS = 5
"""How often an edit is tried while pods of its workspace start and end."""
FIELD_LABELS = {
    "priority": "priority",
    "preemptible": "whether it may be preempted",
    "timeout_seconds": "timeout",
    "max_retry": "number of retries",
}


class QuotaObservation(Struct, frozen=True):
    """Whether a workload runs over the quota of its workspace, and the version of the pods that this was true for."""

    pods_version: Row
    is_borrowing: bool


class WorkloadUpdates:
    def __init__(self, context: Context, capacity_cache: CapacityCache, plans: ClusterPlanCache) -> None:
        self._context = context
        self._capacity_cache = capacity_cache
        self._plans = plans

    async def update(self, actor: Actor, ref: str, edit: UpdateWorkloadInput) -> None:
        """Change a workload in place where possible, else by replacing its pods."""
        for _ in range(MAX_EDIT_ATTEMPTS):
            observed = await self._observe_quota(actor, ref) if edit.preemptible is False else None
            if await self._try_update(actor, ref, edit, observed):
                self._context.notifier.notify()
                return
        raise StokerError(
            ErrorCode.CONFLICT,
            f'"{ref}" was not changed: pods of its workspace start and end faster than its quota can be checked.',
            hint="Try again in a moment.",
        )

    async def rollback(self, actor: Actor, ref: str) -> None:
        """Run the spec of the previous revision again, as a new revision; live pods of that revision are kept."""

        def change(transaction: Transaction) -> None:
            workload = get_visible(transaction, actor, ref).workload
            authorise_for_workload(actor, Action.WORKLOAD_UPDATE, workload)
            if workload.phase.is_finished or workload.phase.is_terminating:
                raise _not_editable_error(workload)
            previous = revisions.previous(transaction, workload)
            if previous is None:
                raise _no_revision_error(workload)
            event = SpecChanged(self._context.clock.now(), actor.name, previous.spec, previous.number)
            after = self._replace_spec(transaction, actor, workload, event)
            if after.revision != workload.revision:
                revisions.reassign_pods(transaction, after, previous.number)
            detail = f"to revision {previous.number}"
            record_audit(self._context, transaction, actor, Action.WORKLOAD_UPDATE, workload.slug, detail)

        await self._context.store.write(change)
        self._context.notifier.notify()

    async def _observe_quota(self, actor: Actor, ref: str) -> QuotaObservation:
        """Whether a workload runs over quota. Read outside of the write, since it needs a plan of the whole cluster."""
        read = self._context.store.read
        workload = await read(lambda tx: get_visible(tx, actor, ref).workload)
        pods_version = await read(lambda tx: pods.unreleased_version_of_workspace(tx, workload.workspace_id))
        is_borrowing = await self._plans.query(workload.cluster_id, lambda plan: plan.is_borrowing(workload.uid))
        return QuotaObservation(pods_version, is_borrowing)

    async def _try_update(
        self, actor: Actor, ref: str, edit: UpdateWorkloadInput, observed: QuotaObservation | None
    ) -> bool:
        """Apply an edit; False, and nothing is changed, when the pods of the workspace changed since observed."""

        def change(transaction: Transaction) -> bool:
            workload = get_visible(transaction, actor, ref).workload
            authorise_for_workload(actor, Action.WORKLOAD_UPDATE, workload)
            if workload.phase.is_finished or workload.phase.is_terminating:
                raise _not_editable_error(workload)
            if isinstance(edit.priority, int) and edit.priority >= HIGH_PRIORITY:
                authorise_for_workload(actor, Action.WORKLOAD_SET_HIGH_PRIORITY, workload, LOWER_PRIORITY_HINT)
            if (
                observed is not None
                and pods.unreleased_version_of_workspace(transaction, workload.workspace_id) != observed.pods_version
            ):
                return False
            is_borrowing = observed is not None and observed.is_borrowing
            self._apply_update(transaction, actor, workload, edit, is_borrowing=is_borrowing)
            record_audit(self._context, transaction, actor, Action.WORKLOAD_UPDATE, workload.slug)
            return True

        return await self._context.store.write(change)

    def _apply_update(
        self,
        transaction: Transaction,
        actor: Actor,
        workload: Workload,
        edit: UpdateWorkloadInput,
        *,
        is_borrowing: bool,
    ) -> None:
        now = self._context.clock.now()
        spec = apply_update(workload, edit)
        changes = {name: value for name, value in edit.in_place_changes.items() if value != getattr(workload, name)}
        if changes.get("preemptible") is False:
            self._check_within_quota(transaction, workload, spec, is_borrowing=is_borrowing)
        if changes:
            after = apply_edit(workload, **changes)
            transitions.apply(transaction, workload, Transition(after, _edit_conditions(workload, changes, actor, now)))
            workload = after
        if spec != workload.spec:
            self._replace_spec(
                transaction, actor, workload, SpecChanged(now, actor.name, spec), image_chosen=edit.image_chosen
            )

    def _replace_spec(
        self,
        transaction: Transaction,
        actor: Actor,
        workload: Workload,
        event: SpecChanged,
        *,
        image_chosen: bool = False,
    ) -> Workload:
        """Check a new spec as a create does, and begin to replace the pods."""
        cluster = clusters.get(transaction, workload.cluster_id)
        spec = with_default_image(event.spec, cluster)
        event = structs.replace(event, spec=spec)
        check_script(spec, workload.submitted_kind, cluster.capabilities)
        check_readiness(spec, workload.submitted_kind)
        unused_image = (
            check_unused_image(spec, cluster.capabilities, chosen=image_chosen, at=event.at)
            if spec.image != workload.spec.image
            else ()
        )
        check_env(spec, cluster.capabilities.env_limits)
        workspace = workspaces.get(transaction, workload.workspace_id)
        capacity = self._capacity_cache.get(transaction, workload.cluster_id)
        check_local_trust(actor, capacity.nodes.values(), self._context.settings.local_trust)
        if workspace is not None:
            quota = Quota() if workload.preemptible else workspace.quota
            check_schedulable(spec, capacity, quota, "gpu", cluster.capabilities.admission)
        step = transition(workload, event)
        if step is None:
            return workload
        transitions.apply(transaction, workload, Transition(step.workload, (*step.conditions, *unused_image)))
        return step.workload

    def _check_within_quota(
        self, transaction: Transaction, workload: Workload, spec: Spec, *, is_borrowing: bool
    ) -> None:
        """A non-preemptible workload must fit in the quota of its workspace, and may not run over quota."""
        workspace = workspaces.get(transaction, workload.workspace_id)
        capacity = self._capacity_cache.get(transaction, workload.cluster_id)
        if workspace is not None:
            check_schedulable(spec, capacity, workspace.quota, "gpu")
        if is_borrowing:
            raise StokerError(
                ErrorCode.CONFLICT,
                f'"{workload.slug}" stays preemptible: it runs over the quota of its workspace, on borrowed capacity.',
                hint="Stop other workloads of the workspace first, or ask an admin for more quota.",
            )


def _edit_conditions(workload: Workload, fields: Iterable[str], actor: Actor, at: int) -> tuple[Condition, ...]:
    """The condition that records an in-place edit; a new description alone is not recorded."""
    changed = sorted(set(fields) - {"description"})
    if not changed:
        return ()
    kind = ConditionType.RUNNING if workload.running_since is not None else ConditionType.QUEUED
    return (
        Condition(kind, "Changed", f"{', '.join(FIELD_LABELS[name] for name in changed)} changed by {actor.name}", at),
    )


def _no_revision_error(workload: Workload) -> StokerError:
    if not workload.uses_rolling_update:
        message = f"only a Deployment or a StatefulSet can be rolled back, and this is a {workload.kind}."
    else:
        message = "no earlier revision is kept."
    return StokerError(ErrorCode.CONFLICT, f'"{workload.slug}" is not rolled back: {message}', hint=PATCH_HINT)


def _not_editable_error(workload: Workload) -> StokerError:
    if workload.phase is Phase.STOPPED:
        message, hint = "is stopped and cannot be changed.", "Resume it first, or change a clone of it."
    elif workload.phase.is_finished:
        message, hint = "has ended and cannot be changed.", "Clone it, and change the copy."
    else:
        message, hint = "is terminating and cannot be changed.", "Try again when its pods have ended."
    return StokerError(ErrorCode.CONFLICT, f'"{workload.slug}" {message}', hint=hint)
