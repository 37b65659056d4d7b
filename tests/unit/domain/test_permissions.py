"""Who may do what: every action, every role and every scope, against a table written by hand."""

from typing import Any

import msgspec
import pytest

from stoker.domain.access.identity import MemberRole, Scope, UserKind
from stoker.domain.access.permission_rules import RULES, Action
from stoker.domain.access.permissions import Actor, Target, check_access, check_role_grant

VISION, AUDIO = 1, 2
ANYONE, SIGNED_IN, VIEWER, MEMBER, MANAGER = "anyone", "signed in", "viewer", "member", "manager"
KEEPER, OWNER, ADMIN = "a member for what is its own, else a manager", "owner", "admin"
OWNER_OR_MANAGER = "anyone for what is its own, else a manager"
ALL, LOOK, WORK, MANAGE, NONE = "read workloads manage", "read manage", "workloads", "manage", ""

TABLE = {
    # action: the least that a caller is, and the scopes of which a limited credential needs one
    "look-around": (ANYONE, ALL),
    "session.create": (ANYONE, NONE),
    "token.issue": (ANYONE, NONE),
    "session.delete": (SIGNED_IN, ALL),
    "monitor": (SIGNED_IN, ALL),
    "profile.read": (SIGNED_IN, ALL),
    "user.list": (ADMIN, LOOK),
    "user.read": (OWNER, LOOK),
    "user.create": (ADMIN, MANAGE),
    "user.update": (ADMIN, MANAGE),
    "user.delete": (ADMIN, MANAGE),
    "user.password": (OWNER, NONE),
    "user.make-admin": (ADMIN, NONE),
    "user.enable": (ADMIN, NONE),
    "department.read": (SIGNED_IN, ALL),
    "department.create": (ADMIN, MANAGE),
    "department.update": (ADMIN, MANAGE),
    "department.delete": (ADMIN, MANAGE),
    "workspace.list": (SIGNED_IN, ALL),
    "workspace.read": (VIEWER, ALL),
    "workspace.create": (ADMIN, MANAGE),
    "workspace.update": (MANAGER, MANAGE),
    "workspace.grant": (ADMIN, MANAGE),
    "workspace.delete": (ADMIN, MANAGE),
    "member.list": (VIEWER, LOOK),
    "member.set": (MANAGER, MANAGE),
    "member.remove": (MANAGER, MANAGE),
    "key.list": (OWNER, LOOK),
    "key.create": (OWNER, NONE),
    "key.delete": (OWNER, MANAGE),
    "application.list": (ADMIN, LOOK),
    "application.create": (ADMIN, NONE),
    "application.update": (ADMIN, MANAGE),
    "application.enable": (ADMIN, NONE),
    "application.secret": (ADMIN, NONE),
    "application.delete": (ADMIN, MANAGE),
    "webhook.list": (SIGNED_IN, LOOK),
    "webhook.read": (MANAGER, LOOK),
    "webhook.create": (MANAGER, MANAGE),
    "webhook.update": (MANAGER, MANAGE),
    "webhook.delete": (MANAGER, MANAGE),
    "webhook.test": (MANAGER, MANAGE),
    "cluster.read": (SIGNED_IN, ALL),
    "cluster.create": (ADMIN, NONE),
    "cluster.update": (ADMIN, NONE),
    "cluster.delete": (ADMIN, MANAGE),
    "cluster.check": (ADMIN, LOOK),
    "audit.read": (ADMIN, LOOK),
    "settings.read": (ADMIN, LOOK),
    "workload.list": (SIGNED_IN, ALL),
    "workload.read": (VIEWER, ALL),
    "workload.read-env": (OWNER_OR_MANAGER, ALL),
    "workload.create": (MEMBER, WORK),
    "workload.update": (KEEPER, WORK),
    "workload.urge": (MANAGER, WORK),
    "workload.stop": (KEEPER, WORK),
    "workload.resume": (KEEPER, WORK),
    "workload.delete": (KEEPER, WORK),
    "workload.exec": (KEEPER, WORK),
    "training.report": (KEEPER, WORK),
    "usage.read": (SIGNED_IN, ALL),
}
LASTING = {
    # what these give cannot be limited to networks or a time, so no credential that is may do them
    "user.make-admin",
    "user.enable",
    "user.password",
    "member.set",
    "application.create",
    "application.enable",
    "application.secret",
}
OF_ANOTHER = Target(workspace_id=VISION, owner_id="another")
OF_ONESELF = Target(workspace_id=VISION, owner_id="oneself")
each_action = pytest.mark.parametrize("action", list(Action))


def _actor(role: str = "", *, admin: bool = False, workspace: int = VISION, scopes: str = "") -> Actor:
    return Actor(
        user_id="oneself",
        name="li",
        kind=UserKind.PERSON,
        admin=admin,
        memberships={workspace: MemberRole(role)} if role else {},
        scopes=frozenset(map(Scope, scopes.split())),
    )


def _allowed(actor: Actor | None, action: Action, target: Target) -> bool:
    verdict = check_access(actor, action, target)
    assert verdict.reason
    return verdict.allowed


def test_every_action_has_a_rule_and_a_row() -> None:
    assert set(RULES) == set(Action)
    assert set(TABLE) == set(Action)


@each_action
def test_without_a_credential_only_what_is_open_to_anyone(action: Action) -> None:
    assert _allowed(None, action, OF_ONESELF) == (TABLE[action][0] == ANYONE)


@each_action
def test_an_admin_may_do_everything_to_anything(action: Action) -> None:
    assert _allowed(_actor(admin=True), action, OF_ANOTHER)
    assert _allowed(_actor(admin=True), action, Target())


@each_action
@pytest.mark.parametrize("role", ["", "viewer", "member", "manager"])
def test_a_member_may_do_what_its_role_reaches(action: Action, role: str) -> None:
    reached = {"": 0, "viewer": 1, "member": 2, "manager": 3}[role]
    least = TABLE[action][0]
    anothers = {ANYONE: 0, SIGNED_IN: 0, VIEWER: 1, MEMBER: 2, MANAGER: 3, KEEPER: 3, OWNER: 9, ADMIN: 9}
    to_anothers = {**anothers, OWNER_OR_MANAGER: 3}[least]
    to_ones_own = {OWNER: 0, OWNER_OR_MANAGER: 0, KEEPER: 2}.get(least, to_anothers)
    assert _allowed(_actor(role), action, OF_ANOTHER) == (reached >= to_anothers)
    assert _allowed(_actor(role), action, OF_ONESELF) == (reached >= to_ones_own)


@each_action
def test_a_manager_of_another_workspace_is_nobody_here(action: Action) -> None:
    manager, nobody = _actor("manager", workspace=AUDIO), _actor()
    for target in (OF_ANOTHER, OF_ONESELF):
        assert _allowed(manager, action, target) == _allowed(nobody, action, target)


@each_action
@pytest.mark.parametrize("scope", list(Scope))
def test_a_scope_limits_even_an_admin(action: Action, scope: Scope) -> None:
    least, scopes = TABLE[action]
    expected = least == ANYONE or scope in scopes.split()
    assert _allowed(_actor(admin=True, scopes=scope), action, OF_ANOTHER) == expected


@each_action
def test_the_credential_of_a_pod_is_for_one_thing_only(action: Action) -> None:
    pod = msgspec.structs.replace(_actor("manager"), pod_uid="pod")
    assert _allowed(pod, action, OF_ONESELF) == (TABLE[action][0] == ANYONE or action is Action.TRAINING_REPORT)


@each_action
def test_all_scopes_together_are_still_less_than_none(action: Action) -> None:
    least, scopes = TABLE[action]
    assert _allowed(_actor(admin=True, scopes=ALL), action, OF_ANOTHER) == (least == ANYONE or scopes != NONE)


@each_action
def test_a_scope_never_gives_what_the_user_may_not(action: Action) -> None:
    if not _allowed(_actor("viewer"), action, OF_ANOTHER):
        assert not _allowed(_actor("viewer", scopes=ALL), action, OF_ANOTHER)


@each_action
@pytest.mark.parametrize("limit", [{"cidrs": ("10.0.0.0/8",)}, {"expires_at": 1_768_473_000_000}], ids=["net", "end"])
def test_networks_and_an_end_forbid_what_gives_more_than_the_credential_has(
    action: Action, limit: dict[str, Any]
) -> None:
    limited = msgspec.structs.replace(_actor(admin=True), **limit)
    assert _allowed(limited, action, OF_ANOTHER) == (action not in LASTING)


def test_the_refusal_names_the_limits_and_a_way_out() -> None:
    limited = msgspec.structs.replace(_actor(admin=True), cidrs=("10.0.0.0/8",), expires_at=1_768_473_000_000)
    verdict = check_access(limited, Action.USER_SET_PASSWORD, OF_ANOTHER)
    assert verdict.reason == (
        "user.password grants access without limits, and this credential "
        "may be used from 10.0.0.0/8 only and expires at 2026-01-15T10:30:00.000Z"
    )
    assert verdict.hint == "Sign in with a password, or use an API key without networks and expiry."


@pytest.mark.parametrize(
    ("scopes", "roles"),
    [
        ("", "viewer member manager"),
        ("manage", "viewer"),
        ("read manage", "viewer"),
        ("workloads manage", "viewer member manager"),
        ("read workloads manage", "viewer member manager"),
    ],
)
def test_a_scoped_credential_gives_no_role_that_does_more_than_its_scopes(scopes: str, roles: str) -> None:
    actor = _actor("manager", scopes=scopes)
    assert [role for role in MemberRole if check_role_grant(actor, role).allowed] == roles.split()


@pytest.mark.parametrize(
    ("actor", "action", "rule"),
    [
        (None, Action.USER_LIST, "user.list needs a credential"),
        (None, Action.PUBLIC, "look-around is open to anyone"),
        (_actor(admin=True), Action.USER_LIST, "an admin may do everything"),
        (_actor(), Action.USER_LIST, "user.list is for admins"),
        (_actor(), Action.PROFILE_READ, "profile.read is open to every signed-in user"),
        (_actor(), Action.KEY_DELETE, "key.delete is for the owner and for admins"),
        (_actor(), Action.WORKSPACE_READ, "workspace.read is for members of the workspace"),
        (
            _actor("viewer"),
            Action.MEMBER_SET,
            "member.set needs the workspace role manager or more; you are viewer",
        ),
        (
            _actor("manager"),
            Action.MEMBER_SET,
            "member.set is open to the workspace role manager and above; you are manager",
        ),
        (
            _actor(admin=True, scopes="read workloads"),
            Action.USER_CREATE,
            "user.create needs the scope manage; this credential has read, workloads",
        ),
        (
            _actor(admin=True, scopes="read"),
            Action.KEY_CREATE,
            "key.create needs a credential without scopes; this one has read",
        ),
    ],
)
def test_the_verdict_says_which_rule_it_follows(actor: Actor | None, action: Action, rule: str) -> None:
    assert check_access(actor, action, OF_ANOTHER).reason == rule


def test_what_is_nobodys_belongs_to_nobody() -> None:
    assert not check_access(_actor("manager"), Action.KEY_LIST, Target()).allowed
    assert not check_access(_actor("manager"), Action.WORKSPACE_READ, Target()).allowed
