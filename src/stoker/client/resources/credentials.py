"""API keys and applications."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET, UnsetType

from stoker.client.resources.operations import ApiResource, F, list_operation, operation
from stoker.domain.access.identity import MemberRole, Scope
from stoker.wire.credentials import ApplicationView, KeyView, NewApplicationView, NewKeyView


class KeysResource(ApiResource[F]):
    @list_operation("/keys")
    def list(self, *, name: str = "", user: str = "") -> KeyView:
        """The caller's API keys; for an admin those of all users or of one."""
        ...

    @operation("POST", "/keys", creates=True)
    def create(
        self,
        name: str,
        *,
        user: str = "",
        scopes: Sequence[Scope] = (),
        cidrs: Sequence[str] = (),
        expires_at: datetime | None = None,
    ) -> NewKeyView:
        """Create an API key. Without scopes it has no limit, without cidrs it works from anywhere, without
        expires_at it does not expire."""
        ...

    @operation("DELETE", "/keys/{key_id}")
    def delete(self, key_id: str) -> None:
        """Revoke an API key immediately."""
        ...


class ApplicationsResource(ApiResource[F]):
    @list_operation("/applications")
    def list(self, *, name: str = "") -> ApplicationView:
        """Applications, by name."""
        ...

    @operation("POST", "/applications", creates=True)
    def create(
        self,
        name: str,
        *,
        description: str = "",
        admin: bool = False,
        workspaces: Sequence[str] = (),
        workspace_role: MemberRole | UnsetType = UNSET,
    ) -> NewApplicationView:
        """Add an application that is a member of these workspaces, or an admin."""
        ...

    @operation("PATCH", "/applications/{client_id}")
    def edit(self, client_id: str, *, disabled: bool) -> ApplicationView:
        """Disable or enable an application. Its tokens are affected immediately."""
        ...

    @operation("POST", "/applications/{client_id}/secret", creates=True)
    def renew_secret(self, client_id: str) -> NewApplicationView:
        """Issue a new secret. The old one and all tokens become invalid."""
        ...

    @operation("DELETE", "/applications/{client_id}")
    def delete(self, client_id: str) -> None:
        """Remove an application."""
        ...
