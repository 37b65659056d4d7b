"""Pages of lists, and the queries of the lists that are filtered by a few fixed fields."""

from typing import Generic, TypeVar

from msgspec import Struct

from stoker.domain.access.identity import UserKind, UserRole

T = TypeVar("T")


class PageRequest(Struct, frozen=True):
    """The part of a list that a caller requests."""

    offset: int = 0
    limit: int = 100


class PageResult(Struct, Generic[T], frozen=True):
    """One page of a list, and the total over all pages."""

    items: list[T]
    total: int


class UserQuery(Struct, frozen=True):
    """`text` is a substring of the name, the full name or the e-mail address."""

    text: str = ""
    role: UserRole | None = None
    kind: UserKind | None = None
    disabled: bool | None = None


class WorkspaceQuery(Struct, frozen=True):
    """`visible_to` restricts the list to the workspaces of one user."""

    text: str = ""
    department: str = ""
    cluster: str = ""
    visible_to: str | None = None


class ApiKeyQuery(Struct, frozen=True):
    text: str = ""
    user_id: str | None = None


class AuditQuery(Struct, frozen=True):
    """`before` is the id of the last entry of the previous page."""

    actor: str = ""
    action: str = ""
    target: str = ""
    result: str = ""
    since: int | None = None
    until: int | None = None
    before: str = ""
    limit: int = 100
