"""Who there is: users, applications, departments, workspaces, clusters, and what proves who one is."""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.idleness import IdlePolicy


class UserKind(StrEnum):
    PERSON = "person"
    APPLICATION = "application"


class UserRole(StrEnum):
    """What a user is to the whole installation."""

    ADMIN = "admin"
    USER = "user"


class MemberRole(StrEnum):
    """What a user is in one workspace, from least to most."""

    VIEWER = "viewer"
    MEMBER = "member"
    MANAGER = "manager"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {MemberRole.VIEWER: 1, MemberRole.MEMBER: 2, MemberRole.MANAGER: 3}


class Scope(StrEnum):
    """What a credential may be limited to. No scopes at all means no limit."""

    READ = "read"
    WORKLOADS = "workloads"
    MANAGE = "manage"


class QueuePolicy(StrEnum):
    FIFO = "fifo"
    BALANCE = "balance"


class User(Struct, frozen=True):
    """A person, or an application that acts like one."""

    id: str
    name: str
    kind: UserKind
    role: UserRole
    full_name: str
    email: str
    disabled: bool
    default_workspace_id: int | None
    default_workspace: str | None
    created_at: int
    updated_at: int
    version: int


class Department(Struct, frozen=True):
    id: int
    name: str
    description: str
    created_at: int
    updated_at: int
    version: int


SIMULATED = "simulated"
"""The engine of a fleet that does not exist."""


class Cluster(Struct, frozen=True):
    """A place where workloads run: this machine, a Kubernetes cluster, a simulated fleet."""

    id: str
    name: str
    engine: str
    description: str
    created_at: int

    @property
    def simulated(self) -> bool:
        """Whether nothing of it is real."""
        return self.engine == SIMULATED


class Quota(Struct, frozen=True):
    """What a workspace is owed; None is no limit."""

    gpu_milli: int | None = None
    cpu_milli: int | None = None
    memory_bytes: int | None = None


class Workspace(Struct, frozen=True):
    """A team's project: where it runs, how much it is owed, and how its queue is served."""

    id: int
    name: str
    description: str
    department_id: int
    department: str
    cluster_id: str
    cluster: str
    namespace: str
    quota: Quota
    queue_policy: QueuePolicy
    preemption: bool
    created_at: int
    updated_at: int
    version: int
    idle: IdlePolicy = IdlePolicy()
    guaranteed_seconds: int = 0
    """How long a preemptible workload keeps its place before it may be preempted; 0 is no guarantee."""


class Membership(Struct, frozen=True):
    workspace_id: int
    user_id: str
    user: str
    role: MemberRole
    created_at: int


class ApiKey(Struct, frozen=True):
    """An API key as it can be shown; the secret itself is known only to its holder."""

    id: str
    user_id: str
    user: str
    name: str
    hint: str
    scopes: tuple[Scope, ...]
    cidrs: tuple[str, ...]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    last_used_from: str


class Application(Struct, frozen=True):
    """A program that signs in by client id and secret and acts as a user of its own."""

    client_id: str
    user_id: str
    name: str
    role: UserRole
    description: str
    disabled: bool
    created_at: int
    last_used_at: int | None


class Session(Struct, frozen=True):
    """One log-in of one person, in a browser or a terminal."""

    id: str
    user_id: str
    csrf_token: str
    created_at: int
    expires_at: int


class AuditRecord(Struct, frozen=True):
    """Who did what, from where, and how it ended."""

    id: str
    at: int
    actor_id: str
    actor: str
    credential: str
    address: str
    action: str
    target: str
    result: str
    detail: str
    trace_id: str
