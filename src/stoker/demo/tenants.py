"""The tenants of the demo cluster: departments, workspaces with quota, and their users."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from stoker.demo import templates as catalogue
from stoker.demo.templates import WorkloadTemplate
from stoker.domain.access.identity import (
    Cluster,
    Department,
    MemberRole,
    QueuePolicy,
    Quota,
    User,
    UserKind,
    UserRole,
    Workspace,
)
from stoker.domain.clock import Clock
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import RandomBytes, new_uuid4
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.identity import departments, workspaces
from stoker.store.identity import users as accounts
from stoker.store.sql import sequences

DEMO_CLUSTER = "demo"
ENGINE_NAME = "simulated"
EMAIL_DOMAIN = "@demo.invalid"
"""A domain that no real user has."""
MIN_QUOTA_GPUS = 16
TemplateWeights = Sequence[tuple[WorkloadTemplate, float]]


class Tenant(Struct, frozen=True):
    """A workspace; `share` is its quota as a fraction of the cluster's GPUs, 0 for none. The first user is its
    manager."""

    workspace: str
    department: str
    description: str
    share: float
    users: tuple[str, ...]
    templates: TemplateWeights


class TenantUser(Struct, frozen=True):
    id: str
    name: str


class DemoTenants(Struct, frozen=True):
    """The tenants as they are stored."""

    cluster: Cluster
    workspaces: Mapping[str, Workspace]
    users: Mapping[str, Sequence[TenantUser]]


TENANTS = (
    Tenant(
        "cluster-workspace",
        "platform",
        "Open to everyone, without quota.",
        0.0,
        ("zhang.san", "maria.rossi"),
        ((catalogue.EVALUATION, 0.3), (catalogue.LORA, 0.4), (catalogue.NOTEBOOK, 0.3)),
    ),
    Tenant(
        "foundation",
        "research",
        "Large language models from scratch.",
        0.40,
        ("li.jun", "anna.kowalska", "tom.okafor", "yuki.tanaka"),
        ((catalogue.PRETRAIN_7B, 0.45), (catalogue.PRETRAIN_70B, 0.2), (catalogue.TITAN_13B, 0.35)),
    ),
    Tenant(
        "assistant",
        "products",
        "Fine-tuning of the assistant.",
        0.13,
        ("wang.fang", "john.smith", "priya.nair"),
        ((catalogue.FINETUNE, 0.55), (catalogue.LORA, 0.3), (catalogue.EVALUATION, 0.15)),
    ),
    Tenant(
        "perception",
        "research",
        "Vision for robots.",
        0.11,
        ("chen.jie", "lena.fischer", "omar.haddad"),
        ((catalogue.VISION, 0.6), (catalogue.SWEEP, 0.25), (catalogue.NOTEBOOK, 0.15)),
    ),
    Tenant(
        "speech",
        "research",
        "Recognition and synthesis.",
        0.06,
        ("sofia.garcia", "liu.yang"),
        ((catalogue.SPEECH, 0.75), (catalogue.NOTEBOOK, 0.25)),
    ),
    Tenant(
        "serving",
        "products",
        "Models that users talk to.",
        0.14,
        ("zhao.lei", "emma.dubois", "noah.berg"),
        ((catalogue.CHAT_SERVICE, 0.5), (catalogue.EMBED_SERVICE, 0.35), (catalogue.CACHE_SERVICE, 0.15)),
    ),
)
TENANT_BY_WORKSPACE = {team.workspace: team for team in TENANTS}


def ensure_tenants(
    transaction: Transaction,
    description: str,
    gpus: int,
    clock: Clock,
    randomness: RandomBytes,
    config: str | None = None,
) -> DemoTenants:
    """Create the demo cluster and its tenants if they never existed."""
    cluster = clusters.find(transaction, DEMO_CLUSTER)
    if cluster is None:
        now = clock.now()
        cluster = Cluster(
            new_uuid4(randomness),
            DEMO_CLUSTER,
            ENGINE_NAME,
            description,
            created_at=now,
            updated_at=now,
            config=config or "{}",
            capabilities=SIMULATED_CAPABILITIES,
        )
        clusters.add(transaction, cluster)
        for team in TENANTS:
            _create_tenant(transaction, team, cluster, gpus, clock.now(), randomness)
    elif cluster.description != description:
        raise StokerError(
            ErrorCode.CONFLICT,
            f'This data dir contains another demo ("{cluster.description}") than the requested one ("{description}").',
            hint="Start it with the flags it was created with, or with another --data-dir.",
        )
    elif config is not None and cluster.config != config:
        cluster = structs.replace(cluster, config=config, updated_at=clock.now())
        clusters.update(transaction, cluster)
    found = {each.name: each for each in workspaces.of_cluster(transaction, cluster.id)}
    people = {team.workspace: _tenant_users(transaction, team) for team in TENANTS}
    return DemoTenants(cluster, {name: each for name, each in found.items() if name in TENANT_BY_WORKSPACE}, people)


def _create_tenant(
    transaction: Transaction, team: Tenant, cluster: Cluster, gpus: int, now: int, randomness: RandomBytes
) -> None:
    department = departments.find(transaction, team.department)
    if department is None:
        department = Department(sequences.next_value(transaction, "department"), team.department, "", now, now, 1)
        departments.add(transaction, department)
    quota = max(MIN_QUOTA_GPUS, round(gpus * team.share)) * MILLI if team.share else None
    workspace = Workspace(
        id=sequences.next_value(transaction, "workspace"),
        name=team.workspace,
        description=f"{team.description} Simulated.",
        department_id=department.id,
        department=department.name,
        cluster_id=cluster.id,
        cluster=cluster.name,
        namespace=team.workspace,
        quota=Quota(gpu_milli=quota),
        queue_policy=QueuePolicy.BALANCE,
        preemption=True,
        created_at=now,
        updated_at=now,
        version=1,
    )
    workspaces.add(transaction, workspace)
    for place, name in enumerate(team.users):
        user = accounts.find(transaction, name) or _create_user(transaction, name, workspace, now, randomness)
        role = MemberRole.MANAGER if place == 0 else MemberRole.MEMBER
        workspaces.set_member(transaction, workspace.id, user.id, role, now)


def _create_user(transaction: Transaction, name: str, home: Workspace, now: int, randomness: RandomBytes) -> User:
    """Create a user without a password, who cannot sign in."""
    user = User(
        id=new_uuid4(randomness),
        name=name,
        kind=UserKind.PERSON,
        role=UserRole.USER,
        full_name=f"{' '.join(part.capitalize() for part in name.split('.'))} (simulated)",
        email=f"{name}{EMAIL_DOMAIN}",
        disabled=False,
        default_workspace_id=home.id,
        default_workspace=home.name,
        created_at=now,
        updated_at=now,
        version=1,
    )
    accounts.add(transaction, user)
    return user


def _tenant_users(transaction: Transaction, team: Tenant) -> list[TenantUser]:
    found = (accounts.find(transaction, name) for name in team.users)
    return [TenantUser(user.id, user.name) for user in found if user is not None]
