"""The endpoint table. Routes, validation, OpenAPI and the docs page are derived from it.

An endpoint is an async function with a declaration of its path, permission, parameters, body and result. It gets a
`Call` and returns a struct.
"""

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import ModuleType
from typing import Any, Generic, Literal, Protocol, TypeVar, get_type_hints

from msgspec import Struct
from starlette.requests import Request

from stoker.api.http.auth import authenticate
from stoker.api.http.families import ApiFamily
from stoker.api.http.params import NoParams, Params
from stoker.api.http.sse import EventSchema
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.container import ServiceContainer
from stoker.services.idempotency import IdempotencyKey
from stoker.services.identity.actors import RequestOrigin

P = TypeVar("P", bound=Params)
Handler = Callable[[Any], Awaitable[Any]]
CREDENTIAL_REQUIRED = "This needs a credential."


class AppInterface(Protocol):
    """What the application offers to its own endpoints."""

    @property
    def openapi(self) -> bytes: ...
    def family_openapi(self, family: str) -> bytes | None: ...
    async def exposition(self, accept: str, actor: Actor | None) -> tuple[bytes, str]: ...
    def check_explain_rate(self, actor: Actor) -> None: ...


class Call(Generic[P]):
    """A decoded and authorised request, and the headers that its response adds."""

    __slots__ = ("_actor", "app", "body", "headers", "origin", "params", "raw_body", "request", "services")

    def __init__(
        self,
        request: Request,
        services: ServiceContainer,
        app: AppInterface,
        origin: RequestOrigin,
        actor: Actor | None,
        params: P,
        body: Any,
        raw_body: bytes,
    ) -> None:
        self.request = request
        self.services = services
        self.app = app
        self.origin = origin
        self._actor = actor
        self.params = params
        self.body = body
        self.raw_body = raw_body
        self.headers: list[tuple[str, str]] = []

    @property
    def actor(self) -> Actor:
        """The caller. Only public and monitoring endpoints can have none."""
        if self._actor is None:
            raise StokerError(ErrorCode.UNAUTHENTICATED, CREDENTIAL_REQUIRED)
        return self._actor

    @property
    def optional_actor(self) -> Actor | None:
        """The caller of an endpoint that `monitoring_access` may open to anonymous callers."""
        return self._actor

    async def reauthenticate(self) -> Actor:
        """The caller as of now: a stream must end when its caller loses access."""
        actor = await authenticate(self.request, self.services.authentication, self.origin)
        if actor is None:
            raise StokerError(ErrorCode.UNAUTHENTICATED, CREDENTIAL_REQUIRED)
        return actor

    @property
    def idempotency_key(self) -> IdempotencyKey | None:
        """The Idempotency-Key with the hash of its request."""
        return _idempotency_key(self.request, self.raw_body)


class Endpoint(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    family: ApiFamily
    action: Action
    handler: Handler
    params: type[Params]
    body: Any
    result: Any
    status: int
    media_type: str
    alt_media_types: tuple[str, ...]
    example: Any
    body_example: Any
    errors: tuple[ErrorCode, ...]
    multi_status: Any
    idempotent: bool
    form: bool
    json_only: bool
    error_schema: Any
    events: tuple[EventSchema, ...]
    response_headers: tuple[str, ...]
    redirects: bool

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.handler) or self.name).split("\n\n")[0].replace("\n", " ")

    @property
    def description(self) -> str:
        return inspect.getdoc(self.handler) or ""


class FrameSchema(Struct, frozen=True):
    """One kind of frame of a WebSocket, for OpenAPI."""

    sender: Literal["client", "server"]
    opcode: Literal["text", "binary"]
    description: str
    data: Any = None


class WebSocketEndpoint(Struct, frozen=True, kw_only=True):
    """A WebSocket, for OpenAPI."""

    method: str = "GET"
    path: str
    family: ApiFamily
    action: Action
    name: str
    summary: str
    description: str
    params: type[Params]
    frames: tuple[FrameSchema, ...]
    errors: tuple[ErrorCode, ...]


def endpoint(
    method: str,
    path: str,
    *,
    family: ApiFamily,
    action: Action,
    params: type[Params] = NoParams,
    body: Any = None,
    result: Any = None,
    status: int = 200,
    media_type: str = "application/json",
    alt_media_types: tuple[str, ...] = (),
    example: Any = None,
    body_example: Any = None,
    errors: tuple[ErrorCode, ...] = (),
    multi_status: Any = None,
    idempotent: bool = False,
    form: bool = False,
    json_only: bool = False,
    error_schema: Any = None,
    events: tuple[EventSchema, ...] = (),
    response_headers: tuple[str, ...] = (),
    redirects: bool = False,
) -> Callable[[Handler], Endpoint]:
    """Declare the decorated function as an endpoint.

    `result` is required where the function returns a response of its own; `alt_media_types` are further media types of
    the success response; `multi_status` is the body of a 207, if only some of several operations succeeded;
    `idempotent` accepts an Idempotency-Key; `form` reads the body as a web form; `error_schema` is an additional error
    body; `json_only` rejects a body without the JSON content type, which pages of other sites cannot set;
    `events` describes a stream of server-sent events; `response_headers` are the headers that it may add;
    `redirects` says that browsers get a redirect (307).
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
            alt_media_types=alt_media_types,
            example=example,
            body_example=body_example,
            errors=errors,
            multi_status=multi_status,
            idempotent=idempotent,
            form=form,
            json_only=json_only,
            error_schema=error_schema,
            events=events,
            response_headers=response_headers,
            redirects=redirects,
        )

    return declare


def collect_endpoints(modules: Iterable[ModuleType]) -> list[Endpoint]:
    """All endpoints of these modules, in the order of their declaration."""
    return [value for module in modules for value in vars(module).values() if isinstance(value, Endpoint)]


def _idempotency_key(request: Request, raw_body: bytes) -> IdempotencyKey | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= 255:
        raise StokerError(ErrorCode.BAD_REQUEST, "Idempotency-Key: use 1 to 255 characters.", field="Idempotency-Key")
    content = b"\n".join((request.method.encode(), request.scope["raw_path"], raw_body))
    return IdempotencyKey(key, hashlib.sha256(content).hexdigest())
