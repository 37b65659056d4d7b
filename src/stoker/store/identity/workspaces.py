"""Workspaces and who belongs to them."""

from msgspec import structs

from stoker.domain.identity import MemberRole, Membership, QueuePolicy, Quota, Workspace
from stoker.domain.idleness import IdleAction, IdlePolicy
from stoker.domain.listing import Listing, Window, WorkspaceQuery
from stoker.store.base import Row, Transaction
from stoker.store.listing import page, substring, where

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
WATCHED = f"""
{SELECT} {SOURCE}
WHERE workspace.cluster_id = :cluster_id
  AND workspace.idle_action <> 'off'
"""
STAND = """
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
REPLACE = """
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
SELECT_MEMBER = "SELECT member.workspace_id, member.user_id, account.name, member.role, member.created_at"
MEMBER_SOURCE = "FROM member JOIN account ON account.id = member.user_id"
SET_MEMBER = """
INSERT INTO member (workspace_id, user_id, role, created_at)
VALUES (:workspace_id, :user_id, :role, :created_at)
ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = excluded.role
"""
REMOVE_MEMBER = """
DELETE FROM member
WHERE workspace_id = :workspace_id
  AND user_id = :user_id
"""
ONE_MEMBER = f"{SELECT_MEMBER} {MEMBER_SOURCE} WHERE member.workspace_id = :workspace_id AND member.user_id = :user_id"


def build(row: Row) -> Workspace:
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
    row = transaction.one(BY_NAME, {"name": name})
    return build(row) if row else None


def get(transaction: Transaction, workspace_id: int) -> Workspace | None:
    row = transaction.one(BY_ID, {"id": workspace_id})
    return build(row) if row else None


def of_cluster(transaction: Transaction, cluster_id: str) -> list[Workspace]:
    return [build(row) for row in transaction.all(OF_CLUSTER, {"cluster_id": cluster_id})]


def watched(transaction: Transaction, cluster_id: str) -> list[Workspace]:
    """Those of a cluster that do something about idle GPUs."""
    return [build(row) for row in transaction.all(WATCHED, {"cluster_id": cluster_id})]


def stand(transaction: Transaction, cluster_id: str) -> Row:
    """Something that is different whenever a workspace of the cluster came, went or changed."""
    return transaction.one(STAND, {"cluster_id": cluster_id}) or ()


def namespace_holder(transaction: Transaction, cluster_id: str, namespace: str) -> str | None:
    """The workspace that has this namespace of this cluster."""
    row = transaction.one(BY_NAMESPACE, {"cluster_id": cluster_id, "namespace": namespace})
    return row[0] if row else None


def browse(transaction: Transaction, query: WorkspaceQuery, window: Window) -> Listing[Workspace]:
    return page(
        transaction,
        build,
        select=SELECT,
        source=SOURCE,
        condition=where(
            "workspace.name LIKE :text ESCAPE '!'" if query.text else None,
            "department.name = :department" if query.department else None,
            "(cluster.name = :cluster OR cluster.id = :cluster)" if query.cluster else None,
            "workspace.id IN (SELECT workspace_id FROM member WHERE user_id = :user_id)"
            if query.visible_to is not None
            else None,
        ),
        order="workspace.name",
        params={
            "text": substring(query.text),
            "department": query.department,
            "cluster": query.cluster,
            "user_id": query.visible_to,
        },
        window=window,
    )


def add(transaction: Transaction, workspace: Workspace) -> None:
    transaction.run(ADD, _params(workspace))


def replace(transaction: Transaction, workspace: Workspace) -> None:
    transaction.run(REPLACE, _params(workspace))


def delete(transaction: Transaction, workspace_id: int) -> None:
    transaction.run(DELETE, {"id": workspace_id})


def members(
    transaction: Transaction, workspace_id: int, role: MemberRole | None, window: Window
) -> Listing[Membership]:
    return page(
        transaction,
        _membership,
        select=SELECT_MEMBER,
        source=MEMBER_SOURCE,
        condition=where("member.workspace_id = :workspace_id", "member.role = :role" if role else None),
        order="account.name",
        params={"workspace_id": workspace_id, "role": role},
        window=window,
    )


def member(transaction: Transaction, workspace_id: int, user_id: str) -> Membership | None:
    row = transaction.one(ONE_MEMBER, {"workspace_id": workspace_id, "user_id": user_id})
    return _membership(row) if row else None


def set_member(transaction: Transaction, workspace_id: int, user_id: str, role: MemberRole, at: int) -> None:
    params = {"workspace_id": workspace_id, "user_id": user_id, "role": role, "created_at": at}
    transaction.run(SET_MEMBER, params)


def remove_member(transaction: Transaction, workspace_id: int, user_id: str) -> bool:
    return transaction.run(REMOVE_MEMBER, {"workspace_id": workspace_id, "user_id": user_id}) > 0


def _membership(row: Row) -> Membership:
    return Membership(row[0], row[1], row[2], MemberRole(row[3]), row[4])


def _params(workspace: Workspace) -> dict[str, object]:
    fields = structs.asdict(workspace)
    idle = {f"idle_{name}": value for name, value in structs.asdict(workspace.idle).items()}
    return {**fields, **structs.asdict(workspace.quota), **idle, "preemption": int(workspace.preemption)}
