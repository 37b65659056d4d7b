"""What the native family shows and takes: camelCase, RFC 3339 times, quantities as text."""

from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct

from stoker.api.params import Params
from stoker.domain.clock import rfc3339
from stoker.domain.identity import (
    ApiKey,
    Application,
    AuditRecord,
    Cluster,
    Department,
    MemberRole,
    Membership,
    QueuePolicy,
    Scope,
    User,
    UserKind,
    UserRole,
    Workspace,
)
from stoker.domain.idleness import IdleAction
from stoker.domain.listing import Listing, Window
from stoker.domain.quantity import show_bytes, show_milli

S = TypeVar("S")
T = TypeVar("T")

Offset = Annotated[int, Meta(ge=0, le=10_000_000, description="How many to leave out at the beginning.")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="How many to give at the most.")]
Text = Annotated[str, Meta(max_length=1000)]
ShortText = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=63)]
Id = Annotated[str, Meta(min_length=1, max_length=64)]
Search = Annotated[str, Meta(max_length=200, description="Part of the name, in any case.")]
Time = Annotated[str, Meta(description="RFC 3339, UTC.", examples=["2026-01-15T10:30:00.000Z"])]


class PageParams(Params, frozen=True, kw_only=True, rename="camel"):
    offset: Offset = 0
    limit: Limit = 100

    @property
    def window(self) -> Window:
        return Window(self.offset, self.limit)


class SearchParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    name: Search = ""


class Page(Struct, Generic[T], frozen=True):
    """Some of the items; `next` is the offset of the following page, null on the last."""

    items: list[T]
    total: int
    next: int | None


class UserView(Struct, frozen=True, rename="camel"):
    id: str
    name: str
    kind: UserKind
    role: UserRole
    full_name: str
    email: str
    disabled: bool
    default_workspace: str | None
    created_at: Time
    updated_at: Time


class DepartmentView(Struct, frozen=True, rename="camel"):
    id: int
    name: str
    description: str
    created_at: Time
    updated_at: Time


class QuotaView(Struct, frozen=True, rename="camel"):
    """Null is no limit."""

    gpu: str | None
    cpu: str | None
    memory: str | None


class IdlePolicyView(Struct, frozen=True, rename="camel"):
    """A threshold of null is the server's."""

    action: IdleAction
    threshold: float | None
    window_seconds: int
    grace_seconds: int


class WorkspaceView(Struct, frozen=True, rename="camel"):
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
    created_at: Time
    updated_at: Time


class MemberView(Struct, frozen=True, rename="camel"):
    user: str
    role: MemberRole
    since: Time


class KeyView(Struct, frozen=True, rename="camel"):
    id: str
    name: str
    user: str
    hint: str
    scopes: tuple[Scope, ...]
    cidrs: tuple[str, ...]
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    last_used_from: str


class ApplicationView(Struct, frozen=True, rename="camel"):
    client_id: str
    name: str
    role: UserRole
    description: str
    disabled: bool
    created_at: Time
    last_used_at: Time | None


class ClusterView(Struct, frozen=True, rename="camel"):
    id: str
    name: str
    engine: str
    description: str
    created_at: Time


class AuditView(Struct, frozen=True, rename="camel"):
    id: str
    at: Time
    actor: str
    credential: str
    address: str
    action: str
    target: str
    result: str
    detail: str
    trace_id: str


def paged(listing: Listing[S], window: Window, view: Callable[[S], T]) -> Page[T]:
    """The page of a list, each item as this family shows it."""
    following = window.offset + len(listing.items)
    more = bool(listing.items) and following < listing.total
    return Page([view(item) for item in listing.items], listing.total, following if more else None)


def moment(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)


def user_view(user: User) -> UserView:
    return UserView(
        user.id,
        user.name,
        user.kind,
        user.role,
        user.full_name,
        user.email,
        user.disabled,
        user.default_workspace,
        rfc3339(user.created_at),
        rfc3339(user.updated_at),
    )


def department_view(department: Department) -> DepartmentView:
    return DepartmentView(
        department.id,
        department.name,
        department.description,
        rfc3339(department.created_at),
        rfc3339(department.updated_at),
    )


def workspace_view(workspace: Workspace) -> WorkspaceView:
    quota = workspace.quota
    return WorkspaceView(
        workspace.id,
        workspace.name,
        workspace.description,
        workspace.department,
        workspace.cluster,
        workspace.namespace,
        QuotaView(
            None if quota.gpu_milli is None else show_milli(quota.gpu_milli),
            None if quota.cpu_milli is None else show_milli(quota.cpu_milli),
            None if quota.memory_bytes is None else show_bytes(quota.memory_bytes),
        ),
        workspace.queue_policy,
        workspace.preemption,
        IdlePolicyView(
            workspace.idle.action,
            workspace.idle.threshold,
            workspace.idle.window_seconds,
            workspace.idle.grace_seconds,
        ),
        workspace.guaranteed_seconds,
        rfc3339(workspace.created_at),
        rfc3339(workspace.updated_at),
    )


def member_view(membership: Membership) -> MemberView:
    return MemberView(membership.user, membership.role, rfc3339(membership.created_at))


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        key.id,
        key.name,
        key.user,
        key.hint,
        key.scopes,
        key.cidrs,
        rfc3339(key.created_at),
        moment(key.expires_at),
        moment(key.last_used_at),
        key.last_used_from,
    )


def application_view(application: Application) -> ApplicationView:
    return ApplicationView(
        application.client_id,
        application.name,
        application.role,
        application.description,
        application.disabled,
        rfc3339(application.created_at),
        moment(application.last_used_at),
    )


def cluster_view(cluster: Cluster) -> ClusterView:
    return ClusterView(cluster.id, cluster.name, cluster.engine, cluster.description, rfc3339(cluster.created_at))


def audit_view(record: AuditRecord) -> AuditView:
    return AuditView(
        record.id,
        rfc3339(record.at),
        record.actor,
        record.credential,
        record.address,
        record.action,
        record.target,
        record.result,
        record.detail,
        record.trace_id,
    )
