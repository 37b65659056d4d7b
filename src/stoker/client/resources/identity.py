"""Every operation of the native API, each declared once. The server decides what is allowed."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET, UnsetType

from stoker.client.operation import F, Resource, listing, operation
from stoker.client.shapes import (
    Application,
    AuditRecord,
    Cluster,
    Delivery,
    Department,
    IdlePolicy,
    Key,
    LoggedIn,
    Me,
    Member,
    NewApplication,
    NewKey,
    NewWebhook,
    Quota,
    QuotaEdit,
    ServerSettings,
    User,
    Verdict,
    Webhook,
    Workspace,
)
from stoker.domain.identity import MemberRole, QueuePolicy, Scope, UserKind, UserRole
from stoker.domain.permissions import Action
from stoker.domain.webhooks import DeliveryState, EventType


class Users(Resource[F]):
    @listing("/users")
    def list(
        self,
        *,
        name: str = "",
        role: UserRole | None = None,
        kind: UserKind | None = None,
        disabled: bool | None = None,
    ) -> User:
        """Users and applications, by name; `name` is a part of the name, full name or e-mail address."""
        ...

    @operation("POST", "/users", creates=True)
    def create(
        self,
        name: str,
        *,
        password: str = "",
        role: UserRole = UserRole.USER,
        full_name: str = "",
        email: str = "",
        default_workspace: str = "",
    ) -> User:
        """Add a user; without a password it signs in by API key only."""
        ...

    @operation("GET", "/users/{name}")
    def get(self, name: str) -> User:
        """One user."""
        ...

    @operation("PATCH", "/users/{name}")
    def edit(
        self,
        name: str,
        *,
        role: UserRole | UnsetType = UNSET,
        full_name: str | UnsetType = UNSET,
        email: str | UnsetType = UNSET,
        disabled: bool | UnsetType = UNSET,
        default_workspace: str | UnsetType = UNSET,
    ) -> User:
        """Change what is given. A disabled user is signed out everywhere at once."""
        ...

    @operation("DELETE", "/users/{name}")
    def delete(self, name: str) -> None:
        """Remove a user with its keys, sessions and memberships."""
        ...

    @operation("PUT", "/users/{name}/password")
    def set_password(self, name: str, password: str, *, current_password: str = "") -> None:
        """Set a password and end the user's other sessions; who is not an admin gives the current one."""
        ...


class Departments(Resource[F]):
    @listing("/departments")
    def list(self, *, name: str = "") -> Department:
        """Departments, by name."""
        ...

    @operation("POST", "/departments", creates=True)
    def create(self, name: str, *, description: str = "") -> Department:
        """Add a department."""
        ...

    @operation("GET", "/departments/{name}")
    def get(self, name: str) -> Department:
        """One department."""
        ...

    @operation("PATCH", "/departments/{name}")
    def edit(self, name: str, *, description: str) -> Department:
        """Change its description."""
        ...

    @operation("DELETE", "/departments/{name}")
    def delete(self, name: str) -> None:
        """Remove a department that has no workspaces."""
        ...


class Workspaces(Resource[F]):
    @listing("/workspaces")
    def list(self, *, name: str = "", department: str = "", cluster: str = "") -> Workspace:
        """The workspaces the caller can see, by name."""
        ...

    @operation("POST", "/workspaces", creates=True)
    def create(
        self,
        name: str,
        *,
        description: str = "",
        department: str | UnsetType = UNSET,
        cluster: str = "",
        namespace: str = "",
        quota: Quota | UnsetType = UNSET,
        queue_policy: QueuePolicy | UnsetType = UNSET,
        preemption: bool | UnsetType = UNSET,
        idle_policy: IdlePolicy | UnsetType = UNSET,
        guaranteed_seconds: int | UnsetType = UNSET,
    ) -> Workspace:
        """Add a workspace."""
        ...

    @operation("GET", "/workspaces/{name}")
    def get(self, name: str) -> Workspace:
        """One workspace."""
        ...

    @operation("PATCH", "/workspaces/{name}")
    def edit(
        self,
        name: str,
        *,
        description: str | UnsetType = UNSET,
        queue_policy: QueuePolicy | UnsetType = UNSET,
        preemption: bool | UnsetType = UNSET,
        department: str | UnsetType = UNSET,
        quota: QuotaEdit | UnsetType = UNSET,
        idle_policy: IdlePolicy | UnsetType = UNSET,
        guaranteed_seconds: int | UnsetType = UNSET,
    ) -> Workspace:
        """Change what is given."""
        ...

    @operation("DELETE", "/workspaces/{name}")
    def delete(self, name: str) -> None:
        """Remove a workspace and its memberships."""
        ...


class Members(Resource[F]):
    @listing("/workspaces/{workspace}/members")
    def list(self, workspace: str, *, role: MemberRole | None = None) -> Member:
        """Who belongs to a workspace, by name."""
        ...

    @operation("PUT", "/workspaces/{workspace}/members/{user}")
    def set(self, workspace: str, user: str, *, role: MemberRole) -> Member:
        """Add a user to a workspace, or change its role there."""
        ...

    @operation("DELETE", "/workspaces/{workspace}/members/{user}")
    def remove(self, workspace: str, user: str) -> None:
        """Take a user out of a workspace."""
        ...


class Keys(Resource[F]):
    @listing("/keys")
    def list(self, *, name: str = "", user: str = "") -> Key:
        """One's own API keys; for an admin everyone's, or those of one user."""
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
    ) -> NewKey:
        """Make an API key. No scopes is no limit, no cidrs is everywhere, no expires_at is for ever."""
        ...

    @operation("DELETE", "/keys/{key_id}")
    def delete(self, key_id: str) -> None:
        """Revoke an API key, at once."""
        ...


class Applications(Resource[F]):
    @listing("/applications")
    def list(self, *, name: str = "") -> Application:
        """Applications, by name."""
        ...

    @operation("POST", "/applications", creates=True)
    def create(
        self,
        name: str,
        *,
        description: str = "",
        workspaces: Sequence[str] = (),
        workspace_role: MemberRole | UnsetType = UNSET,
    ) -> NewApplication:
        """Add an application. With workspaces it is a member of just those; without any it is an admin."""
        ...

    @operation("PATCH", "/applications/{client_id}")
    def edit(self, client_id: str, *, disabled: bool) -> Application:
        """Switch an application off or on; its tokens follow at once."""
        ...

    @operation("POST", "/applications/{client_id}/secret", creates=True)
    def renew_secret(self, client_id: str) -> NewApplication:
        """Give an application a new secret; the old one and its tokens stop working."""
        ...

    @operation("DELETE", "/applications/{client_id}")
    def delete(self, client_id: str) -> None:
        """Remove an application."""
        ...


class Webhooks(Resource[F]):
    @listing("/webhooks")
    def list(self, *, workspace: str = "") -> Webhook:
        """Webhooks of the workspaces that the caller manages; for an admin all."""
        ...

    @operation("POST", "/webhooks", creates=True)
    def create(
        self,
        url: str,
        *,
        description: str = "",
        workspace: str | None = None,
        events: Sequence[EventType] = (),
        secret: str | None = None,
    ) -> NewWebhook:
        """Add a webhook. Without a workspace it is for all of them, and for nodes; without events, for every one."""
        ...

    @operation("GET", "/webhooks/{webhook_id}")
    def get(self, webhook_id: str) -> Webhook:
        """One webhook."""
        ...

    @operation("PATCH", "/webhooks/{webhook_id}")
    def edit(
        self,
        webhook_id: str,
        *,
        url: str | UnsetType = UNSET,
        description: str | UnsetType = UNSET,
        events: Sequence[EventType] | UnsetType = UNSET,
        enabled: bool | UnsetType = UNSET,
    ) -> Webhook:
        """Change what is given. One that is disabled forgets what was on its way to it."""
        ...

    @operation("DELETE", "/webhooks/{webhook_id}")
    def delete(self, webhook_id: str) -> None:
        """Remove a webhook, with all that was sent to it."""
        ...

    @operation("POST", "/webhooks/{webhook_id}/secret", creates=True)
    def renew_secret(
        self, webhook_id: str, *, secret: str | None = None, keep_old_seconds: int | UnsetType = UNSET
    ) -> NewWebhook:
        """Give a webhook a new secret; for a while everything is signed with the old one too."""
        ...

    @operation("POST", "/webhooks/{webhook_id}/test", creates=True)
    def test(self, webhook_id: str) -> Delivery:
        """Send a test event; `deliveries` says what came of it."""
        ...

    @listing("/webhooks/{webhook_id}/deliveries")
    def deliveries(self, webhook_id: str, *, state: DeliveryState | UnsetType = UNSET) -> Delivery:
        """What was sent to a webhook and what came of it, or only what is in one state; newest first."""
        ...

    @operation("POST", "/webhooks/{webhook_id}/deliveries/{number}/retry")
    def retry(self, webhook_id: str, number: int) -> Delivery:
        """Send an event again, whatever came of it before."""
        ...


class Clusters(Resource[F]):
    @listing("/clusters")
    def list(self, *, name: str = "") -> Cluster:
        """Clusters, by name."""
        ...

    @operation("GET", "/clusters/{name}")
    def get(self, name: str) -> Cluster:
        """One cluster, by name or uuid."""
        ...


class Audit(Resource[F]):
    @listing("/audit", cursor="before")
    def list(
        self,
        *,
        actor: str = "",
        action: Action | None = None,
        target: str = "",
        result: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AuditRecord:
        """Who did what, newest first; `result` is `ok` or an error code."""
        ...


class Installation(Resource[F]):
    """What belongs to the installation as a whole, or to the caller."""

    @operation("POST", "/login")
    def login(self, username: str, password: str) -> LoggedIn:
        """Sign in with a password; this client uses the token from then on."""
        ...

    @operation("POST", "/logout")
    def logout(self) -> None:
        """End the session of this client's token. An API key keeps working."""
        ...

    @operation("GET", "/me")
    def me(self) -> Me:
        """The caller, its workspaces, and what its credential is limited to."""
        ...

    @operation("GET", "/may")
    def may(self, action: Action, *, workspace: str | None = None) -> Verdict:
        """Whether the caller may do something, and the rule that says so."""
        ...

    @operation("GET", "/settings")
    def settings(self) -> ServerSettings:
        """The settings in force, and the server's version."""
        ...
