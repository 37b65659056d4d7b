"""Sessions, users, departments, workspaces and their members."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from stoker.domain.access.identity import MemberRole, QueuePolicy, Scope, UserKind, UserRole
from stoker.domain.workload.idle import IdleAction
from stoker.wire.base import Name, RequestBody, SecretStruct, ShortText, Text, WireStruct
from stoker.wire.timestamps import Timestamp

Password = Annotated[str, Meta(max_length=256, description="10 to 256 characters.")]

QuotaCount = Annotated[str, Meta(max_length=64, description='A quantity such as "8" or "500m"; null is no limit.')]
QuotaMemory = Annotated[str, Meta(max_length=64, description='A quantity such as "256Gi"; null is no limit.')]
IdleThreshold = Annotated[
    float, Meta(ge=0, le=100, description="A GPU that is used no more than this is idle; null is the server's setting.")
]
IdleWindow = Annotated[
    int, Meta(ge=1, le=31_622_400, description="How long all its GPUs are idle before anything is done.")
]
IdleGrace = Annotated[
    int, Meta(ge=0, le=31_622_400, description="How long it stays idle after a warning before it is stopped.")
]
GuaranteedRuntime = Annotated[
    int,
    Meta(
        ge=0,
        le=2_592_000,
        description="How long a preemptible workload keeps its place before it may be preempted; 0 is no guarantee.",
    ),
]


class UserView(WireStruct, frozen=True):
    id: str
    name: str
    kind: UserKind
    role: UserRole
    full_name: str
    email: str
    disabled: bool
    default_workspace: str | None
    created_at: Timestamp
    updated_at: Timestamp


class CreateUser(RequestBody, frozen=True, kw_only=True):
    """Without a password the user can sign in only with an API key."""

    name: Name
    password: Password = ""
    role: UserRole = UserRole.USER
    full_name: ShortText = ""
    email: ShortText = ""
    default_workspace: ShortText = ""


class EditUser(RequestBody, frozen=True, kw_only=True):
    role: UserRole | UnsetType = UNSET
    full_name: ShortText | UnsetType = UNSET
    email: ShortText | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    default_workspace: ShortText | UnsetType = UNSET


class SetPassword(RequestBody, frozen=True, kw_only=True):
    """`currentPassword` is required unless the caller is an admin."""

    password: Password
    current_password: Annotated[str, Meta(max_length=256)] = ""


class LogInBody(RequestBody, frozen=True, kw_only=True):
    username: ShortText
    password: Annotated[str, Meta(max_length=256)]


class LoggedIn(SecretStruct, frozen=True):
    """`csrfToken` belongs to the session cookie: a browser sends it in X-CSRF-Token with every write.

    `accessToken` is set only if a token was requested. A browser session has none, so a script cannot leak it.
    """

    user: UserView
    access_token: str | None
    csrf_token: str | None
    expires_at: Timestamp


class WorkspaceRole(WireStruct, frozen=True):
    workspace: str
    role: MemberRole


class Me(WireStruct, frozen=True):
    """`csrfToken` is set for a browser session only; no scopes means no limit."""

    user: UserView
    workspaces: tuple[WorkspaceRole, ...]
    credential: str
    scopes: tuple[Scope, ...]
    csrf_token: str | None


class PermissionView(WireStruct, frozen=True):
    allowed: bool
    rule: str


class DepartmentView(WireStruct, frozen=True):
    id: int
    name: str
    description: str
    created_at: Timestamp
    updated_at: Timestamp


class CreateDepartment(RequestBody, frozen=True, kw_only=True):
    name: Name
    description: Text = ""


class EditDepartment(RequestBody, frozen=True, kw_only=True):
    description: Text


class QuotaView(WireStruct, frozen=True):
    """Null means no limit."""

    gpu: str | None
    cpu: str | None
    memory: str | None


class IdlePolicyView(WireStruct, frozen=True):
    """A threshold of null means the server's setting."""

    action: IdleAction
    threshold: float | None
    window_seconds: int
    grace_seconds: int


class WorkspaceView(WireStruct, frozen=True):
    id: int
    name: str
    description: str
    department: str
    cluster: str
    namespace: str
    quota: QuotaView
    queue_policy: QueuePolicy
    preemption: bool
    idle_policy: IdlePolicyView
    guaranteed_seconds: int
    created_at: Timestamp
    updated_at: Timestamp


class QuotaBody(RequestBody, frozen=True, kw_only=True):
    gpu: QuotaCount | None = None
    cpu: QuotaCount | None = None
    memory: QuotaMemory | None = None


class IdlePolicyBody(RequestBody, frozen=True, kw_only=True):
    """What happens to workloads whose GPUs are idle."""

    action: IdleAction = IdleAction.OFF
    threshold: IdleThreshold | None = None
    window_seconds: IdleWindow = 1800
    grace_seconds: IdleGrace = 900


class CreateWorkspace(RequestBody, frozen=True, kw_only=True):
    """The defaults are the department `default`, the default cluster and a namespace with the workspace's name."""

    name: Name
    description: Text = ""
    department: Name = "default"
    cluster: Annotated[str, Meta(max_length=63)] = ""
    namespace: Annotated[str, Meta(max_length=63)] = ""
    quota: QuotaBody = QuotaBody()
    queue_policy: QueuePolicy = QueuePolicy.FIFO
    preemption: bool = True
    idle_policy: IdlePolicyBody = IdlePolicyBody()
    guaranteed_seconds: GuaranteedRuntime = 0


class EditQuota(RequestBody, frozen=True, kw_only=True):
    gpu: QuotaCount | UnsetType | None = UNSET
    cpu: QuotaCount | UnsetType | None = UNSET
    memory: QuotaMemory | UnsetType | None = UNSET


class EditIdlePolicy(RequestBody, frozen=True, kw_only=True):
    action: IdleAction | UnsetType = UNSET
    threshold: IdleThreshold | UnsetType | None = UNSET
    window_seconds: IdleWindow | UnsetType = UNSET
    grace_seconds: IdleGrace | UnsetType = UNSET


class EditWorkspace(RequestBody, frozen=True, kw_only=True):
    """Only admins change quota, guarantee and department; managers of the workspace may change the rest."""

    description: Text | UnsetType = UNSET
    queue_policy: QueuePolicy | UnsetType = UNSET
    preemption: bool | UnsetType = UNSET
    department: Name | UnsetType = UNSET
    quota: EditQuota = EditQuota()
    idle_policy: EditIdlePolicy = EditIdlePolicy()
    guaranteed_seconds: GuaranteedRuntime | UnsetType = UNSET


class MemberView(WireStruct, frozen=True):
    user: str
    role: MemberRole
    since: Timestamp


class SetMember(RequestBody, frozen=True, kw_only=True):
    role: MemberRole
