"""Commands on workloads: create, stop, suspend, resume, delete and clone.

A command writes the intent only; the controller carries it out.
"""

from collections.abc import Callable

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.events import DeleteRequested, LifecycleEvent, ResumeRequested, StopRequested
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.services.access import (
    authorise_for_workload,
    authorise_stop,
    get_visible,
    may_read_env,
)
from stoker.services.context import Context, record_audit
from stoker.services.idempotency import IdempotencyKey, idempotent
from stoker.services.workloads.admission import Admission
from stoker.services.workloads.capacity_cache import CapacityCache
from stoker.services.workloads.validation import CreateWorkloadInput, check_local_trust
from stoker.store.db.base import Transaction
from stoker.store.workloads import transitions

CLONE_ENV_MESSAGE = (
    "Not allowed: you would see the environment values of the clone, and only the owner, managers of the workspace "
    "and admins may read those."
)
CLONE_ENV_HINT = "Ask one of them to clone it, or submit a workload with your own values."


class WorkloadCommands:
    def __init__(self, context: Context, admission: Admission, capacity_cache: CapacityCache) -> None:
        self._context = context
        self._admission = admission
        self._capacity_cache = capacity_cache

    async def create(self, actor: Actor, new: CreateWorkloadInput, once: IdempotencyKey | None = None) -> Workload:
        """Accept a workload; it is pending when this returns."""

        def change(transaction: Transaction) -> Workload:
            return self._submit(transaction, actor, new)

        store = self._context.store
        store.check_disk_space()
        write = store.write_inline if self._capacity_cache.is_inline else store.write
        workload = await write(idempotent(self._context, actor, once, Workload, change))
        self._context.notifier.notify()
        return workload

    async def clone(self, actor: Actor, ref: str, once: IdempotencyKey | None = None) -> Workload:
        """Submit a copy of a workload as the caller's own."""

        def change(transaction: Transaction) -> Workload:
            entry = get_visible(transaction, actor, ref)
            source = entry.workload
            if source.spec.env and not may_read_env(actor, source):
                raise StokerError(ErrorCode.FORBIDDEN, CLONE_ENV_MESSAGE, hint=CLONE_ENV_HINT)
            copy = CreateWorkloadInput(
                name=source.name,
                kind=source.submitted_kind,
                spec=source.spec,
                workspace=entry.workspace,
                description=source.description,
                priority=source.priority,
                preemptible=source.preemptible,
                timeout_seconds=source.timeout_seconds,
                max_retry=source.max_retry,
                origin_api=source.origin_api,
            )
            return self._submit(transaction, actor, copy, f"clone of {source.slug}")

        self._context.store.check_disk_space()
        workload = await self._context.store.write(idempotent(self._context, actor, once, Workload, change))
        self._context.notifier.notify()
        return workload

    async def stop(self, actor: Actor, ref: str, grace_seconds: int | None = None) -> bool:
        """Request a stop; False when the workload has ended or is terminating already."""
        return await self._request_transition(
            actor, Action.WORKLOAD_STOP, ref, lambda at: StopRequested(at, actor.name, grace_seconds)
        )

    async def suspend(self, actor: Actor, ref: str) -> None:
        """Stop a workload that can be resumed later; one that has ended by itself is refused."""
        await self._request_transition(
            actor, Action.WORKLOAD_STOP, ref, lambda at: StopRequested(at, actor.name), _check_suspendable
        )

    async def resume(self, actor: Actor, ref: str) -> None:
        """Queue a stopped workload again; in any other phase it is refused."""
        self._context.store.check_disk_space()
        if not await self._request_transition(
            actor, Action.WORKLOAD_RESUME, ref, lambda at: ResumeRequested(at, actor.name)
        ):
            raise StokerError(
                ErrorCode.CONFLICT,
                f'"{ref}" is not stopped, and only a stopped workload can be resumed.',
                hint="To run a workload again that has ended by itself, clone it.",
            )

    async def delete(self, actor: Actor, ref: str) -> None:
        """Stop and hide a workload; its rows stay for usage reports."""
        await self._request_transition(actor, Action.WORKLOAD_DELETE, ref, lambda at: DeleteRequested(at, actor.name))

    async def reserve_idempotency_key(self, actor: Actor, once: IdempotencyKey | None) -> None:
        """Reserve the key of a request that creates several workloads; the key is refused with another request."""
        if once is not None:
            await self._context.store.write(idempotent(self._context, actor, once, type(None), lambda _: None))

    def _submit(self, transaction: Transaction, actor: Actor, new: CreateWorkloadInput, detail: str = "") -> Workload:
        admitted = self._admission.admit_with_conditions(transaction, actor, new)
        transitions.add(transaction, admitted)
        workload = admitted.workload
        record_audit(self._context, transaction, actor, Action.WORKLOAD_CREATE, workload.slug, detail)
        return workload

    async def _request_transition(
        self,
        actor: Actor,
        action: Action,
        ref: str,
        event: Callable[[int], LifecycleEvent],
        check: Callable[[Workload], None] = lambda _: None,
    ) -> bool:
        """Apply a lifecycle event to a workload; False when the event changes nothing."""

        def change(transaction: Transaction) -> bool:
            workload = get_visible(transaction, actor, ref).workload
            if action is Action.WORKLOAD_STOP:
                authorise_stop(transaction, actor, workload)
            else:
                authorise_for_workload(actor, action, workload)
            check(workload)
            if action is Action.WORKLOAD_RESUME:
                capacity = self._capacity_cache.get(transaction, workload.cluster_id)
                check_local_trust(actor, capacity.nodes.values(), self._context.settings.local_trust)
            step = transition(workload, event(self._context.clock.now()))
            if step is None:
                return False
            transitions.apply(transaction, workload, step)
            record_audit(self._context, transaction, actor, action, workload.slug)
            return True

        changed = await self._context.store.write(change)
        self._context.notifier.notify()
        return changed


def _check_suspendable(workload: Workload) -> None:
    """Refuse a workload that has ended, or fails once its pods have ended: it cannot be resumed."""
    if not workload.is_suspendable:
        message = f'"{workload.slug}" has ended, and only a pending or running workload can be suspended.'
        raise StokerError(ErrorCode.CONFLICT, message, hint="To run it again, clone it.")
