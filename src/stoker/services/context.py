"""What every service is given, and the two gates that every one of them uses."""

from msgspec import Struct

from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.identity import AuditRecord
from stoker.domain.names import Randomness, ordered_uuid
from stoker.domain.permissions import NOTHING, Action, Actor, Target, may
from stoker.domain.settings import Settings
from stoker.store import audit
from stoker.store.base import Store, Transaction
from stoker.store.signal import Signal

OK = "ok"


class Context(Struct, frozen=True):
    """Store, clock, randomness and settings, built once by the server."""

    store: Store
    clock: Clock
    randomness: Randomness
    settings: Settings
    signing_key: str
    signal: Signal
    """Tells whoever acts on what was written that there is something new."""


def authorise(actor: Actor | None, action: Action, target: Target = NOTHING, hint: str = "") -> None:
    """Go on, or refuse and say which rule refuses."""
    verdict = may(actor, action, target)
    if verdict.allowed:
        return
    if actor is None:
        raise StokerError(
            ErrorCode.NOT_SIGNED_IN,
            "This needs a credential.",
            hint="Send the header Authorization: Bearer <API key>, or sign in with: stoker login",
        )
    raise StokerError(ErrorCode.NOT_ALLOWED, f"Not allowed: {verdict.rule}.", hint=hint)


def authorise_admin_making(actor: Actor) -> None:
    """A credential that is limited in any way may not make one that is not."""
    authorise(actor, Action.ADMIN_MAKE)
    if actor.cidrs:
        raise StokerError(
            ErrorCode.NOT_ALLOWED, "Not allowed: a credential that is limited to networks cannot make an admin."
        )


def record(
    context: Context, transaction: Transaction, actor: Actor, action: Action, target: str, detail: str = ""
) -> None:
    """Write in the audit log that this was done, in the transaction that does it."""
    add_record(context, transaction, actor, action, target, OK, detail)


def add_record(
    context: Context, transaction: Transaction, actor: Actor, action: Action, target: str, result: str, detail: str
) -> None:
    now = context.clock.now()
    audit.add(
        transaction,
        AuditRecord(
            id=ordered_uuid(now, context.randomness),
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
