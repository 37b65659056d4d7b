"""What the server answers, as frozen structs. Their JSON is the API's own shape."""

from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType

from stoker.domain.identity import MemberRole, QueuePolicy, Scope, UserKind, UserRole
from stoker.domain.idleness import IdleAction
from stoker.domain.webhooks import DeliveryState, EventType

T = TypeVar("T")


class Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of every shape; a field this client does not know yet is left out."""


class Confidential(Shape, frozen=True):
    """Holds a secret, so a log line or a traceback shows only that it is there."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Page(Struct, Generic[T], frozen=True):
    """One part of a list, and where the next one begins."""

    items: tuple[T, ...]
    next: int | str | None
    total: int | None = None

    def after(self, begin: str) -> int | str | None:
        return self.next


class CountedPage(Struct, Generic[T], frozen=True, rename="camel"):
    """One part of a list that says how much there is in all."""

    total_count: int
    items: tuple[T, ...]

    @property
    def total(self) -> int:
        return self.total_count

    def after(self, begin: str) -> int | None:
        """Where the next one begins, when this one began there."""
        shown = int(begin) + len(self.items)
        return shown if self.items and shown < self.total_count else None


class User(Shape, frozen=True):
    id: str
    name: str
    kind: UserKind
    role: UserRole
    full_name: str
    email: str
    disabled: bool
    default_workspace: str | None
    created_at: datetime
    updated_at: datetime


class Department(Shape, frozen=True):
    id: int
    name: str
    description: str
    created_at: datetime
    updated_at: datetime


class Quota(Shape, frozen=True):
    """Quantities such as "8", "500m" or "256Gi"; None is no limit."""

    gpu: str | None = None
    cpu: str | None = None
    memory: str | None = None


class QuotaEdit(Shape, frozen=True):
    """What is left out stays as it is; None takes the limit away."""

    gpu: str | UnsetType | None = UNSET
    cpu: str | UnsetType | None = UNSET
    memory: str | UnsetType | None = UNSET


class IdlePolicy(Shape, frozen=True):
    """What is done about workloads whose GPUs nobody uses; a threshold of None is the server's."""

    action: IdleAction | UnsetType = UNSET
    threshold: float | UnsetType | None = UNSET
    window_seconds: int | UnsetType = UNSET
    grace_seconds: int | UnsetType = UNSET


class Workspace(Shape, frozen=True):
    id: int
    name: str
    description: str
    department: str
    cluster: str
    namespace: str
    quota: Quota
    queue_policy: QueuePolicy
    preemption: bool
    idle_policy: IdlePolicy
    created_at: datetime
    updated_at: datetime
    guaranteed_seconds: int = 0


class Member(Shape, frozen=True):
    user: str
    role: MemberRole
    since: datetime


class Key(Shape, frozen=True):
    id: str
    name: str
    user: str
    hint: str
    scopes: tuple[Scope, ...]
    cidrs: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    last_used_from: str


class NewKey(Confidential, frozen=True):
    """The only time the secret is seen."""

    key: Key
    secret: str


class Application(Shape, frozen=True):
    client_id: str
    name: str
    role: UserRole
    description: str
    disabled: bool
    created_at: datetime
    last_used_at: datetime | None


class NewApplication(Confidential, frozen=True):
    """The only time the secret is seen."""

    application: Application
    client_id: str
    client_secret: str


class Webhook(Shape, frozen=True):
    """Without a workspace it is for events of all of them, and of nodes; without events, for every one."""

    id: str
    url: str
    description: str
    workspace: str | None
    events: tuple[EventType, ...]
    enabled: bool
    disabled_because: str
    created_at: datetime
    updated_at: datetime


class NewWebhook(Confidential, frozen=True):
    """The only time the secret is seen."""

    webhook: Webhook
    secret: str


class Delivery(Shape, frozen=True):
    """One event on its way to one webhook; `status` is what the receiver last answered."""

    number: int
    event_id: str
    event: EventType
    at: datetime
    state: DeliveryState
    tries: int
    next_try_at: datetime | None
    tried_at: datetime | None
    status: int | None
    error: str


class Cluster(Shape, frozen=True):
    id: str
    name: str
    engine: str
    description: str
    created_at: datetime


class AuditRecord(Shape, frozen=True):
    id: str
    at: datetime
    actor: str
    credential: str
    address: str
    action: str
    target: str
    result: str
    detail: str
    trace_id: str


class LoggedIn(Confidential, frozen=True):
    user: User
    access_token: str
    csrf_token: str
    expires_at: datetime


class WorkspaceRole(Shape, frozen=True):
    workspace: str
    role: MemberRole


class Me(Shape, frozen=True):
    """No scopes means no limit."""

    user: User
    workspaces: tuple[WorkspaceRole, ...]
    credential: str
    scopes: tuple[Scope, ...]
    csrf_token: str | None


class Verdict(Shape, frozen=True):
    allowed: bool
    rule: str


class Setting(Shape, frozen=True):
    name: str
    value: Any
    description: str


class ServerSettings(Shape, frozen=True):
    version: str
    settings: tuple[Setting, ...]
