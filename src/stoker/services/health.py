"""Whether this server can do its work: what it needs, and what of it does not answer."""

from msgspec import Struct

from stoker.domain.errors import StokerError
from stoker.services.context import Context

ALIVE = "SELECT COUNT(*) FROM migration"


class Part(Struct, frozen=True):
    name: str
    ready: bool
    message: str


class Health:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def parts(self) -> list[Part]:
        """Every part this server needs."""
        try:
            await self._context.store.peek(lambda tx: tx.one(ALIVE))
        except StokerError as error:
            return [Part("database", False, error.message)]
        return [Part("database", True, self._context.store.name.split(" ")[0])]
