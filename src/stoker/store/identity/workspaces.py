"""Workspaces and their members. Quota changes are also written to the quota history."""

from msgspec import structs

from stoker.domain.access.identity import MemberRole, Membership, QueuePolicy, Quota, Workspace
from stoker.domain.queries.pages import PageRequest, PageResult, WorkspaceQuery
from stoker.domain.workload.idle import IdleAction, IdlePolicy
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.pagination import fetch_page, like_substring, where_clause
from stoker.store.usage import value_history

SELECT = """
SELECT workspace.id, workspace.name, workspace.description, workspace.department_id, department.name,
       workspace.cluster_id, cluster.name, workspace.namespace, workspace.gpu_milli, workspace.cpu_milli,
       workspace.memory_bytes, workspace.queue_policy, workspace.preemption, workspace.created_at,
       workspace.updated_at, workspace.version, workspace.idle_action, workspace.idle_threshold,
       workspace.idle_window_seconds, workspace.idle_grace_seconds, workspace.guaranteed_seconds
"""
SOURCE = """
FROM workspace
JOIN department ON department.id = workspace.department_id
JOIN cluster ON cluster.id = workspace.cluster_id
"""
BY_NAME = f"{SELECT} {SOURCE} WHERE workspace.name = :name"
BY_ID = f"{SELECT} {SOURCE} WHERE workspace.id = :id"
OF_CLUSTER = f"{SELECT} {SOURCE} WHERE workspace.cluster_id = :cluster_id ORDER BY workspace.id"
WITH_IDLE_POLICY = f"""
{SELECT} {SOURCE}
WHERE workspace.cluster_id = :cluster_id
  AND workspace.idle_action <> 'off'
"""
WORKSPACES_VERSION = """
SELECT COUNT(*), CAST(COALESCE(SUM(version), 0) AS BIGINT), COALESCE(MAX(id), 0)
FROM workspace
WHERE cluster_id = :cluster_id
"""
BY_NAMESPACE = """
SELECT name
FROM workspace
WHERE cluster_id = :cluster_id
  AND namespace = :namespace
"""
ADD = """
INSERT INTO workspace (id, name, description, department_id, cluster_id, namespace, gpu_milli, cpu_milli,
                       memory_bytes, queue_policy, preemption, created_at, updated_at, version,
                       idle_action, idle_threshold, idle_window_seconds, idle_grace_seconds, guaranteed_seconds)
VALUES (:id, :name, :description, :department_id, :cluster_id, :namespace, :gpu_milli, :cpu_milli,
        :memory_bytes, :queue_policy, :preemption, :created_at, :updated_at, :version,
        :idle_action, :idle_threshold, :idle_window_seconds, :idle_grace_seconds, :guaranteed_seconds)
"""
UPDATE = """
UPDATE workspace
SET description = :description, department_id = :department_id, gpu_milli = :gpu_milli, cpu_milli = :cpu_milli,
    memory_bytes = :memory_bytes, queue_policy = :queue_policy, preemption = :preemption,
    idle_action = :idle_action, idle_threshold = :idle_threshold, idle_window_seconds = :idle_window_seconds,
    idle_grace_seconds = :idle_grace_seconds, guaranteed_seconds = :guaranteed_seconds,
    updated_at = :updated_at, version = version + 1
WHERE id = :id
"""
DELETE = """
DELETE FROM workspace
WHERE id = :id
"""
SELECT_MEMBER = """
SELECT workspace_member.workspace_id, workspace_member.user_id, user_account.name, workspace_member.role,
    workspace_member.created_at
"""
MEMBER_SOURCE = "FROM workspace_member JOIN user_account ON user_account.id = workspace_member.user_id"
SET_MEMBER = """
INSERT INTO workspace_member (workspace_id, user_id, role, created_at)
VALUES (:workspace_id, :user_id, :role, :created_at)
ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = excluded.role
"""
REMOVE_MEMBER = """
DELETE FROM workspace_member
WHERE workspace_id = :workspace_id
  AND user_id = :user_id
"""
MEMBER_BY_USER = f"""
{SELECT_MEMBER}
{MEMBER_SOURCE}
WHERE workspace_member.workspace_id = :workspace_id
  AND workspace_member.user_id = :user_id
"""


def workspace_from_row(row: Row) -> Workspace:
    return Workspace(
        id=row[0],
        name=row[1],
        description=row[2],
        department_id=row[3],
        department=row[4],
        cluster_id=row[5],
        cluster=row[6],
        namespace=row[7],
        quota=Quota(row[8], row[9], row[10]),
        queue_policy=QueuePolicy(row[11]),
        preemption=bool(row[12]),
        created_at=row[13],
        updated_at=row[14],
        version=row[15],
        idle=IdlePolicy(IdleAction(row[16]), *row[17:20]),
        guaranteed_seconds=row[20],
    )


def find(transaction: Transaction, name: str) -> Workspace | None:
    row = transaction.fetch_one(BY_NAME, {"name": name})
    return workspace_from_row(row) if row else None


def get(transaction: Transaction, workspace_id: int) -> Workspace | None:
    row = transaction.fetch_one(BY_ID, {"id": workspace_id})
    return workspace_from_row(row) if row else None


def of_cluster(transaction: Transaction, cluster_id: str) -> list[Workspace]:
    return [workspace_from_row(row) for row in transaction.fetch_all(OF_CLUSTER, {"cluster_id": cluster_id})]


def with_idle_policy(transaction: Transaction, cluster_id: str) -> list[Workspace]:
    """The workspaces of a cluster with an idle policy other than off."""
    return [workspace_from_row(row) for row in transaction.fetch_all(WITH_IDLE_POLICY, {"cluster_id": cluster_id})]


def workspaces_version(transaction: Transaction, cluster_id: str) -> Row:
    """A value that changes whenever a workspace of the cluster is added, changed or deleted."""
    return transaction.fetch_one(WORKSPACES_VERSION, {"cluster_id": cluster_id}) or ()


def find_namespace_owner(transaction: Transaction, cluster_id: str, namespace: str) -> str | None:
    """The name of the workspace that uses this namespace of the cluster."""
    row = transaction.fetch_one(BY_NAMESPACE, {"cluster_id": cluster_id, "namespace": namespace})
    return row[0] if row else None


def find_by_namespace(transaction: Transaction, cluster_id: str, namespace: str) -> Workspace | None:
    """The workspace that uses this namespace of the cluster."""
    name = find_namespace_owner(transaction, cluster_id, namespace)
    return find(transaction, name) if name is not None else None


def list_workspaces(transaction: Transaction, query: WorkspaceQuery, page: PageRequest) -> PageResult[Workspace]:
    return fetch_page(
        transaction,
        workspace_from_row,
        select=SELECT,
        source=SOURCE,
        condition=where_clause(
            "workspace.name LIKE :text ESCAPE '!'" if query.text else None,
            "department.name = :department" if query.department else None,
            "(cluster.name = :cluster OR cluster.id = :cluster)" if query.cluster else None,
            "workspace.id IN (SELECT workspace_id FROM workspace_member WHERE user_id = :user_id)"
            if query.visible_to is not None
            else None,
        ),
        order="workspace.name",
        params={
            "text": like_substring(query.text),
            "department": query.department,
            "cluster": query.cluster,
            "user_id": query.visible_to,
        },
        page=page,
    )


def add(transaction: Transaction, workspace: Workspace) -> None:
    transaction.execute(ADD, _params(workspace))


def update(transaction: Transaction, workspace: Workspace) -> None:
    before = get(transaction, workspace.id)
    if before is not None and before.quota.gpu_milli != workspace.quota.gpu_milli:
        value_history.add_past_quota(transaction, before, workspace.updated_at)
    transaction.execute(UPDATE, _params(workspace))


def delete(transaction: Transaction, workspace_id: int, at: int) -> None:
    before = get(transaction, workspace_id)
    if before is not None:
        value_history.add_past_quota(transaction, before, at)
    transaction.execute(DELETE, {"id": workspace_id})


def list_members(
    transaction: Transaction, workspace_id: int, role: MemberRole | None, page: PageRequest
) -> PageResult[Membership]:
    return fetch_page(
        transaction,
        _membership_from_row,
        select=SELECT_MEMBER,
        source=MEMBER_SOURCE,
        condition=where_clause(
            "workspace_member.workspace_id = :workspace_id", "workspace_member.role = :role" if role else None
        ),
        order="user_account.name",
        params={"workspace_id": workspace_id, "role": role},
        page=page,
    )


def find_member(transaction: Transaction, workspace_id: int, user_id: str) -> Membership | None:
    row = transaction.fetch_one(MEMBER_BY_USER, {"workspace_id": workspace_id, "user_id": user_id})
    return _membership_from_row(row) if row else None


def set_member(transaction: Transaction, workspace_id: int, user_id: str, role: MemberRole, at: int) -> None:
    params = {"workspace_id": workspace_id, "user_id": user_id, "role": role, "created_at": at}
    transaction.execute(SET_MEMBER, params)


def remove_member(transaction: Transaction, workspace_id: int, user_id: str) -> bool:
    return transaction.execute(REMOVE_MEMBER, {"workspace_id": workspace_id, "user_id": user_id}) > 0


def _membership_from_row(row: Row) -> Membership:
    return Membership(row[0], row[1], row[2], MemberRole(row[3]), row[4])


def _params(workspace: Workspace) -> dict[str, object]:
    fields = structs.asdict(workspace)
    idle = {f"idle_{name}": value for name, value in structs.asdict(workspace.idle).items()}
    return {**fields, **structs.asdict(workspace.quota), **idle, "preemption": int(workspace.preemption)}
