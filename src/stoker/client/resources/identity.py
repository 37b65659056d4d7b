"""Users, departments, workspaces and their members."""

from msgspec import UNSET, UnsetType

from stoker.client.resources.operations import ApiResource, F, list_operation, operation
from stoker.domain.access.identity import MemberRole, QueuePolicy, UserKind, UserRole
from stoker.wire.identity import (
    DepartmentView,
    EditIdlePolicy,
    EditQuota,
    MemberView,
    QuotaBody,
    UserView,
    WorkspaceView,
)


class UsersResource(ApiResource[F]):
    @list_operation("/users")
    def list(
        self,
        *,
        name: str = "",
        role: UserRole | None = None,
        kind: UserKind | None = None,
        disabled: bool | None = None,
    ) -> UserView:
        """Users and applications by name; `name` is a part of the name, full name or e-mail address."""
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
    ) -> UserView:
        """Add a user. Without a password it can sign in only with an API key."""
        ...

    @operation("GET", "/users/{name}")
    def get(self, name: str) -> UserView:
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
    ) -> UserView:
        """Change the given fields. Disabling a user ends all its sessions immediately."""
        ...

    @operation("DELETE", "/users/{name}")
    def delete(self, name: str) -> None:
        """Remove a user with its keys, sessions and memberships."""
        ...

    @operation("PUT", "/users/{name}/password")
    def set_password(self, name: str, password: str, *, current_password: str = "") -> None:
        """Set a password and end the user's other sessions. Callers that are not admins give the current password."""
        ...


class DepartmentsResource(ApiResource[F]):
    @list_operation("/departments")
    def list(self, *, name: str = "") -> DepartmentView:
        """Departments, by name."""
        ...

    @operation("POST", "/departments", creates=True)
    def create(self, name: str, *, description: str = "") -> DepartmentView:
        """Add a department."""
        ...

    @operation("GET", "/departments/{name}")
    def get(self, name: str) -> DepartmentView:
        """One department."""
        ...

    @operation("PATCH", "/departments/{name}")
    def edit(self, name: str, *, description: str) -> DepartmentView:
        """Change its description."""
        ...

    @operation("DELETE", "/departments/{name}")
    def delete(self, name: str) -> None:
        """Remove a department that has no workspaces."""
        ...


class WorkspacesResource(ApiResource[F]):
    @list_operation("/workspaces")
    def list(self, *, name: str = "", department: str = "", cluster: str = "") -> WorkspaceView:
        """Workspaces that the caller can see, by name."""
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
        quota: QuotaBody | UnsetType = UNSET,
        queue_policy: QueuePolicy | UnsetType = UNSET,
        preemption: bool | UnsetType = UNSET,
        idle_policy: EditIdlePolicy | UnsetType = UNSET,
        guaranteed_seconds: int | UnsetType = UNSET,
    ) -> WorkspaceView:
        """Add a workspace."""
        ...

    @operation("GET", "/workspaces/{name}")
    def get(self, name: str) -> WorkspaceView:
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
        quota: EditQuota | UnsetType = UNSET,
        idle_policy: EditIdlePolicy | UnsetType = UNSET,
        guaranteed_seconds: int | UnsetType = UNSET,
    ) -> WorkspaceView:
        """Change the given fields."""
        ...

    @operation("DELETE", "/workspaces/{name}")
    def delete(self, name: str) -> None:
        """Remove a workspace and its memberships."""
        ...


class MembersResource(ApiResource[F]):
    @list_operation("/workspaces/{workspace}/members")
    def list(self, workspace: str, *, role: MemberRole | None = None) -> MemberView:
        """Members of a workspace, by name."""
        ...

    @operation("PUT", "/workspaces/{workspace}/members/{user}")
    def set(self, workspace: str, user: str, *, role: MemberRole) -> MemberView:
        """Add a user to a workspace, or change its role in it."""
        ...

    @operation("DELETE", "/workspaces/{workspace}/members/{user}")
    def remove(self, workspace: str, user: str) -> None:
        """Remove a user from a workspace."""
        ...
