"""A method of the API, declared once as a signature and used by both clients.

The declaration has no body: its parameters are what is sent, its annotated result is what comes back. On a
resource of the sync client it is a function, on one of the async client a coroutine function, and a type
checker sees the difference. What the caller leaves out is not sent, so defaults are the server's.
"""

import functools
import inspect
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, get_type_hints, overload
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from stoker.client.exchange import Request
from stoker.client.shapes import CountedPage, Page
from stoker.client.sse import ServerEvent
from stoker.domain.errors import bad_request

P = ParamSpec("P")
R = TypeVar("R")
PAGE_ITEMS = 500
BASE = "/api/stoker/v1"
SAFE = "/api/custom"
"""Where the family of workloads is."""

AnyPage = Page[Any] | CountedPage[Any]


class Sync:
    """Marks what returns results."""


class Async:
    """Marks what returns awaitables of results."""


F = TypeVar("F", Sync, Async)


class Carrier(Protocol):
    """Takes requests to the server; what it returns depends on its flavour."""

    def run(self, request: Request) -> Any: ...
    def each(self, request: Request, following: Callable[[Request, AnyPage], Request | None]) -> Any: ...
    def stream(self, request: Request, item: Callable[[ServerEvent], Any]) -> Any: ...


class Items(Generic[R]):
    """The items of a list, asked for page by page. `total` is how many there are by the last page, if it said so."""

    def __init__(self, pages: Iterator[AnyPage]) -> None:
        self.total: int | None = None
        self._items = self._of(pages)

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        return next(self._items)

    def _of(self, pages: Iterator[AnyPage]) -> Iterator[R]:
        for page in pages:
            self.total = page.total
            yield from page.items


class Resource(Generic[F]):
    """Operations on one kind of thing."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier


class Declaration(Generic[P, R]):
    """Turns a call of the declared signature into a request."""

    def __init__(
        self,
        method: str,
        path: str,
        declared: Callable[Concatenate[Any, P], R],
        *,
        creates: bool = False,
        fixed: Mapping[str, str] | None = None,
        body: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.creates = creates
        self._fixed = fixed or {}
        self._body_name = body
        self._declared = declared
        self._in_path = frozenset(re.findall(r"{(\w+)}", path))
        self.__doc__ = declared.__doc__

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self._declared)

    @functools.cached_property
    def result(self) -> Any:
        """The declared result; None for an answer without one."""
        annotated = get_type_hints(self._declared)["return"]
        return None if annotated is type(None) else annotated

    def request(self, *args: Any, **kwargs: Any) -> Request:
        given = self.signature.bind(None, *args, **kwargs).arguments
        given.pop("self")
        place = {name: _segment(name, given.pop(name)) for name in self._in_path}
        whole = given.pop(self._body_name, None)
        sent = {_camel(name): _aware(name, value) for name, value in given.items() if value is not UNSET}
        request = Request(
            method=self.method,
            path=self.path.format(**place),
            result=self.result,
            repeatable=self.creates or self.method != "POST",
            headers={"Idempotency-Key": str(uuid.uuid4())} if self.creates else {},
        )
        if self.method in {"GET", "DELETE"}:
            return msgspec.structs.replace(request, query={**_query(sent), **self._fixed})
        body = sent if whole is None else whole
        return msgspec.structs.replace(request, query=self._fixed, body=msgspec.json.encode(body) if body else b"")


class Operation(Declaration[P, R]):
    """One request, one result."""

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self
        carrier = resource._carrier

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return carrier.run(self.request(*args, **kwargs))

        return functools.update_wrapper(call, self._declared)


class Listing(Declaration[P, R]):
    """As many requests as it takes, each when its first item is asked for."""

    def __init__(self, path: str, declared: Callable[Concatenate[Any, P], R], *, cursor: str, page: Any) -> None:
        super().__init__("GET", path, declared)
        self._cursor = cursor
        self._page = page

    @functools.cached_property
    def result(self) -> Any:
        item: Any = get_type_hints(self._declared)["return"]
        return self._page[item]

    def following(self, request: Request, page: AnyPage) -> Request | None:
        after = page.after(request.query.get(self._cursor, "0"))
        if after is None:
            return None
        return msgspec.structs.replace(request, query={**request.query, self._cursor: str(after)})

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Items[R]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, AsyncIterator[R]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self
        carrier = resource._carrier

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            asked = self.request(*args, **kwargs)
            first = msgspec.structs.replace(asked, query={"limit": str(PAGE_ITEMS), **asked.query})
            return carrier.each(first, self.following)

        return functools.update_wrapper(call, self._declared)


class Stream(Declaration[P, R]):
    """One request whose answer goes on; each of its events is one item."""

    def __init__(
        self,
        path: str,
        declared: Callable[Concatenate[Any, P], R],
        *,
        fixed: Mapping[str, str] | None,
        quiet_seconds: float | None,
    ) -> None:
        super().__init__("GET", path, declared, fixed=fixed)
        self._quiet_seconds = quiet_seconds

    def request(self, *args: Any, **kwargs: Any) -> Request:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        asked = super().request(*args, **kwargs)
        return msgspec.structs.replace(asked, headers=headers, quiet_seconds=self._quiet_seconds)

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Iterator[R]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, AsyncIterator[R]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self
        carrier = resource._carrier

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return carrier.stream(self.request(*args, **kwargs), self.result.of_event)

        return functools.update_wrapper(call, self._declared)


def operation(
    method: str,
    path: str,
    *,
    base: str = BASE,
    creates: bool = False,
    fixed: Mapping[str, str] | None = None,
    body: str = "",
) -> Callable[[Callable[Concatenate[Any, P], R]], Operation[P, R]]:
    """Declare one request. One that `creates` carries an Idempotency-Key, so it can be sent again.

    `fixed` is always in the query; the parameter named by `body` is the whole body.
    """
    return lambda declared: Operation(method, base + path, declared, creates=creates, fixed=fixed, body=body)


def listing(
    path: str, *, base: str = BASE, cursor: str = "offset", page: Any = Page
) -> Callable[[Callable[Concatenate[Any, P], R]], Listing[P, R]]:
    """Declare a list by the type of its items; where the next page begins goes into the parameter `cursor`."""
    return lambda declared: Listing(base + path, declared, cursor=cursor, page=page)


def stream(
    path: str, *, base: str = BASE, fixed: Mapping[str, str] | None = None, quiet_seconds: float | None = None
) -> Callable[[Callable[Concatenate[Any, P], R]], Stream[P, R]]:
    """Declare an answer of events by the type that each becomes; a longer silence than this is a lost server."""
    return lambda declared: Stream(base + path, declared, fixed=fixed, quiet_seconds=quiet_seconds)


def _segment(name: str, value: object) -> str:
    """A value as one part of a path; dots are escaped too, or ".." would name the folder above."""
    text = str(value)
    if not text:
        raise bad_request(name, "it is empty.")
    return quote(text, safe="").replace(".", "%2E") if set(text) == {"."} else quote(text, safe="")


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _aware(name: str, value: object) -> object:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise bad_request(name, "the time has no time zone. Use for example datetime.now(UTC).")
        return value.astimezone(UTC)
    return value


def _query(sent: Mapping[str, object]) -> dict[str, str]:
    return {name: _text(value) for name, value in sent.items() if value not in (None, ())}


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
