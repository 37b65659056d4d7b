"""Throttling of attempts at passwords and client secrets, counted per subject in a sliding window.

No caller can lock a user name for everyone: attempts are refused per network, and a name that is attacked from many
networks is delayed instead.
"""

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import new_uuid4
from stoker.services.context import Context
from stoker.store.db.base import Transaction
from stoker.store.identity import login_attempts

INITIAL_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 5.0
FAILED_LOGINS = "failed log-ins"


def check_and_count_attempt(context: Context, transaction: Transaction, subjects: list[str]) -> None:
    """Count an attempt before its secret is checked, so that parallel attempts are limited too."""
    check_attempts(context, transaction, subjects)
    add_attempt(context, transaction, subjects)


def check_attempts(
    context: Context, transaction: Transaction, subjects: list[str], attempts: str = FAILED_LOGINS
) -> None:
    """Refuse an attempt while one of its subjects has too many."""
    settings = context.settings
    now = context.clock.now()
    window = settings.login_window_seconds * 1000
    for subject in subjects:
        count, oldest = login_attempts.count(transaction, subject, now - window)
        if count >= settings.login_attempts:
            wait = max(1, -(-(oldest + window - now) // 1000))
            raise StokerError(
                ErrorCode.TOO_MANY_REQUESTS, f"Too many {attempts}. Try again in {wait} s.", retry_after_seconds=wait
            )


def add_attempt(context: Context, transaction: Transaction, subjects: list[str]) -> None:
    for subject in subjects:
        login_attempts.add(transaction, new_uuid4(context.randomness), subject, context.clock.now())


def delay_seconds(context: Context, transaction: Transaction, subject: str) -> float:
    """The delay of the next attempt: zero up to the limit, then longer with each failed attempt."""
    settings = context.settings
    since = context.clock.now() - settings.login_window_seconds * 1000
    excess = login_attempts.count(transaction, subject, since)[0] - settings.login_attempts + 1
    max_delay = min(MAX_DELAY_SECONDS, settings.request_timeout_seconds / 2)
    return backoff_seconds(excess, first=INITIAL_DELAY_SECONDS, longest=max_delay) if excess > 0 else 0.0
