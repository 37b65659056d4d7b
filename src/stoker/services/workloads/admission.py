"""Admission: every check of a new workload, in the transaction that queues it."""

from stoker.domain.access.identity import Quota, Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target
from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.names import check_slug, new_uuid7
from stoker.domain.workload.lifecycle import submit_transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase_change import Transition
from stoker.services.access import get_visible
from stoker.services.context import Context, authorise
from stoker.services.workloads.capacity_cache import CapacityCache
from stoker.services.workloads.validation import (
    HIGH_PRIORITY,
    CreateWorkloadInput,
    check_env,
    check_local_trust,
    check_readiness,
    check_schedulable,
    check_script,
    check_unused_image,
    with_default_image,
    with_replica_per_node,
)
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import rows

SLUG_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MAX_SLUG_NAME = 45
SLUG_SUFFIX_LENGTH = 5
LOWER_PRIORITY_HINT = "Ask for a lower priority, or ask a manager of the workspace to raise it."


class Admission:
    def __init__(self, context: Context, capacity_cache: CapacityCache) -> None:
        self._context = context
        self._capacity_cache = capacity_cache

    def admit_with_conditions(self, transaction: Transaction, actor: Actor, new: CreateWorkloadInput) -> Transition:
        """The submit transition of an admitted workload, with its first conditions; raises when it is refused."""
        workload = self.admit(transaction, actor, new)
        capabilities = clusters.get(transaction, workload.cluster_id).capabilities
        return submit_transition(
            workload, check_unused_image(workload.spec, capabilities, chosen=False, at=workload.submitted_at)
        )

    def admit(self, transaction: Transaction, actor: Actor, new: CreateWorkloadInput) -> Workload:
        """The workload as it would be queued; raises when it is refused."""
        check_slug(new.name, "display_name")
        workspace = resolve_workspace(transaction, actor, new.workspace)
        target = Target(workspace_id=workspace.id, owner_id=actor.user_id)
        authorise(actor, Action.WORKLOAD_CREATE, target)
        if new.priority >= HIGH_PRIORITY:
            authorise(actor, Action.WORKLOAD_SET_HIGH_PRIORITY, target, LOWER_PRIORITY_HINT)
        cluster = clusters.get(transaction, workspace.cluster_id)
        spec = with_default_image(with_replica_per_node(new.spec), cluster)
        check_script(spec, new.kind, cluster.capabilities)
        check_readiness(spec, new.kind)
        check_unused_image(spec, cluster.capabilities, chosen=new.image_chosen, at=0)
        check_env(spec, cluster.capabilities.env_limits)
        capacity = self._capacity_cache.get(transaction, workspace.cluster_id)
        quota = Quota() if new.preemptible else workspace.quota
        check_schedulable(spec, capacity, quota, admission=cluster.capabilities.admission)
        check_local_trust(actor, capacity.nodes.values(), self._context.settings.local_trust)
        for ref in spec.dependencies:
            _check_dependency(transaction, actor, ref)
        now = self._context.clock.now()
        return Workload(
            uid=new_uuid7(now, self._context.randomness),
            slug=self._unique_slug(transaction, new.name),
            name=new.name,
            description=new.description,
            kind=new.kind,
            cluster_id=workspace.cluster_id,
            workspace_id=workspace.id,
            namespace=workspace.namespace,
            user_id=actor.user_id,
            user_name=actor.name,
            origin_api=new.origin_api,
            spec=spec,
            priority=new.priority,
            preemptible=new.preemptible,
            timeout_seconds=new.timeout_seconds,
            max_retry=new.max_retry,
            submitted_at=now,
            phase_at=now,
        )

    def _unique_slug(self, transaction: Transaction, name: str) -> str:
        """A unique name, short enough to stay a valid DNS label with a pod suffix."""
        while True:
            entropy = self._context.randomness(SLUG_SUFFIX_LENGTH * 4)
            suffix = "".join(
                SLUG_ALPHABET[int.from_bytes(entropy[n * 4 : n * 4 + 4]) % len(SLUG_ALPHABET)]
                for n in range(SLUG_SUFFIX_LENGTH)
            )
            slug = f"{name[:MAX_SLUG_NAME].rstrip('-')}-{suffix}"
            if not rows.is_slug_taken(transaction, slug):
                return slug


def resolve_workspace(transaction: Transaction, actor: Actor, name: str) -> Workspace:
    """The named workspace, or without a name the caller's default workspace."""
    if name:
        workspace = workspaces.find(transaction, name)
    else:
        workspace_id = actor.default_workspace_id or next(iter(sorted(actor.memberships)), None)
        workspace = workspaces.get(transaction, workspace_id) if workspace_id is not None else None
    if workspace is None or not actor.can_see(workspace.id):
        raise not_found("workspace", name or "default")
    return workspace


def _check_dependency(transaction: Transaction, actor: Actor, ref: str) -> None:
    """The caller must be able to see a dependency."""
    try:
        get_visible(transaction, actor, ref)
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
        message = f'dependencies: there is no workload "{ref}", or you may not see it.'
        raise StokerError(error.code, message, hint="Name it by its id.", field="dependencies") from error
