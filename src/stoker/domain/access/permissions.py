"""Who may do what to which object, with the reason for each decision.

A credential limited by scopes, networks or an expiry never creates or changes anything less limited than itself:
new API keys inherit the limits (`inherit_key_limits`), and actions that grant unlimited access are refused.
"""

import ipaddress
from collections.abc import Mapping

from msgspec import Struct

from stoker.domain.access.identity import MemberRole, Scope, UserKind
from stoker.domain.access.permission_rules import RULES, AccessLevel, Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.errors import ErrorCode, StokerError


class Actor(Struct, frozen=True):
    """The authenticated caller, its credential and its address."""

    user_id: str
    name: str
    kind: UserKind
    admin: bool
    memberships: Mapping[int, MemberRole]
    default_workspace_id: int | None = None
    scopes: frozenset[Scope] = frozenset()
    cidrs: tuple[str, ...] = ()
    expires_at: int | None = None
    """Expiry of the API key in use, if it has one."""
    credential: str = ""
    session_id: str = ""
    pod_uid: str = ""
    """Set for the credential of a pod, which may only report training metrics."""
    address: str = ""
    trace_id: str = ""

    @property
    def visible_workspaces(self) -> tuple[int, ...] | None:
        """The ids of the workspaces whose workloads the caller may see; None means all."""
        return None if self.admin else tuple(sorted(self.memberships))

    def can_see(self, workspace_id: int | None) -> bool:
        """Whether the caller may see a workspace and what is in it; only admins see what is in none."""
        return self.admin or workspace_id in self.memberships


class Target(Struct, frozen=True):
    """The object of an action: its workspace, its owner, or both."""

    workspace_id: int | None = None
    owner_id: str | None = None


NO_TARGET = Target()

_ROLE_SCOPES = {
    MemberRole.VIEWER: frozenset({Scope.READ}),
    MemberRole.MEMBER: frozenset({Scope.READ, Scope.WORKLOADS}),
    MemberRole.MANAGER: frozenset(Scope),
}
_MIN_ROLE_BY_LEVEL = {
    AccessLevel.VIEWER: MemberRole.VIEWER,
    AccessLevel.MEMBER: MemberRole.MEMBER,
    AccessLevel.MANAGER: MemberRole.MANAGER,
}


class AccessDecision(Struct, frozen=True):
    allowed: bool
    reason: str
    hint: str = ""
    """How the caller can avoid the refusal, if possible."""


def check_access(actor: Actor | None, action: Action, target: Target = NO_TARGET) -> AccessDecision:
    """Whether the actor may do the action on the target, with the reason."""
    rule = RULES[action]
    if rule.level is AccessLevel.ANYONE:
        return AccessDecision(True, f"{action} is open to anyone")
    if actor is None:
        return AccessDecision(False, f"{action} needs a credential")
    if actor.pod_uid:
        return AccessDecision(
            action is Action.TRAINING_REPORT, "the credential of a pod may only report its own training metrics"
        )
    if actor.scopes and not actor.scopes & rule.scopes:
        scopes = ", ".join(sorted(actor.scopes))
        if not rule.scopes:
            return AccessDecision(False, f"{action} needs a credential without scopes; this one has {scopes}")
        required = " or ".join(sorted(rule.scopes))
        return AccessDecision(False, f"{action} needs the scope {required}; this credential has {scopes}")
    if rule.grants_unlimited_access and (limit := _describe_limits(actor)):
        return AccessDecision(
            False,
            f"{action} grants access without limits, and this credential {limit}",
            hint="Sign in with a password, or use an API key without networks and expiry.",
        )
    if actor.admin:
        return AccessDecision(True, "an admin may do everything")
    match rule.level:
        case AccessLevel.MONITOR | AccessLevel.SIGNED_IN:
            return AccessDecision(True, f"{action} is open to every signed-in user")
        case AccessLevel.OWNER_OR_MANAGER:
            if target.owner_id == actor.user_id:
                return AccessDecision(True, f"{action} is open to the owner")
            return _check_workspace_role(actor, action, MemberRole.MANAGER, target)
        case AccessLevel.OWNER:
            if target.owner_id == actor.user_id:
                return AccessDecision(True, f"{action} is open to the owner")
            return AccessDecision(False, f"{action} is for the owner and for admins")
        case AccessLevel.ADMIN:
            return AccessDecision(False, f"{action} is for admins")
        case AccessLevel.OWNING_MEMBER_OR_MANAGER:
            minimum = MemberRole.MEMBER if target.owner_id == actor.user_id else MemberRole.MANAGER
            return _check_workspace_role(actor, action, minimum, target)
        case AccessLevel.VIEWER | AccessLevel.MEMBER | AccessLevel.MANAGER:
            return _check_workspace_role(actor, action, _MIN_ROLE_BY_LEVEL[rule.level], target)


def check_role_grant(actor: Actor, role: MemberRole) -> AccessDecision:
    """Whether the scopes of a credential, if it has any, cover everything that the role allows."""
    scopes = actor.scopes | {Scope.READ} if Scope.MANAGE in actor.scopes else actor.scopes
    missing = _ROLE_SCOPES[role] - scopes
    if not actor.scopes or not missing:
        return AccessDecision(True, f"the credential covers what the role {role} may do")
    lacking, present = " and ".join(sorted(missing)), ", ".join(sorted(actor.scopes))
    return AccessDecision(
        False, f"granting the role {role} also needs the scope {lacking}; this credential has {present}"
    )


def inherit_key_limits(
    actor: Actor, cidrs: tuple[str, ...], expires_at: int | None
) -> tuple[tuple[str, ...], int | None]:
    """The networks and expiry of a new API key: those requested, else those of the credential that creates it.

    Networks outside the credential's, or an expiry after its own, are refused.
    """
    if actor.cidrs and any(not any(_is_subnet(cidr, outer) for outer in actor.cidrs) for cidr in cidrs):
        networks = ", ".join(actor.cidrs)
        raise StokerError(
            ErrorCode.FORBIDDEN,
            f"Not allowed: this credential may be used from {networks} only, and so may the keys it creates.",
            field="cidrs",
        )
    if actor.expires_at is not None and expires_at is not None and expires_at > actor.expires_at:
        raise StokerError(
            ErrorCode.FORBIDDEN,
            f"Not allowed: this API key expires at {format_rfc3339(actor.expires_at)}, and so do the keys it creates.",
            hint="Choose an earlier expiry, or create the key in a session or with a key that expires later.",
            field="expires_at",
        )
    return cidrs or actor.cidrs, actor.expires_at if expires_at is None else expires_at


def _describe_limits(actor: Actor) -> str:
    """The network and expiry limits of a credential as text; empty without limits."""
    limits = [f"may be used from {', '.join(actor.cidrs)} only"] if actor.cidrs else []
    if actor.expires_at is not None:
        limits.append(f"expires at {format_rfc3339(actor.expires_at)}")
    return " and ".join(limits)


def _is_subnet(cidr: str, outer: str) -> bool:
    network, supernet = ipaddress.ip_network(cidr), ipaddress.ip_network(outer)
    return network.network_address in supernet and network.prefixlen >= supernet.prefixlen


def _check_workspace_role(actor: Actor, action: Action, minimum: MemberRole, target: Target) -> AccessDecision:
    role = None if target.workspace_id is None else actor.memberships.get(target.workspace_id)
    if role is None:
        return AccessDecision(False, f"{action} is for members of the workspace")
    if role.rank < minimum.rank:
        return AccessDecision(False, f"{action} needs the workspace role {minimum} or more; you are {role}")
    return AccessDecision(True, f"{action} is open to the workspace role {minimum} and above; you are {role}")
