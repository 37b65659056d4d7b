"""Password hashing with argon2id, off the event loop.

A check takes as long for users who do not exist, so that timing does not reveal which users do.
"""

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from stoker.domain.errors import bad_request

MIN_LENGTH = 10
MAX_LENGTH = 256
_HASH_CONCURRENCY = 2


class Passwords:
    """Runs a few hashes at a time: each takes 19 MiB and tens of milliseconds."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
        self._dummy_hash = ""
        self._semaphore: asyncio.Semaphore | None = None

    async def hash(self, password: str) -> str:
        async with self._get_semaphore():
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, password: str, stored: str | None) -> bool:
        """Whether the password matches; without a stored hash the check takes as long and is False."""
        async with self._get_semaphore():
            return await asyncio.to_thread(self._verify, password, stored)

    def _get_semaphore(self) -> asyncio.Semaphore:
        if self._semaphore is None:
            self._semaphore = asyncio.Semaphore(_HASH_CONCURRENCY)
        return self._semaphore

    def _verify(self, password: str, stored: str | None) -> bool:
        if not self._dummy_hash:
            self._dummy_hash = self._hasher.hash("nobody has this password")
        try:
            self._hasher.verify(stored or self._dummy_hash, password)
        except (Argon2Error, InvalidHashError):
            return False
        return stored is not None


def check_password(password: str) -> str:
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise bad_request("password", f"it has {len(password)} characters. Use {MIN_LENGTH} to {MAX_LENGTH}.")
    return password
