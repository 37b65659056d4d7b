"""The audit log, and operations on the installation and the caller."""

from datetime import datetime

from stoker.client.resources.operations import ApiResource, F, list_operation, operation
from stoker.domain.access.permissions import Action
from stoker.wire.identity import LoggedIn, Me, PermissionView
from stoker.wire.system import AuditPage, AuditView, SettingsView


class AuditResource(ApiResource[F]):
    @list_operation("/audit", cursor="before", page=AuditPage)
    def list(
        self,
        *,
        actor: str = "",
        action: Action | None = None,
        target: str = "",
        result: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AuditView:
        """Audit records, newest first; `result` is `ok` or an error code."""
        ...


class RootResource(ApiResource[F]):
    """Operations on the installation as a whole, or on the caller."""

    @operation("POST", "/login", query={"token": "true"})
    def login(self, username: str, password: str) -> LoggedIn:
        """Sign in with a password. This client uses the token for all further requests."""
        ...

    @operation("POST", "/logout")
    def logout(self) -> None:
        """End the session of this client's token. An API key stays valid."""
        ...

    @operation("GET", "/me")
    def me(self) -> Me:
        """The caller, its workspaces and the scopes of its credential."""
        ...

    @operation("GET", "/may")
    def may(self, action: Action, *, workspace: str | None = None) -> PermissionView:
        """Whether the caller is allowed to perform an action, and the rule that decides it."""
        ...

    @operation("GET", "/settings")
    def settings(self) -> SettingsView:
        """The settings in force, and the server's version."""
        ...
