"""Operations of the API, each declared once as a method signature and used by both clients.

The declaration has no body: its parameters are sent, its return annotation is the type of the result. It becomes a
function on a resource of the sync client and a coroutine function on one of the async client. Arguments that the
caller leaves out are not sent, so the server's defaults apply.
"""

import functools
import inspect
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    get_type_hints,
    overload,
    runtime_checkable,
)
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from stoker.client.transport.request_flow import ApiRequest
from stoker.client.transport.sse import ServerEvent
from stoker.domain.errors import bad_request
from stoker.wire.pages import CountedPage, PageView
from stoker.wire.system import AuditPage

P = ParamSpec("P")
R = TypeVar("R")
PAGE_SIZE = 500
NATIVE_BASE_PATH = "/api/stoker/v1"
MANAGEMENT_BASE_PATH = "/api/custom"

AnyPage = PageView[Any] | CountedPage[Any] | AuditPage
NextRequest = Callable[[ApiRequest, AnyPage], ApiRequest | None]
"""The request for the page after the given one; None after the last."""


class Sync:
    """Marks resources whose operations return results."""


class Async:
    """Marks resources whose operations return awaitables."""


F = TypeVar("F", Sync, Async)


class Transport(Protocol):
    """Sends requests to the server. Its results are plain for the sync client and awaitable for the async one."""

    def request(self, request: ApiRequest) -> Any: ...
    def paginate(self, first: ApiRequest, next_request: NextRequest) -> Any: ...
    def stream(self, request: ApiRequest, parse: Callable[[ServerEvent], Any]) -> Any: ...


@runtime_checkable
class EventResult(Protocol):
    """A result that is built from a server-sent event; others are decoded from the event's JSON."""

    @classmethod
    def from_event(cls, event: ServerEvent) -> Self: ...


class PagedItems(Generic[R]):
    """The items of a list, fetched page by page. `total` is the length in the latest page, None if not counted."""

    def __init__(self, pages: Iterator[AnyPage]) -> None:
        self.total: int | None = None
        self._items = self._iterate(pages)

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        return next(self._items)

    def _iterate(self, pages: Iterator[AnyPage]) -> Iterator[R]:
        for page in pages:
            self.total = page.total
            items: tuple[Any, ...] = page.items
            yield from items


class ApiResource(Generic[F]):
    """Operations on one kind of resource."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class BaseOperation(Generic[P, R]):
    """Builds a request from a call of the declared signature."""

    def __init__(
        self,
        method: str,
        path: str,
        declaration: Callable[Concatenate[Any, P], R],
        *,
        creates: bool = False,
        query: Mapping[str, str] | None = None,
        body: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.creates = creates
        self._fixed_query = query or {}
        self._body_parameter = body
        self._declaration = declaration
        self._path_parameters = frozenset(re.findall(r"{(\w+)}", path))
        self.__doc__ = declaration.__doc__

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self._declaration)

    @functools.cached_property
    def result(self) -> Any:
        """The declared result; None for a response without a body."""
        declared = get_type_hints(self._declaration)["return"]
        return None if declared is type(None) else declared

    def build_request(self, *args: Any, **kwargs: Any) -> ApiRequest:
        arguments = self.signature.bind(None, *args, **kwargs).arguments
        arguments.pop("self")
        path_values = {name: _path_segment(name, arguments.pop(name)) for name in self._path_parameters}
        whole_body = arguments.pop(self._body_parameter, None)
        values = {_to_camel_case(name): _to_utc(name, value) for name, value in arguments.items() if value is not UNSET}
        request = ApiRequest(
            method=self.method,
            path=self.path.format(**path_values),
            result=self.result,
            is_idempotent=self.creates or self.method != "POST",
            headers={"Idempotency-Key": str(uuid.uuid4())} if self.creates else {},
        )
        if self.method in {"GET", "DELETE"}:
            return msgspec.structs.replace(request, query={**_query_params(values), **self._fixed_query})
        body = values if whole_body is None else whole_body
        return msgspec.structs.replace(
            request, query=self._fixed_query, body=msgspec.json.encode(body) if body else b""
        )


class Operation(BaseOperation[P, R]):
    """One request with one result."""

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: ApiResource[Sync], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, resource: ApiResource[Async], owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, resource: ApiResource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self
        transport = resource._transport

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return transport.request(self.build_request(*args, **kwargs))

        return functools.update_wrapper(call, self._declaration)


class ListOperation(BaseOperation[P, R]):
    """A list. Each page is requested when its first item is needed."""

    def __init__(self, path: str, declaration: Callable[Concatenate[Any, P], R], *, cursor: str, page: Any) -> None:
        super().__init__("GET", path, declaration)
        self._cursor = cursor
        self._page = page

    @functools.cached_property
    def result(self) -> Any:
        item: Any = get_type_hints(self._declaration)["return"]
        return self._page[item] if hasattr(self._page, "__parameters__") else self._page

    def next_request(self, request: ApiRequest, page: AnyPage) -> ApiRequest | None:
        cursor = page.next_cursor(request.query.get(self._cursor, "0"))
        if cursor is None:
            return None
        return msgspec.structs.replace(request, query={**request.query, self._cursor: str(cursor)})

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: ApiResource[Sync], owner: type) -> Callable[P, PagedItems[R]]: ...
    @overload
    def __get__(self, resource: ApiResource[Async], owner: type) -> Callable[P, AsyncIterator[R]]: ...
    def __get__(self, resource: ApiResource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self
        transport = resource._transport

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            request = self.build_request(*args, **kwargs)
            first = msgspec.structs.replace(request, query={"limit": str(PAGE_SIZE), **request.query})
            return transport.paginate(first, self.next_request)

        return functools.update_wrapper(call, self._declaration)


class StreamOperation(BaseOperation[P, R]):
    """One request with a stream of server-sent events as response; each event is one item."""

    def __init__(
        self,
        path: str,
        declaration: Callable[Concatenate[Any, P], R],
        *,
        query: Mapping[str, str] | None,
        idle_timeout_seconds: float | None,
    ) -> None:
        super().__init__("GET", path, declaration, query=query)
        self._idle_timeout_seconds = idle_timeout_seconds

    def build_request(self, *args: Any, **kwargs: Any) -> ApiRequest:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        request = super().build_request(*args, **kwargs)
        return msgspec.structs.replace(request, headers=headers, idle_timeout_seconds=self._idle_timeout_seconds)

    def parse_event(self, event: ServerEvent) -> Any:
        if isinstance(self.result, EventResult):
            return self.result.from_event(event)
        return msgspec.json.decode(event.data, type=self.result)

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: ApiResource[Sync], owner: type) -> Callable[P, Iterator[R]]: ...
    @overload
    def __get__(self, resource: ApiResource[Async], owner: type) -> Callable[P, AsyncIterator[R]]: ...
    def __get__(self, resource: ApiResource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self
        transport = resource._transport

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return transport.stream(self.build_request(*args, **kwargs), self.parse_event)

        return functools.update_wrapper(call, self._declaration)


def operation(
    method: str,
    path: str,
    *,
    base: str = NATIVE_BASE_PATH,
    creates: bool = False,
    query: Mapping[str, str] | None = None,
    body: str = "",
) -> Callable[[Callable[Concatenate[Any, P], R]], Operation[P, R]]:
    """Declare one request. One that `creates` has an Idempotency-Key, so it is safe to retry.

    `query` is sent with every request; the parameter named by `body` is the whole body.
    """
    return lambda declaration: Operation(method, base + path, declaration, creates=creates, query=query, body=body)


def list_operation(
    path: str, *, base: str = NATIVE_BASE_PATH, cursor: str = "offset", page: Any = PageView
) -> Callable[[Callable[Concatenate[Any, P], R]], ListOperation[P, R]]:
    """Declare a list by the type of its items. The start of the next page is sent as the parameter `cursor`."""
    return lambda declaration: ListOperation(base + path, declaration, cursor=cursor, page=page)


def stream_operation(
    path: str,
    *,
    base: str = NATIVE_BASE_PATH,
    query: Mapping[str, str] | None = None,
    idle_timeout_seconds: float | None = None,
) -> Callable[[Callable[Concatenate[Any, P], R]], StreamOperation[P, R]]:
    """Declare a stream by the type of its items. A silence longer than the idle timeout counts as a lost server."""
    return lambda declaration: StreamOperation(
        base + path, declaration, query=query, idle_timeout_seconds=idle_timeout_seconds
    )


def _path_segment(name: str, value: object) -> str:
    """A value as one segment of a path. A segment of dots is escaped, because ".." would be resolved as the parent."""
    text = str(value)
    if not text:
        raise bad_request(name, "it is empty.")
    return quote(text, safe="").replace(".", "%2E") if set(text) == {"."} else quote(text, safe="")


def _to_camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _to_utc(name: str, value: object) -> object:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise bad_request(name, "the time has no time zone. Use for example datetime.now(UTC).")
        return value.astimezone(UTC)
    return value


def _query_params(values: Mapping[str, object]) -> dict[str, str]:
    return {name: _query_value(value) for name, value in values.items() if value not in (None, ())}


def _query_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
