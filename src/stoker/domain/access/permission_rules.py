"""Every action, and the access that it requires.

`RULES` has an entry for each action; `permissions` applies them.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from stoker.domain.access.identity import Scope


class AccessLevel(StrEnum):
    """The minimum role that an action requires of its caller."""

    ANYONE = "anyone"
    MONITOR = "monitor"
    SIGNED_IN = "signed in"
    VIEWER = "workspace viewer"
    MEMBER = "workspace member"
    MANAGER = "workspace manager"
    OWNING_MEMBER_OR_MANAGER = "owner inside the workspace"
    OWNER_OR_MANAGER = "owner or workspace manager"
    OWNER = "owner"
    ADMIN = "admin"


class AccessRule(Struct, frozen=True):
    level: AccessLevel
    scopes: frozenset[Scope]
    grants_unlimited_access: bool = False
    """Whether it grants access that has no network or time limit."""


_ANY_SCOPE = frozenset({Scope.READ, Scope.WORKLOADS, Scope.MANAGE})
_READ_OR_MANAGE = frozenset({Scope.READ, Scope.MANAGE})
_MANAGE = frozenset({Scope.MANAGE})
_WORKLOADS = frozenset({Scope.WORKLOADS})
_UNSCOPED_ONLY: frozenset[Scope] = frozenset()


class Action(StrEnum):
    """All actions, with their names in the audit log."""

    PUBLIC = "look-around"
    LOG_IN = "session.create"
    LOG_OUT = "session.delete"
    TOKEN_ISSUE = "token.issue"
    MONITOR = "monitor"
    PROFILE_READ = "profile.read"
    USER_LIST = "user.list"
    USER_READ = "user.read"
    USER_CREATE = "user.create"
    USER_UPDATE = "user.update"
    USER_DELETE = "user.delete"
    USER_ENABLE = "user.enable"
    USER_MAKE_ADMIN = "user.make-admin"
    USER_SET_PASSWORD = "user.password"
    DEPARTMENT_READ = "department.read"
    DEPARTMENT_CREATE = "department.create"
    DEPARTMENT_UPDATE = "department.update"
    DEPARTMENT_DELETE = "department.delete"
    WORKSPACE_LIST = "workspace.list"
    WORKSPACE_READ = "workspace.read"
    WORKSPACE_CREATE = "workspace.create"
    WORKSPACE_UPDATE = "workspace.update"
    WORKSPACE_SET_QUOTA = "workspace.grant"
    WORKSPACE_DELETE = "workspace.delete"
    MEMBER_LIST = "member.list"
    MEMBER_SET = "member.set"
    MEMBER_REMOVE = "member.remove"
    KEY_LIST = "key.list"
    KEY_CREATE = "key.create"
    KEY_DELETE = "key.delete"
    APPLICATION_LIST = "application.list"
    APPLICATION_CREATE = "application.create"
    APPLICATION_UPDATE = "application.update"
    APPLICATION_ENABLE = "application.enable"
    APPLICATION_SECRET = "application.secret"
    APPLICATION_DELETE = "application.delete"
    WEBHOOK_LIST = "webhook.list"
    WEBHOOK_READ = "webhook.read"
    WEBHOOK_CREATE = "webhook.create"
    WEBHOOK_UPDATE = "webhook.update"
    WEBHOOK_DELETE = "webhook.delete"
    WEBHOOK_TEST = "webhook.test"
    CLUSTER_READ = "cluster.read"
    CLUSTER_CREATE = "cluster.create"
    CLUSTER_UPDATE = "cluster.update"
    CLUSTER_DELETE = "cluster.delete"
    CLUSTER_CHECK = "cluster.check"
    AUDIT_READ = "audit.read"
    SETTINGS_READ = "settings.read"
    WORKLOAD_LIST = "workload.list"
    WORKLOAD_READ = "workload.read"
    WORKLOAD_READ_ENV = "workload.read-env"
    WORKLOAD_CREATE = "workload.create"
    WORKLOAD_UPDATE = "workload.update"
    WORKLOAD_SET_HIGH_PRIORITY = "workload.urge"
    WORKLOAD_STOP = "workload.stop"
    WORKLOAD_RESUME = "workload.resume"
    WORKLOAD_DELETE = "workload.delete"
    WORKLOAD_EXEC = "workload.exec"
    TRAINING_REPORT = "training.report"
    USAGE_READ = "usage.read"


RULES: Mapping[Action, AccessRule] = {
    Action.PUBLIC: AccessRule(AccessLevel.ANYONE, _ANY_SCOPE),
    Action.LOG_IN: AccessRule(AccessLevel.ANYONE, _UNSCOPED_ONLY),
    Action.TOKEN_ISSUE: AccessRule(AccessLevel.ANYONE, _UNSCOPED_ONLY),
    Action.LOG_OUT: AccessRule(AccessLevel.SIGNED_IN, _ANY_SCOPE),
    Action.MONITOR: AccessRule(AccessLevel.MONITOR, _ANY_SCOPE),
    Action.PROFILE_READ: AccessRule(AccessLevel.SIGNED_IN, _ANY_SCOPE),
    Action.USER_LIST: AccessRule(AccessLevel.ADMIN, _READ_OR_MANAGE),
    Action.USER_READ: AccessRule(AccessLevel.OWNER, _READ_OR_MANAGE),
    Action.USER_CREATE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.USER_UPDATE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.USER_DELETE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.USER_ENABLE: AccessRule(AccessLevel.ADMIN, _UNSCOPED_ONLY, grants_unlimited_access=True),
    Action.USER_MAKE_ADMIN: AccessRule(AccessLevel.ADMIN, _UNSCOPED_ONLY, grants_unlimited_access=True),
    Action.USER_SET_PASSWORD: AccessRule(AccessLevel.OWNER, _UNSCOPED_ONLY, grants_unlimited_access=True),
    Action.DEPARTMENT_READ: AccessRule(AccessLevel.SIGNED_IN, _ANY_SCOPE),
    Action.DEPARTMENT_CREATE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.DEPARTMENT_UPDATE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.DEPARTMENT_DELETE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.WORKSPACE_LIST: AccessRule(AccessLevel.SIGNED_IN, _ANY_SCOPE),
    Action.WORKSPACE_READ: AccessRule(AccessLevel.VIEWER, _ANY_SCOPE),
    Action.WORKSPACE_CREATE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.WORKSPACE_UPDATE: AccessRule(AccessLevel.MANAGER, _MANAGE),
    Action.WORKSPACE_SET_QUOTA: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.WORKSPACE_DELETE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.MEMBER_LIST: AccessRule(AccessLevel.VIEWER, _READ_OR_MANAGE),
    Action.MEMBER_SET: AccessRule(AccessLevel.MANAGER, _MANAGE, grants_unlimited_access=True),
    Action.MEMBER_REMOVE: AccessRule(AccessLevel.MANAGER, _MANAGE),
    Action.KEY_LIST: AccessRule(AccessLevel.OWNER, _READ_OR_MANAGE),
    Action.KEY_CREATE: AccessRule(AccessLevel.OWNER, _UNSCOPED_ONLY),
    Action.KEY_DELETE: AccessRule(AccessLevel.OWNER, _MANAGE),
    Action.APPLICATION_LIST: AccessRule(AccessLevel.ADMIN, _READ_OR_MANAGE),
    Action.APPLICATION_CREATE: AccessRule(AccessLevel.ADMIN, _UNSCOPED_ONLY, grants_unlimited_access=True),
    Action.APPLICATION_UPDATE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.APPLICATION_ENABLE: AccessRule(AccessLevel.ADMIN, _UNSCOPED_ONLY, grants_unlimited_access=True),
    Action.APPLICATION_SECRET: AccessRule(AccessLevel.ADMIN, _UNSCOPED_ONLY, grants_unlimited_access=True),
    Action.APPLICATION_DELETE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.WEBHOOK_LIST: AccessRule(AccessLevel.SIGNED_IN, _READ_OR_MANAGE),
    Action.WEBHOOK_READ: AccessRule(AccessLevel.MANAGER, _READ_OR_MANAGE),
    Action.WEBHOOK_CREATE: AccessRule(AccessLevel.MANAGER, _MANAGE),
    Action.WEBHOOK_UPDATE: AccessRule(AccessLevel.MANAGER, _MANAGE),
    Action.WEBHOOK_DELETE: AccessRule(AccessLevel.MANAGER, _MANAGE),
    Action.WEBHOOK_TEST: AccessRule(AccessLevel.MANAGER, _MANAGE),
    Action.CLUSTER_READ: AccessRule(AccessLevel.SIGNED_IN, _ANY_SCOPE),
    Action.CLUSTER_CREATE: AccessRule(AccessLevel.ADMIN, _UNSCOPED_ONLY),
    Action.CLUSTER_UPDATE: AccessRule(AccessLevel.ADMIN, _UNSCOPED_ONLY),
    Action.CLUSTER_DELETE: AccessRule(AccessLevel.ADMIN, _MANAGE),
    Action.CLUSTER_CHECK: AccessRule(AccessLevel.ADMIN, _READ_OR_MANAGE),
    Action.AUDIT_READ: AccessRule(AccessLevel.ADMIN, _READ_OR_MANAGE),
    Action.SETTINGS_READ: AccessRule(AccessLevel.ADMIN, _READ_OR_MANAGE),
    Action.WORKLOAD_LIST: AccessRule(AccessLevel.SIGNED_IN, _ANY_SCOPE),
    Action.WORKLOAD_READ: AccessRule(AccessLevel.VIEWER, _ANY_SCOPE),
    Action.WORKLOAD_READ_ENV: AccessRule(AccessLevel.OWNER_OR_MANAGER, _ANY_SCOPE),
    Action.WORKLOAD_CREATE: AccessRule(AccessLevel.MEMBER, _WORKLOADS),
    Action.WORKLOAD_UPDATE: AccessRule(AccessLevel.OWNING_MEMBER_OR_MANAGER, _WORKLOADS),
    Action.WORKLOAD_SET_HIGH_PRIORITY: AccessRule(AccessLevel.MANAGER, _WORKLOADS),
    Action.WORKLOAD_STOP: AccessRule(AccessLevel.OWNING_MEMBER_OR_MANAGER, _WORKLOADS),
    Action.WORKLOAD_RESUME: AccessRule(AccessLevel.OWNING_MEMBER_OR_MANAGER, _WORKLOADS),
    Action.WORKLOAD_DELETE: AccessRule(AccessLevel.OWNING_MEMBER_OR_MANAGER, _WORKLOADS),
    Action.WORKLOAD_EXEC: AccessRule(AccessLevel.OWNING_MEMBER_OR_MANAGER, _WORKLOADS),
    Action.TRAINING_REPORT: AccessRule(AccessLevel.OWNING_MEMBER_OR_MANAGER, _WORKLOADS),
    Action.USAGE_READ: AccessRule(AccessLevel.SIGNED_IN, _ANY_SCOPE),
}
