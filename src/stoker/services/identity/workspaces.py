"""Workspaces: a team's place on a cluster, and the team."""

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.errors import ErrorCode, StokerError, bad_request, exists, not_found
from stoker.domain.identity import Department, MemberRole, Membership, QueuePolicy, Quota, User, Workspace
from stoker.domain.idleness import IdleAction, IdlePolicy
from stoker.domain.listing import Listing, Window, WorkspaceQuery
from stoker.domain.names import check_slug
from stoker.domain.permissions import Action, Actor, Target, may
from stoker.services.context import Context, authorise, record
from stoker.services.once import Once, only_once
from stoker.store import accounts, clusters, counters, departments, workloads, workspaces
from stoker.store.base import Transaction

LONGEST_NUMBER = 19
"""Ids have fewer digits than this; a longer number is nobody's."""
GRANTED = frozenset({"department", "guaranteed_seconds"})
"""What a workspace is given at the cost of others, beside its quota."""


class NewWorkspace(Struct, frozen=True, kw_only=True):
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


class WorkspaceEdit(Struct, frozen=True, kw_only=True):
    """What is UNSET stays as it is. Quota, guarantee and department are granted by admins only."""

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


class Workspaces:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, query: WorkspaceQuery, window: Window) -> Listing[Workspace]:
        """An admin sees all, anyone else the workspaces it belongs to."""
        authorise(actor, Action.WORKSPACE_LIST)
        seen = structs.replace(query, visible_to=None if actor.admin else actor.user_id)
        return await self._context.store.read(lambda tx: workspaces.browse(tx, seen, window))

    async def read(self, actor: Actor, name: str) -> Workspace:
        return await self._context.store.peek(lambda tx: visible(tx, actor, name))

    async def numbered(self, actor: Actor, number: str) -> Workspace:
        """The workspace of this id, as it is written in text."""

        def query(transaction: Transaction) -> Workspace:
            known = number.isascii() and number.isdigit() and len(number) < LONGEST_NUMBER
            found = workspaces.get(transaction, int(number)) if known else None
            if found is None or not (actor.admin or found.id in actor.memberships):
                raise not_found("workspace", number)
            return visible(transaction, actor, found.name)

        return await self._context.store.peek(query)

    async def create(self, actor: Actor, new: NewWorkspace, once: Once | None = None) -> Workspace:
        authorise(actor, Action.WORKSPACE_CREATE)
        check_slug(new.name, "name")
        namespace = check_slug(new.namespace or new.name, "namespace")

        def change(transaction: Transaction) -> Workspace:
            if workspaces.find(transaction, new.name):
                raise exists("workspace", new.name)
            department = _department(transaction, new.department)
            wanted = new.cluster or self._context.settings.default_cluster
            cluster = clusters.find(transaction, wanted)
            if cluster is None:
                raise bad_request("cluster", f'there is no cluster "{wanted}".')
            if holder := workspaces.namespace_holder(transaction, cluster.id, namespace):
                raise StokerError(
                    ErrorCode.EXISTS,
                    f'Namespace "{namespace}" of cluster "{cluster.name}" belongs to workspace "{holder}".',
                    field="namespace",
                )
            now = self._context.clock.now()
            workspace = Workspace(
                id=counters.advance(transaction, "workspace"),
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
            record(self._context, transaction, actor, Action.WORKSPACE_CREATE, new.name)
            return workspace

        return await self._context.store.write(only_once(self._context, actor, once, Workspace, change))

    async def update(self, actor: Actor, name: str, edit: WorkspaceEdit) -> Workspace:
        def change(transaction: Transaction) -> Workspace:
            workspace = visible(transaction, actor, name)
            authorise(actor, Action.WORKSPACE_UPDATE, Target(workspace_id=workspace.id))
            given = {field: value for field, value in structs.asdict(edit).items() if value is not UNSET}
            quota = {field: given.pop(field) for field in Quota.__struct_fields__ if field in given}
            if quota or not GRANTED.isdisjoint(given):
                authorise(actor, Action.WORKSPACE_GRANT, Target(workspace_id=workspace.id))
            idle = {field: given.pop(field) for field in sorted(given) if field.startswith("idle_")}
            changes = dict(given)
            if "department" in changes:
                changes["department_id"] = _department(transaction, changes["department"]).id
            workspaces.replace(
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
            detail = ", ".join(f"{field}={value}" for field, value in sorted({**given, **quota, **idle}.items()))
            record(self._context, transaction, actor, Action.WORKSPACE_UPDATE, name, detail)
            return visible(transaction, actor, name)

        return await self._context.store.write(change)

    async def delete(self, actor: Actor, name: str) -> None:
        def change(transaction: Transaction) -> None:
            workspace = visible(transaction, actor, name)
            authorise(actor, Action.WORKSPACE_DELETE, Target(workspace_id=workspace.id))
            if live := workloads.live_in(transaction, workspace.cluster_id, workspace.id):
                message = f'Workspace "{name}" still has workloads that have not ended ({live}). Stop them first.'
                raise StokerError(ErrorCode.STATE_FORBIDS, message)
            workspaces.delete(transaction, workspace.id)
            record(self._context, transaction, actor, Action.WORKSPACE_DELETE, name)

        await self._context.store.write(change)

    async def members(self, actor: Actor, name: str, role: MemberRole | None, window: Window) -> Listing[Membership]:
        def query(transaction: Transaction) -> Listing[Membership]:
            workspace = visible(transaction, actor, name)
            authorise(actor, Action.MEMBER_LIST, Target(workspace_id=workspace.id))
            return workspaces.members(transaction, workspace.id, role, window)

        return await self._context.store.read(query)

    async def set_member(self, actor: Actor, name: str, user_name: str, role: MemberRole) -> Membership:
        """Add a user to a workspace, or change its role there."""

        def change(transaction: Transaction) -> Membership:
            workspace = visible(transaction, actor, name)
            authorise(actor, Action.MEMBER_SET, Target(workspace_id=workspace.id))
            user = _user(transaction, user_name)
            workspaces.set_member(transaction, workspace.id, user.id, role, self._context.clock.now())
            target = f"{name}/{user_name}"
            record(self._context, transaction, actor, Action.MEMBER_SET, target, f"role {role}")
            return workspaces.member(transaction, workspace.id, user.id) or _gone(user_name)

        return await self._context.store.write(change)

    async def remove_member(self, actor: Actor, name: str, user_name: str) -> None:
        def change(transaction: Transaction) -> None:
            workspace = visible(transaction, actor, name)
            authorise(actor, Action.MEMBER_REMOVE, Target(workspace_id=workspace.id))
            user = accounts.find(transaction, user_name)
            if user is None or not workspaces.remove_member(transaction, workspace.id, user.id):
                raise not_found("member", user_name)
            record(self._context, transaction, actor, Action.MEMBER_REMOVE, f"{name}/{user_name}")

        await self._context.store.write(change)


def visible(transaction: Transaction, actor: Actor, name: str) -> Workspace:
    """The workspace, if the caller may know of it: absent and hidden look the same."""
    workspace = workspaces.find(transaction, name)
    if workspace is None:
        raise not_found("workspace", name)
    target = Target(workspace_id=workspace.id)
    if not actor.admin and workspace.id not in actor.memberships:
        raise not_found("workspace", name)
    verdict = may(actor, Action.WORKSPACE_READ, target)
    if not verdict.allowed:
        raise StokerError(ErrorCode.NOT_ALLOWED, f"Not allowed: {verdict.rule}.")
    return workspace


def _department(transaction: Transaction, name: str) -> Department:
    department = departments.find(transaction, name)
    if department is None:
        raise bad_request("department", f'there is no department "{name}".')
    return department


def _user(transaction: Transaction, name: str) -> User:
    user = accounts.find(transaction, name)
    if user is None:
        raise not_found("user", name)
    return user


def _gone(name: str) -> Membership:
    raise not_found("member", name)
