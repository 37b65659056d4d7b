"""Users, applications, departments, workspaces, clusters, and the credentials of users."""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.cluster.capabilities import Capabilities
from stoker.domain.cluster.policy import ClusterPolicy, policy_from_config
from stoker.domain.workload.idle import IdlePolicy


class UserKind(StrEnum):
    PERSON = "person"
    APPLICATION = "application"


class UserRole(StrEnum):
    """The role of a user in the whole installation."""

    ADMIN = "admin"
    USER = "user"


class MemberRole(StrEnum):
    """The role of a user in one workspace, from least to most permissive."""

    VIEWER = "viewer"
    MEMBER = "member"
    MANAGER = "manager"

    @property
    def rank(self) -> int:
        return _RANK_BY_ROLE[self]


_RANK_BY_ROLE = {MemberRole.VIEWER: 1, MemberRole.MEMBER: 2, MemberRole.MANAGER: 3}


class Scope(StrEnum):
    """What a credential may be limited to. A credential without scopes is not limited."""

    READ = "read"
    WORKLOADS = "workloads"
    MANAGE = "manage"


class QueuePolicy(StrEnum):
    FIFO = "fifo"
    BALANCE = "balance"


class User(Struct, frozen=True):
    """A person, or the user that an application acts as."""

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


class Cluster(Struct, frozen=True):
    """Nodes that one engine runs workloads on: this machine, a Docker host, a simulated fleet.

    `config` is the JSON of the engine's settings. It has no secrets: the credential is stored apart from it.
    """

    id: str
    name: str
    engine: str
    description: str
    created_at: int
    updated_at: int = 0
    version: int = 1
    config: str = "{}"
    capabilities: Capabilities = Capabilities()
    unreachable_since: int | None = None
    """Since when the engine cannot be reached; None if it can."""
    unreachable_message: str = ""
    has_credential: bool = False

    @property
    def is_simulated(self) -> bool:
        return self.capabilities.simulated

    @property
    def policy(self) -> ClusterPolicy:
        return policy_from_config(self.config)


class Quota(Struct, frozen=True):
    """The resources a workspace is entitled to; None means no limit."""

    gpu_milli: int | None = None
    cpu_milli: int | None = None
    memory_bytes: int | None = None


class Workspace(Struct, frozen=True):
    """A team's project: its cluster, quota and scheduling policy."""

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
    """Guaranteed runtime of preemptible workloads; 0 means none."""


class Membership(Struct, frozen=True):
    workspace_id: int
    user_id: str
    user: str
    role: MemberRole
    created_at: int


class ApiKey(Struct, frozen=True):
    """An API key without its secret, which only its owner knows."""

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
    """A program that authenticates with a client ID and secret and acts as its own user."""

    client_id: str
    user_id: str
    name: str
    role: UserRole
    description: str
    disabled: bool
    created_at: int
    last_used_at: int | None


class Session(Struct, frozen=True):
    """One log-in of one person in a browser or a terminal."""

    id: str
    user_id: str
    csrf_token: str
    created_at: int
    expires_at: int


class AuditRecord(Struct, frozen=True):
    """Who did what, from which address, with which result."""

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
