"""Asking for a part of a list: which part, which items, and what comes back."""

from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from stoker.domain.identity import UserKind, UserRole
from stoker.domain.workload import Kind, Phase

T = TypeVar("T")


class Window(Struct, frozen=True):
    """Which part of a list is asked for."""

    offset: int = 0
    limit: int = 100


class Listing(Struct, Generic[T], frozen=True):
    """One part of a list, and how long the whole is."""

    items: list[T]
    total: int


class UserQuery(Struct, frozen=True):
    """`text` is a part of the name, the full name or the e-mail address."""

    text: str = ""
    role: UserRole | None = None
    kind: UserKind | None = None
    disabled: bool | None = None


class WorkspaceQuery(Struct, frozen=True):
    """`visible_to` limits the list to the workspaces of one user."""

    text: str = ""
    department: str = ""
    cluster: str = ""
    visible_to: str | None = None


class KeyQuery(Struct, frozen=True):
    text: str = ""
    user_id: str | None = None


class AuditQuery(Struct, frozen=True):
    """`before` is the id after which the next page begins."""

    actor: str = ""
    action: str = ""
    target: str = ""
    result: str = ""
    since: int | None = None
    until: int | None = None
    before: str = ""
    limit: int = 100


class WorkloadSort(StrEnum):
    SUBMITTED = "submitted_at"
    STARTED = "started_at"
    ENDED = "ended_at"
    PRIORITY = "priority"
    NAME = "name"
    PHASE = "phase"
    RUNTIME = "runtime"
    GPU = "gpu"


class WorkloadQuery(Struct, frozen=True, kw_only=True):
    """`workspace_ids` of None is every workspace; texts are substrings in any case; times are inclusive."""

    workspace_ids: tuple[int, ...] | None = None
    workspace: str = ""
    cluster: str = ""
    user_id: str = ""
    user_text: str = ""
    phases: tuple[Phase, ...] = ()
    kinds: tuple[Kind, ...] = ()
    description_text: str = ""
    slug_text: str = ""
    since: int | None = None
    until: int | None = None
    sort: WorkloadSort = WorkloadSort.SUBMITTED
    descending: bool = True


class PodFilter(Struct, frozen=True):
    """A field of a pod, one of `== != <= >= =@ !@ =^ =$`, and what it is compared with."""

    field: str
    operator: str
    value: str | int


class PodQuery(Struct, frozen=True, kw_only=True):
    """`workspace_ids` of None is every workspace; `ended` of None is whether they have or not; `deleted` asks for
    pods of workloads that are gone, and None for those of all."""

    workspace_ids: tuple[int, ...] | None = None
    workload_uid: str = ""
    deleted: bool | None = False
    ended: bool | None = None
    search: str = ""
    filters: tuple[PodFilter, ...] = ()
    sort: str = ""
    descending: bool = False
