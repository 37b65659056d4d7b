"""The dependencies of every service, and the two checkpoints that every command passes: authorisation and audit."""

from msgspec import Struct

from stoker.concurrency.supervisor import LoopRegistry
from stoker.domain.access.identity import AuditRecord
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import NO_TARGET, Actor, Target, check_access
from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import RandomBytes, new_uuid7
from stoker.domain.settings.schema import Settings
from stoker.store.db.base import Store, Transaction
from stoker.store.db.notify import ChangeNotifier
from stoker.store.identity import audit

OK = "ok"


class Context(Struct, frozen=True):
    """The dependencies of the services, built once by the server."""

    store: Store
    clock: Clock
    randomness: RandomBytes
    settings: Settings
    signing_key: str
    notifier: ChangeNotifier
    """Wakes the controllers and streams that act on committed changes."""
    loops: LoopRegistry
    """The background loops of this server and their failures."""


def authorise(actor: Actor | None, action: Action, target: Target = NO_TARGET, hint: str = "") -> None:
    """Raise unless the actor may do this; the error names the rule that refuses."""
    verdict = check_access(actor, action, target)
    if verdict.allowed:
        return
    if actor is None:
        raise StokerError(
            ErrorCode.UNAUTHENTICATED,
            "This needs a credential.",
            hint="Send the header Authorization: Bearer <API key>, or sign in with: stoker login",
        )
    raise StokerError(ErrorCode.FORBIDDEN, f"Not allowed: {verdict.reason}.", hint=hint or verdict.hint)


def record_audit(
    context: Context, transaction: Transaction, actor: Actor, action: Action, target: str, detail: str = ""
) -> None:
    """Record a successful action in the transaction that performs it."""
    add_audit_record(context, transaction, actor, action, target, OK, detail)


def add_audit_record(
    context: Context, transaction: Transaction, actor: Actor, action: Action, target: str, result: str, detail: str
) -> None:
    now = context.clock.now()
    audit.add(
        transaction,
        AuditRecord(
            id=new_uuid7(now, context.randomness),
            at=now,
            actor_id=actor.user_id,
            actor=actor.name,
            credential=actor.credential,
            address=actor.address,
            action=action,
            target=target,
            result=result,
            detail=detail,
            trace_id=actor.trace_id,
        ),
    )
