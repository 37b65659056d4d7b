"""Domain objects as the structs of the native API: RFC 3339 times, quantities as text."""

from collections.abc import Callable
from typing import TypeVar

from stoker.domain.access.identity import (
    ApiKey,
    Application,
    AuditRecord,
    Department,
    Membership,
    User,
    Workspace,
)
from stoker.domain.cluster.quantity import format_bytes, format_milli
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.wire.credentials import ApplicationView, KeyView
from stoker.wire.identity import DepartmentView, IdlePolicyView, MemberView, QuotaView, UserView, WorkspaceView
from stoker.wire.pages import PageView
from stoker.wire.system import AuditView
from stoker.wire.timestamps import to_optional_timestamp, to_timestamp

S = TypeVar("S")
T = TypeVar("T")


def to_page_view(result: PageResult[S], page: PageRequest, view: Callable[[S], T]) -> PageView[T]:
    """One page of a list, with `view` applied to each item."""
    end = page.offset + len(result.items)
    has_more = bool(result.items) and end < result.total
    return PageView(tuple(map(view, result.items)), result.total, end if has_more else None)


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
        to_timestamp(user.created_at),
        to_timestamp(user.updated_at),
    )


def department_view(department: Department) -> DepartmentView:
    return DepartmentView(
        department.id,
        department.name,
        department.description,
        to_timestamp(department.created_at),
        to_timestamp(department.updated_at),
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
            None if quota.gpu_milli is None else format_milli(quota.gpu_milli),
            None if quota.cpu_milli is None else format_milli(quota.cpu_milli),
            None if quota.memory_bytes is None else format_bytes(quota.memory_bytes),
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
        to_timestamp(workspace.created_at),
        to_timestamp(workspace.updated_at),
    )


def member_view(membership: Membership) -> MemberView:
    return MemberView(membership.user, membership.role, to_timestamp(membership.created_at))


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        key.id,
        key.name,
        key.user,
        key.hint,
        key.scopes,
        key.cidrs,
        to_timestamp(key.created_at),
        to_optional_timestamp(key.expires_at),
        to_optional_timestamp(key.last_used_at),
        key.last_used_from,
    )


def application_view(application: Application) -> ApplicationView:
    return ApplicationView(
        application.client_id,
        application.name,
        application.role,
        application.description,
        application.disabled,
        to_timestamp(application.created_at),
        to_optional_timestamp(application.last_used_at),
    )


def audit_view(record: AuditRecord) -> AuditView:
    return AuditView(
        record.id,
        to_timestamp(record.at),
        record.actor,
        record.credential,
        record.address,
        record.action,
        record.target,
        record.result,
        record.detail,
        record.trace_id,
    )
