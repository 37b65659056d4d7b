"""What becomes a workload: everything that is checked before one is queued, in the transaction that queues it."""

from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.identity import Quota, Workspace
from stoker.domain.names import check_slug, ordered_uuid
from stoker.domain.permissions import Action, Actor, Target
from stoker.domain.workload import Workload
from stoker.services.capacities import Capacities
from stoker.services.context import Context, authorise
from stoker.services.submission import (
    URGENT,
    NewWorkload,
    check_script,
    check_spec,
    check_start,
    check_trust,
    with_nodes,
)
from stoker.services.visible import visible
from stoker.store import clusters, workloads, workspaces
from stoker.store.base import Transaction

SLUG_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SLUG_NAME = 45
SLUG_TAIL = 5
LESS_URGENT = "Ask for a lower priority, or ask a manager of the workspace to raise it."


class Acceptance:
    def __init__(self, context: Context, capacities: Capacities) -> None:
        self._context = context
        self._capacities = capacities

    def of(self, transaction: Transaction, actor: Actor, new: NewWorkload) -> Workload:
        """The workload as it would be queued, or the reason why not."""
        check_slug(new.name, "displayName")
        workspace = self._workspace(transaction, actor, new.workspace)
        target = Target(workspace_id=workspace.id, owner_id=actor.user_id)
        authorise(actor, Action.WORKLOAD_CREATE, target)
        if new.priority >= URGENT:
            authorise(actor, Action.WORKLOAD_URGE, target, LESS_URGENT)
        spec = with_nodes(new.spec)
        engine = engine_of(transaction, workspace.cluster_id)
        check_script(spec, new.kind, engine)
        check_start(spec, engine)
        capacity = self._capacities.of(transaction, workspace.cluster_id)
        check_spec(spec, capacity, Quota() if new.preemptible else workspace.quota)
        check_trust(actor, capacity.nodes.values(), self._context.settings.local_trust)
        for ref in spec.dependencies:
            _depend(transaction, actor, ref)
        now = self._context.clock.now()
        return Workload(
            uid=ordered_uuid(now, self._context.randomness),
            slug=self._slug(transaction, new.name),
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

    def _workspace(self, transaction: Transaction, actor: Actor, name: str) -> Workspace:
        if name:
            found = workspaces.find(transaction, name)
        else:
            chosen = actor.default_workspace_id or next(iter(sorted(actor.memberships)), None)
            found = workspaces.get(transaction, chosen) if chosen is not None else None
        if found is None or not (actor.admin or found.id in actor.memberships):
            raise not_found("workspace", name or "default")
        return found

    def _slug(self, transaction: Transaction, name: str) -> str:
        """A name that nothing else has, and that stays legal when more is put behind it."""
        while True:
            letters = self._context.randomness(SLUG_TAIL * 4)
            tail = "".join(
                SLUG_LETTERS[int.from_bytes(letters[n * 4 : n * 4 + 4]) % len(SLUG_LETTERS)] for n in range(SLUG_TAIL)
            )
            slug = f"{name[:SLUG_NAME].rstrip('-')}-{tail}"
            if not workloads.is_taken(transaction, slug):
                return slug


def engine_of(transaction: Transaction, cluster_id: str) -> str:
    """What kind of engine a cluster has."""
    cluster = clusters.find(transaction, cluster_id)
    return cluster.engine if cluster else ""


def _depend(transaction: Transaction, actor: Actor, ref: str) -> None:
    """A dependency must be one that the caller may see."""
    try:
        visible(transaction, actor, ref)
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
        message = f'dependencies: there is no workload "{ref}", or you may not see it.'
        raise StokerError(error.code, message, hint="Name it by its id.", field="dependencies") from error
