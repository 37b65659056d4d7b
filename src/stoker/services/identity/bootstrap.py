"""The objects that a new installation is created with. They are created once: a deleted one is not created again."""

from stoker.domain.access.identity import Cluster, Department, QueuePolicy, Quota, User, UserKind, UserRole, Workspace
from stoker.domain.cluster.capabilities import LOCAL_CAPABILITIES
from stoker.domain.names import new_uuid4
from stoker.services.context import Context
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.identity import departments, users, workspaces
from stoker.store.sql import sequences

ADMIN_USER = "admin"
DEFAULT_NAME = "default"
LOCAL_CLUSTER = "local"


async def bootstrap_installation(context: Context) -> None:
    """Create user `admin`, department and workspace `default` and cluster `local` at the first start."""
    await context.store.write(lambda tx: _create_defaults(context, tx))


def _create_defaults(context: Context, transaction: Transaction) -> None:
    if sequences.next_value(transaction, "start") > 1:
        return
    now = context.clock.now()
    cluster = Cluster(
        new_uuid4(context.randomness),
        LOCAL_CLUSTER,
        LOCAL_CLUSTER,
        "This machine.",
        created_at=now,
        updated_at=now,
        capabilities=LOCAL_CAPABILITIES,
    )
    clusters.add(transaction, cluster)
    department = Department(sequences.next_value(transaction, "department"), DEFAULT_NAME, "", now, now, 1)
    departments.add(transaction, department)
    workspace = Workspace(
        id=sequences.next_value(transaction, "workspace"),
        name=DEFAULT_NAME,
        description="",
        department_id=department.id,
        department=department.name,
        cluster_id=cluster.id,
        cluster=cluster.name,
        namespace=DEFAULT_NAME,
        quota=Quota(),
        queue_policy=QueuePolicy.FIFO,
        preemption=True,
        created_at=now,
        updated_at=now,
        version=1,
    )
    workspaces.add(transaction, workspace)
    users.add(
        transaction,
        User(
            id=new_uuid4(context.randomness),
            name=ADMIN_USER,
            kind=UserKind.PERSON,
            role=UserRole.ADMIN,
            full_name="",
            email="",
            disabled=False,
            default_workspace_id=workspace.id,
            default_workspace=workspace.name,
            created_at=now,
            updated_at=now,
            version=1,
        ),
    )
