"""May A do X on Y, and which rule says so. Everything that is allowed anywhere is allowed here."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from stoker.domain.identity import MemberRole, Scope, UserKind


class Actor(Struct, frozen=True):
    """Who is calling, through which credential, and from where."""

    user_id: str
    name: str
    kind: UserKind
    admin: bool
    memberships: Mapping[int, MemberRole]
    default_workspace_id: int | None = None
    scopes: frozenset[Scope] = frozenset()
    cidrs: tuple[str, ...] = ()
    expires_at: int | None = None
    """When the API key that is used ends, if one is and it does."""
    credential: str = ""
    session_id: str = ""
    pod_uid: str = ""
    """Set for the credential of a pod, which is for one thing only."""
    address: str = ""
    trace_id: str = ""


class Who(StrEnum):
    """The least that an action asks of its caller."""

    ANYONE = "anyone"
    MONITOR = "monitor"
    SIGNED_IN = "signed in"
    VIEWER = "workspace viewer"
    MEMBER = "workspace member"
    MANAGER = "workspace manager"
    KEEPER = "owner inside the workspace"
    OWNER = "owner"
    ADMIN = "admin"


class Rule(Struct, frozen=True):
    who: Who
    scopes: frozenset[Scope]


class Target(Struct, frozen=True):
    """What an action is done to: something inside a workspace, or something a user owns."""

    workspace_id: int | None = None
    owner_id: str | None = None


NOTHING = Target()

_READ = frozenset({Scope.READ, Scope.WORKLOADS, Scope.MANAGE})
_LOOK = frozenset({Scope.READ, Scope.MANAGE})
_MANAGE = frozenset({Scope.MANAGE})
_WORKLOADS = frozenset({Scope.WORKLOADS})
_UNLIMITED: frozenset[Scope] = frozenset()


class Action(StrEnum):
    """Everything that can be done, as the audit log writes it."""

    LOOK_AROUND = "look-around"
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
    ADMIN_MAKE = "user.make-admin"
    PASSWORD_SET = "user.password"
    DEPARTMENT_READ = "department.read"
    DEPARTMENT_CREATE = "department.create"
    DEPARTMENT_UPDATE = "department.update"
    DEPARTMENT_DELETE = "department.delete"
    WORKSPACE_LIST = "workspace.list"
    WORKSPACE_READ = "workspace.read"
    WORKSPACE_CREATE = "workspace.create"
    WORKSPACE_UPDATE = "workspace.update"
    WORKSPACE_GRANT = "workspace.grant"
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
    APPLICATION_DELETE = "application.delete"
    WEBHOOK_LIST = "webhook.list"
    WEBHOOK_READ = "webhook.read"
    WEBHOOK_CREATE = "webhook.create"
    WEBHOOK_UPDATE = "webhook.update"
    WEBHOOK_DELETE = "webhook.delete"
    WEBHOOK_TEST = "webhook.test"
    CLUSTER_READ = "cluster.read"
    AUDIT_READ = "audit.read"
    SETTINGS_READ = "settings.read"
    WORKLOAD_LIST = "workload.list"
    WORKLOAD_READ = "workload.read"
    WORKLOAD_CREATE = "workload.create"
    WORKLOAD_UPDATE = "workload.update"
    WORKLOAD_URGE = "workload.urge"
    WORKLOAD_STOP = "workload.stop"
    WORKLOAD_RESUME = "workload.resume"
    WORKLOAD_DELETE = "workload.delete"
    WORKLOAD_EXEC = "workload.exec"
    TRAINING_REPORT = "training.report"
    USAGE_READ = "usage.read"


RULES: Mapping[Action, Rule] = {
    Action.LOOK_AROUND: Rule(Who.ANYONE, _READ),
    Action.LOG_IN: Rule(Who.ANYONE, _UNLIMITED),
    Action.TOKEN_ISSUE: Rule(Who.ANYONE, _UNLIMITED),
    Action.LOG_OUT: Rule(Who.SIGNED_IN, _READ),
    Action.MONITOR: Rule(Who.MONITOR, _READ),
    Action.PROFILE_READ: Rule(Who.SIGNED_IN, _READ),
    Action.USER_LIST: Rule(Who.ADMIN, _LOOK),
    Action.USER_READ: Rule(Who.OWNER, _LOOK),
    Action.USER_CREATE: Rule(Who.ADMIN, _MANAGE),
    Action.USER_UPDATE: Rule(Who.ADMIN, _MANAGE),
    Action.USER_DELETE: Rule(Who.ADMIN, _MANAGE),
    Action.ADMIN_MAKE: Rule(Who.ADMIN, _UNLIMITED),
    Action.PASSWORD_SET: Rule(Who.OWNER, _UNLIMITED),
    Action.DEPARTMENT_READ: Rule(Who.SIGNED_IN, _READ),
    Action.DEPARTMENT_CREATE: Rule(Who.ADMIN, _MANAGE),
    Action.DEPARTMENT_UPDATE: Rule(Who.ADMIN, _MANAGE),
    Action.DEPARTMENT_DELETE: Rule(Who.ADMIN, _MANAGE),
    Action.WORKSPACE_LIST: Rule(Who.SIGNED_IN, _READ),
    Action.WORKSPACE_READ: Rule(Who.VIEWER, _READ),
    Action.WORKSPACE_CREATE: Rule(Who.ADMIN, _MANAGE),
    Action.WORKSPACE_UPDATE: Rule(Who.MANAGER, _MANAGE),
    Action.WORKSPACE_GRANT: Rule(Who.ADMIN, _MANAGE),
    Action.WORKSPACE_DELETE: Rule(Who.ADMIN, _MANAGE),
    Action.MEMBER_LIST: Rule(Who.VIEWER, _LOOK),
    Action.MEMBER_SET: Rule(Who.MANAGER, _MANAGE),
    Action.MEMBER_REMOVE: Rule(Who.MANAGER, _MANAGE),
    Action.KEY_LIST: Rule(Who.OWNER, _LOOK),
    Action.KEY_CREATE: Rule(Who.OWNER, _UNLIMITED),
    Action.KEY_DELETE: Rule(Who.OWNER, _MANAGE),
    Action.APPLICATION_LIST: Rule(Who.ADMIN, _LOOK),
    Action.APPLICATION_CREATE: Rule(Who.ADMIN, _MANAGE),
    Action.APPLICATION_UPDATE: Rule(Who.ADMIN, _MANAGE),
    Action.APPLICATION_DELETE: Rule(Who.ADMIN, _MANAGE),
    Action.WEBHOOK_LIST: Rule(Who.SIGNED_IN, _LOOK),
    Action.WEBHOOK_READ: Rule(Who.MANAGER, _LOOK),
    Action.WEBHOOK_CREATE: Rule(Who.MANAGER, _MANAGE),
    Action.WEBHOOK_UPDATE: Rule(Who.MANAGER, _MANAGE),
    Action.WEBHOOK_DELETE: Rule(Who.MANAGER, _MANAGE),
    Action.WEBHOOK_TEST: Rule(Who.MANAGER, _MANAGE),
    Action.CLUSTER_READ: Rule(Who.SIGNED_IN, _READ),
    Action.AUDIT_READ: Rule(Who.ADMIN, _LOOK),
    Action.SETTINGS_READ: Rule(Who.ADMIN, _LOOK),
    Action.WORKLOAD_LIST: Rule(Who.SIGNED_IN, _READ),
    Action.WORKLOAD_READ: Rule(Who.VIEWER, _READ),
    Action.WORKLOAD_CREATE: Rule(Who.MEMBER, _WORKLOADS),
    Action.WORKLOAD_UPDATE: Rule(Who.KEEPER, _WORKLOADS),
    Action.WORKLOAD_URGE: Rule(Who.MANAGER, _WORKLOADS),
    Action.WORKLOAD_STOP: Rule(Who.KEEPER, _WORKLOADS),
    Action.WORKLOAD_RESUME: Rule(Who.KEEPER, _WORKLOADS),
    Action.WORKLOAD_DELETE: Rule(Who.KEEPER, _WORKLOADS),
    Action.WORKLOAD_EXEC: Rule(Who.KEEPER, _WORKLOADS),
    Action.TRAINING_REPORT: Rule(Who.KEEPER, _WORKLOADS),
    Action.USAGE_READ: Rule(Who.SIGNED_IN, _READ),
}

_LEAST = {Who.VIEWER: MemberRole.VIEWER, Who.MEMBER: MemberRole.MEMBER, Who.MANAGER: MemberRole.MANAGER}


class Verdict(Struct, frozen=True):
    allowed: bool
    rule: str


def may(actor: Actor | None, action: Action, target: Target = NOTHING) -> Verdict:
    """Whether the actor may do this to that, and the sentence that says why."""
    rule = RULES[action]
    if rule.who is Who.ANYONE:
        return Verdict(True, f"{action} is open to anyone")
    if actor is None:
        return Verdict(False, f"{action} needs a credential")
    if actor.pod_uid:
        return Verdict(action is Action.TRAINING_REPORT, "the credential of a pod is only for its own training metrics")
    if actor.scopes and not actor.scopes & rule.scopes:
        held = ", ".join(sorted(actor.scopes))
        if not rule.scopes:
            return Verdict(False, f"{action} needs a credential without scopes; this one has {held}")
        wanted = " or ".join(sorted(rule.scopes))
        return Verdict(False, f"{action} needs the scope {wanted}; this credential has {held}")
    if actor.admin:
        return Verdict(True, "an admin may do everything")
    match rule.who:
        case Who.MONITOR | Who.SIGNED_IN:
            return Verdict(True, f"{action} is open to every signed-in user")
        case Who.OWNER:
            if target.owner_id == actor.user_id:
                return Verdict(True, f"{action} is open to the owner")
            return Verdict(False, f"{action} is for the owner and for admins")
        case Who.ADMIN:
            return Verdict(False, f"{action} is for admins")
        case Who.KEEPER:
            least = MemberRole.MEMBER if target.owner_id == actor.user_id else MemberRole.MANAGER
            return _in_workspace(actor, action, least, target)
        case Who.VIEWER | Who.MEMBER | Who.MANAGER:
            return _in_workspace(actor, action, _LEAST[rule.who], target)


def _in_workspace(actor: Actor, action: Action, least: MemberRole, target: Target) -> Verdict:
    held = None if target.workspace_id is None else actor.memberships.get(target.workspace_id)
    if held is None:
        return Verdict(False, f"{action} is for members of the workspace")
    if held.rank < least.rank:
        return Verdict(False, f"{action} needs the workspace role {least} or more; you are {held}")
    return Verdict(True, f"{action} is open to the workspace role {least} and above; you are {held}")
