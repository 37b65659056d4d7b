"""Passwords: argon2id, checked off the event loop, at a cost that is the same for users who do not exist."""

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from stoker.domain.errors import bad_request

LEAST = 10
MOST = 256
_AT_ONCE = 2


class Passwords:
    """Hashes and checks, a few at a time: each takes 19 MiB and tens of milliseconds."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
        self._nobody = ""
        self._places: asyncio.Semaphore | None = None

    async def hash(self, password: str) -> str:
        async with self._place():
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, password: str, stored: str | None) -> bool:
        """Whether the password fits; without a stored hash it takes as long and is False."""
        async with self._place():
            return await asyncio.to_thread(self._verify, password, stored)

    def _place(self) -> asyncio.Semaphore:
        if self._places is None:
            self._places = asyncio.Semaphore(_AT_ONCE)
        return self._places

    def _verify(self, password: str, stored: str | None) -> bool:
        if not self._nobody:
            self._nobody = self._hasher.hash("nobody has this password")
        try:
            self._hasher.verify(stored or self._nobody, password)
        except (Argon2Error, InvalidHashError):
            return False
        return stored is not None


def check_password(password: str) -> str:
    if not LEAST <= len(password) <= MOST:
        raise bad_request("password", f"it has {len(password)} characters. Use {LEAST} to {MOST}.")
    return password
