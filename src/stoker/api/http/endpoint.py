"""The one table of endpoints. Routes, validation, OpenAPI and the docs page all come from it.

An endpoint is an async function with one line above it that says where it is, who may call it,
what it takes and what it gives. It sees a `Call` and returns a struct.
"""

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar, get_type_hints

from msgspec import Struct
from starlette.requests import Request

from stoker.api.callers import caller_of
from stoker.api.families import Family
from stoker.api.params import NoParams, Params
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.permissions import Action, Actor
from stoker.services.authentication import Origin
from stoker.services.bundle import Services
from stoker.services.once import Once

P = TypeVar("P", bound=Params)
Handler = Callable[[Any], Awaitable[Any]]


class Installation(Protocol):
    """What the API knows of itself, for the few endpoints that show it."""

    @property
    def openapi(self) -> bytes: ...
    async def exposition(self, accept: str) -> tuple[bytes, str]: ...


class Call(Generic[P]):
    """One request, read and authorised, and what its answer adds to the headers."""

    __slots__ = ("_actor", "body", "headers", "installation", "origin", "params", "raw_body", "request", "services")

    def __init__(
        self,
        request: Request,
        services: Services,
        installation: Installation,
        origin: Origin,
        actor: Actor | None,
        params: P,
        body: Any,
        raw_body: bytes,
    ) -> None:
        self.request = request
        self.services = services
        self.installation = installation
        self.origin = origin
        self._actor = actor
        self.params = params
        self.body = body
        self.raw_body = raw_body
        self.headers: list[tuple[str, str]] = []

    @property
    def actor(self) -> Actor:
        """The caller. Only endpoints that anyone may call can have none."""
        if self._actor is None:
            raise StokerError(ErrorCode.NOT_SIGNED_IN, "This needs a credential.")
        return self._actor

    async def renewed(self) -> Actor:
        """The caller as it is now: a stream outlives the moment in which it was let in."""
        actor = await caller_of(self.request, self.services.authentication, self.origin)
        if actor is None:
            raise StokerError(ErrorCode.NOT_SIGNED_IN, "This needs a credential.")
        return actor

    @property
    def once(self) -> Once | None:
        """The Idempotency-Key, with the hash of what it came with."""
        return _once(self.request, self.raw_body)


class Endpoint(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    family: Family
    action: Action
    handler: Handler
    params: type[Params]
    body: Any
    result: Any
    status: int
    media_type: str
    also: tuple[str, ...]
    example: Any
    body_example: Any
    errors: tuple[ErrorCode, ...]
    partly: Any
    creates: bool
    form: bool
    failure: Any

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.handler) or self.name).split("\n\n")[0].replace("\n", " ")

    @property
    def description(self) -> str:
        return inspect.getdoc(self.handler) or ""


def endpoint(
    method: str,
    path: str,
    *,
    family: Family,
    action: Action,
    params: type[Params] = NoParams,
    body: Any = None,
    result: Any = None,
    status: int = 200,
    media_type: str = "application/json",
    also: tuple[str, ...] = (),
    example: Any = None,
    body_example: Any = None,
    errors: tuple[ErrorCode, ...] = (),
    partly: Any = None,
    creates: bool = False,
    form: bool = False,
    failure: Any = None,
) -> Callable[[Handler], Endpoint]:
    """Make the function below a row of the table.

    `creates` lets it take an Idempotency-Key; `partly` is what it says when only some of many could be done;
    `result` is given where the function makes the response itself; `also` are other forms that it may have;
    `form` takes the body as a web form, a dictionary of texts; `failure` is how it words errors of its own.
    """

    def declare(handler: Handler) -> Endpoint:
        return Endpoint(
            method=method,
            path=path,
            family=family,
            action=action,
            handler=handler,
            params=params,
            body=body,
            result=result or get_type_hints(handler).get("return"),
            status=status,
            media_type=media_type,
            also=also,
            example=example,
            body_example=body_example,
            errors=errors,
            partly=partly,
            creates=creates,
            form=form,
            failure=failure,
        )

    return declare


def endpoints_of(modules: Iterable[ModuleType]) -> list[Endpoint]:
    """Every endpoint of these modules, in the order they are written."""
    return [value for module in modules for value in vars(module).values() if isinstance(value, Endpoint)]


def _once(request: Request, raw_body: bytes) -> Once | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= 255:
        raise StokerError(ErrorCode.BAD_REQUEST, "Idempotency-Key: use 1 to 255 characters.", field="Idempotency-Key")
    asked = b"\n".join((request.method.encode(), request.scope["raw_path"], raw_body))
    return Once(key, hashlib.sha256(asked).hexdigest())
