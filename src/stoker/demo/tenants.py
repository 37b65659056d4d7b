"""The teams of the demo cluster: departments, workspaces with quota, and the people in them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.identity import (
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
from stoker.domain.names import Randomness, new_uuid
from stoker.domain.resources import MILLI
from stoker.server.demo import catalogue
from stoker.server.demo.catalogue import Work
from stoker.store import accounts, clusters, counters, departments, workspaces
from stoker.store.base import Transaction

DEMO = "demo"
ENGINE = "simulated"
LEAST_QUOTA = 16
Mix = Sequence[tuple[Work, float]]


class Team(Struct, frozen=True):
    """`share` is its part of the cluster's GPUs, its quota; 0 is none. The first of its people is its manager."""

    workspace: str
    department: str
    description: str
    share: float
    people: tuple[str, ...]
    works: Mix


class Member(Struct, frozen=True):
    id: str
    name: str


class World(Struct, frozen=True):
    """The demo as it is in the store."""

    cluster: Cluster
    workspaces: Mapping[str, Workspace]
    people: Mapping[str, Sequence[Member]]


TEAMS = (
    Team(
        "cluster-workspace",
        "platform",
        "Open to everyone, without quota.",
        0.0,
        ("zhang.san", "maria.rossi"),
        ((catalogue.EVALUATION, 0.3), (catalogue.LORA, 0.4), (catalogue.NOTEBOOK, 0.3)),
    ),
    Team(
        "foundation",
        "research",
        "Large language models from scratch.",
        0.40,
        ("li.jun", "anna.kowalska", "tom.okafor", "yuki.tanaka"),
        ((catalogue.PRETRAIN_7B, 0.45), (catalogue.PRETRAIN_70B, 0.2), (catalogue.TITAN_13B, 0.35)),
    ),
    Team(
        "assistant",
        "products",
        "Fine-tuning of the assistant.",
        0.13,
        ("wang.fang", "john.smith", "priya.nair"),
        ((catalogue.FINETUNE, 0.55), (catalogue.LORA, 0.3), (catalogue.EVALUATION, 0.15)),
    ),
    Team(
        "perception",
        "research",
        "Vision for robots.",
        0.11,
        ("chen.jie", "lena.fischer", "omar.haddad"),
        ((catalogue.VISION, 0.6), (catalogue.SWEEP, 0.25), (catalogue.NOTEBOOK, 0.15)),
    ),
    Team(
        "speech",
        "research",
        "Recognition and synthesis.",
        0.06,
        ("sofia.garcia", "liu.yang"),
        ((catalogue.SPEECH, 0.75), (catalogue.NOTEBOOK, 0.25)),
    ),
    Team(
        "serving",
        "products",
        "Models that users talk to.",
        0.14,
        ("zhao.lei", "emma.dubois", "noah.berg"),
        ((catalogue.CHAT_SERVICE, 0.5), (catalogue.EMBED_SERVICE, 0.35), (catalogue.CACHE_SERVICE, 0.15)),
    ),
)
BY_WORKSPACE = {team.workspace: team for team in TEAMS}


def found_world(transaction: Transaction, description: str, gpus: int, clock: Clock, randomness: Randomness) -> World:
    """The demo cluster and its teams, made where they have never been."""
    cluster = clusters.find(transaction, DEMO)
    if cluster is None:
        cluster = Cluster(new_uuid(randomness), DEMO, ENGINE, description, clock.now())
        clusters.add(transaction, cluster)
        for team in TEAMS:
            _found_team(transaction, team, cluster, gpus, clock.now(), randomness)
    elif cluster.description != description:
        raise StokerError(
            ErrorCode.STATE_FORBIDS,
            f'This data dir holds another demo ("{cluster.description}") than was asked for ("{description}").',
            hint="Start it with the flags it was made with, or with another --data-dir.",
        )
    found = {each.name: each for each in workspaces.of_cluster(transaction, cluster.id)}
    people = {team.workspace: _people(transaction, team) for team in TEAMS}
    return World(cluster, {name: each for name, each in found.items() if name in BY_WORKSPACE}, people)


def _found_team(
    transaction: Transaction, team: Team, cluster: Cluster, gpus: int, now: int, randomness: Randomness
) -> None:
    department = departments.find(transaction, team.department)
    if department is None:
        department = Department(counters.advance(transaction, "department"), team.department, "", now, now, 1)
        departments.add(transaction, department)
    quota = max(LEAST_QUOTA, round(gpus * team.share)) * MILLI if team.share else None
    workspace = Workspace(
        id=counters.advance(transaction, "workspace"),
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
    for place, name in enumerate(team.people):
        user = accounts.find(transaction, name) or _new_person(transaction, name, workspace, now, randomness)
        role = MemberRole.MANAGER if place == 0 else MemberRole.MEMBER
        workspaces.set_member(transaction, workspace.id, user.id, role, now)


def _new_person(transaction: Transaction, name: str, home: Workspace, now: int, randomness: Randomness) -> User:
    """Somebody who cannot sign in: there is no password."""
    user = User(
        id=new_uuid(randomness),
        name=name,
        kind=UserKind.PERSON,
        role=UserRole.USER,
        full_name=f"{' '.join(part.capitalize() for part in name.split('.'))} (simulated)",
        email=f"{name}@demo.invalid",
        disabled=False,
        default_workspace_id=home.id,
        default_workspace=home.name,
        created_at=now,
        updated_at=now,
        version=1,
    )
    accounts.add(transaction, user)
    return user


def _people(transaction: Transaction, team: Team) -> list[Member]:
    found = (accounts.find(transaction, name) for name in team.people)
    return [Member(user.id, user.name) for user in found if user is not None]
