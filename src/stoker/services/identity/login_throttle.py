"""Guesses at passwords: so many in a while, and then a pause."""

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import new_uuid
from stoker.services.context import Context
from stoker.store import credentials
from stoker.store.base import Transaction


def count_attempt(context: Context, transaction: Transaction, subjects: list[str]) -> None:
    """Count a guess before it is judged, so that many at once cannot slip through."""
    settings = context.settings
    now = context.clock.now()
    window = settings.login_window_seconds * 1000
    for subject in subjects:
        count, oldest = credentials.attempts(transaction, subject, now - window)
        if count >= settings.login_attempts:
            wait = max(1, -(-(oldest + window - now) // 1000))
            raise StokerError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"Too many failed log-ins. Try again in {wait} s.",
                retry_after_seconds=wait,
            )
    for subject in subjects:
        credentials.add_attempt(transaction, new_uuid(context.randomness), subject, now)
