"""Workspaces and their members. A workspace is a team's namespace, quota and queue on one cluster."""

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.access.identity import Department, MemberRole, Membership, QueuePolicy, Quota, User, Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target, check_access, check_role_grant
from stoker.domain.errors import ErrorCode, StokerError, already_exists, bad_request, not_found
from stoker.domain.names import check_slug
from stoker.domain.queries.pages import PageRequest, PageResult, WorkspaceQuery
from stoker.domain.workload.idle import IdleAction, IdlePolicy
from stoker.services.context import Context, authorise, record_audit
from stoker.services.idempotency import IdempotencyKey, idempotent
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.identity import departments, users, workspaces
from stoker.store.sql import sequences
from stoker.store.workloads import rows

MAX_ID_DIGITS = 19
"""Longer numbers are no workspace id and would overflow the database's integers."""
ADMIN_ONLY_FIELDS = frozenset({"department", "guaranteed_seconds"})
"""Besides the quota, the fields that affect other workspaces."""


class CreateWorkspaceInput(Struct, frozen=True, kw_only=True):
    """Department, cluster and namespace have defaults: `default`, the default cluster, the name."""

    name: str
    description: str = ""
    department: str = "default"
    cluster: str = ""
    namespace: str = ""
    quota: Quota = Quota()
    queue_policy: QueuePolicy = QueuePolicy.FIFO
    preemption: bool = True
    idle: IdlePolicy = IdlePolicy()
    guaranteed_seconds: int = 0


class UpdateWorkspaceInput(Struct, frozen=True, kw_only=True):
    """UNSET fields keep their value. Only admins may change quota, guaranteed time and department."""

    description: str | UnsetType = UNSET
    queue_policy: QueuePolicy | UnsetType = UNSET
    preemption: bool | UnsetType = UNSET
    department: str | UnsetType = UNSET
    gpu_milli: int | UnsetType | None = UNSET
    cpu_milli: int | UnsetType | None = UNSET
    memory_bytes: int | UnsetType | None = UNSET
    guaranteed_seconds: int | UnsetType = UNSET
    idle_action: IdleAction | UnsetType = UNSET
    idle_threshold: float | UnsetType | None = UNSET
    idle_window_seconds: int | UnsetType = UNSET
    idle_grace_seconds: int | UnsetType = UNSET


class WorkspaceService:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_workspaces(self, actor: Actor, query: WorkspaceQuery, window: PageRequest) -> PageResult[Workspace]:
        """An admin sees all workspaces, other callers those they are members of."""
        authorise(actor, Action.WORKSPACE_LIST)
        visible = structs.replace(query, visible_to=None if actor.admin else actor.user_id)
        return await self._context.store.read(lambda tx: workspaces.list_workspaces(tx, visible, window))

    async def read(self, actor: Actor, name: str) -> Workspace:
        return await self._context.store.read_inline(lambda tx: get_visible_workspace(tx, actor, name))

    async def get_by_id(self, actor: Actor, number: str) -> Workspace:
        """The workspace of an id given as text."""

        def query(transaction: Transaction) -> Workspace:
            is_id = number.isascii() and number.isdigit() and len(number) < MAX_ID_DIGITS
            found = workspaces.get(transaction, int(number)) if is_id else None
            if found is None or not actor.can_see(found.id):
                raise not_found("workspace", number)
            return get_visible_workspace(transaction, actor, found.name)

        return await self._context.store.read_inline(query)

    async def create(self, actor: Actor, new: CreateWorkspaceInput, once: IdempotencyKey | None = None) -> Workspace:
        authorise(actor, Action.WORKSPACE_CREATE)
        check_slug(new.name, "name")
        namespace = check_slug(new.namespace or new.name, "namespace")

        def change(transaction: Transaction) -> Workspace:
            if workspaces.find(transaction, new.name):
                raise already_exists("workspace", new.name)
            department = _get_department(transaction, new.department)
            cluster_name = new.cluster or self._context.settings.default_cluster
            cluster = clusters.find(transaction, cluster_name)
            if cluster is None:
                raise bad_request("cluster", f'there is no cluster "{cluster_name}".')
            if owner := workspaces.find_namespace_owner(transaction, cluster.id, namespace):
                raise StokerError(
                    ErrorCode.ALREADY_EXISTS,
                    f'Namespace "{namespace}" of cluster "{cluster.name}" belongs to workspace "{owner}".',
                    field="namespace",
                )
            now = self._context.clock.now()
            workspace = Workspace(
                id=sequences.next_value(transaction, "workspace"),
                name=new.name,
                description=new.description,
                department_id=department.id,
                department=department.name,
                cluster_id=cluster.id,
                cluster=cluster.name,
                namespace=namespace,
                quota=new.quota,
                queue_policy=new.queue_policy,
                preemption=new.preemption,
                created_at=now,
                updated_at=now,
                version=1,
                idle=new.idle,
                guaranteed_seconds=new.guaranteed_seconds,
            )
            workspaces.add(transaction, workspace)
            record_audit(self._context, transaction, actor, Action.WORKSPACE_CREATE, new.name)
            return workspace

        return await self._context.store.write(idempotent(self._context, actor, once, Workspace, change))

    async def update(self, actor: Actor, name: str, edit: UpdateWorkspaceInput) -> Workspace:
        def change(transaction: Transaction) -> Workspace:
            workspace = get_visible_workspace(transaction, actor, name)
            authorise(actor, Action.WORKSPACE_UPDATE, Target(workspace_id=workspace.id))
            changes = {field: value for field, value in structs.asdict(edit).items() if value is not UNSET}
            quota = {field: changes.pop(field) for field in Quota.__struct_fields__ if field in changes}
            if quota or not ADMIN_ONLY_FIELDS.isdisjoint(changes):
                authorise(actor, Action.WORKSPACE_SET_QUOTA, Target(workspace_id=workspace.id))
            idle = {field: changes.pop(field) for field in sorted(changes) if field.startswith("idle_")}
            detail = ", ".join(f"{field}={value}" for field, value in sorted({**changes, **quota, **idle}.items()))
            if "department" in changes:
                changes["department_id"] = _get_department(transaction, changes["department"]).id
            workspaces.update(
                transaction,
                structs.replace(
                    workspace,
                    **changes,
                    quota=structs.replace(workspace.quota, **quota),
                    idle=structs.replace(
                        workspace.idle, **{field.removeprefix("idle_"): value for field, value in idle.items()}
                    ),
                    updated_at=self._context.clock.now(),
                ),
            )
            record_audit(self._context, transaction, actor, Action.WORKSPACE_UPDATE, name, detail)
            return get_visible_workspace(transaction, actor, name)

        return await self._context.store.write(change)

    async def delete(self, actor: Actor, name: str) -> None:
        def change(transaction: Transaction) -> None:
            workspace = get_visible_workspace(transaction, actor, name)
            authorise(actor, Action.WORKSPACE_DELETE, Target(workspace_id=workspace.id))
            if unfinished := rows.count_unfinished(transaction, workspace.cluster_id, workspace.id):
                message = f'Workspace "{name}" still has workloads that have not ended ({unfinished}). Stop them first.'
                raise StokerError(ErrorCode.CONFLICT, message)
            workspaces.delete(transaction, workspace.id, self._context.clock.now())
            record_audit(self._context, transaction, actor, Action.WORKSPACE_DELETE, name)

        await self._context.store.write(change)

    async def list_members(
        self, actor: Actor, name: str, role: MemberRole | None, window: PageRequest
    ) -> PageResult[Membership]:
        def query(transaction: Transaction) -> PageResult[Membership]:
            workspace = get_visible_workspace(transaction, actor, name)
            authorise(actor, Action.MEMBER_LIST, Target(workspace_id=workspace.id))
            return workspaces.list_members(transaction, workspace.id, role, window)

        return await self._context.store.read(query)

    async def set_member(self, actor: Actor, name: str, user_name: str, role: MemberRole) -> Membership:
        """Add a user to a workspace, or change its role there."""

        def change(transaction: Transaction) -> Membership:
            workspace = get_visible_workspace(transaction, actor, name)
            authorise(actor, Action.MEMBER_SET, Target(workspace_id=workspace.id))
            if not (verdict := check_role_grant(actor, role)).allowed:
                raise StokerError(ErrorCode.FORBIDDEN, f"Not allowed: {verdict.reason}.")
            user = _get_user(transaction, user_name)
            workspaces.set_member(transaction, workspace.id, user.id, role, self._context.clock.now())
            target = f"{name}/{user_name}"
            record_audit(self._context, transaction, actor, Action.MEMBER_SET, target, f"role {role}")
            return workspaces.find_member(transaction, workspace.id, user.id) or _raise_member_not_found(user_name)

        return await self._context.store.write(change)

    async def remove_member(self, actor: Actor, name: str, user_name: str) -> None:
        def change(transaction: Transaction) -> None:
            workspace = get_visible_workspace(transaction, actor, name)
            authorise(actor, Action.MEMBER_REMOVE, Target(workspace_id=workspace.id))
            user = users.find(transaction, user_name)
            if user is None or not workspaces.remove_member(transaction, workspace.id, user.id):
                raise not_found("member", user_name)
            record_audit(self._context, transaction, actor, Action.MEMBER_REMOVE, f"{name}/{user_name}")

        await self._context.store.write(change)


def get_visible_workspace(transaction: Transaction, actor: Actor, name: str) -> Workspace:
    """The workspace, if the caller may see it; absent and hidden workspaces give the same error."""
    workspace = workspaces.find(transaction, name)
    if workspace is None:
        raise not_found("workspace", name)
    target = Target(workspace_id=workspace.id)
    if not actor.can_see(workspace.id):
        raise not_found("workspace", name)
    verdict = check_access(actor, Action.WORKSPACE_READ, target)
    if not verdict.allowed:
        raise StokerError(ErrorCode.FORBIDDEN, f"Not allowed: {verdict.reason}.")
    return workspace


def _get_department(transaction: Transaction, name: str) -> Department:
    department = departments.find(transaction, name)
    if department is None:
        raise bad_request("department", f'there is no department "{name}".')
    return department


def _get_user(transaction: Transaction, name: str) -> User:
    user = users.find(transaction, name)
    if user is None:
        raise not_found("user", name)
    return user


def _raise_member_not_found(name: str) -> Membership:
    raise not_found("member", name)
