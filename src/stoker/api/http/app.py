"""The ASGI application: every request goes through the same few steps, and every error through one door.

trace id → route → limits → caller → permission → parameters and body → handler → answer → log and metrics
"""

import asyncio
import functools
import logging
import time
from collections.abc import Iterable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stoker.api.callers import SAFE_METHODS, caller_of, may_monitor_unsigned, origin_of, trace_id_of
from stoker.api.endpoint import Call, Endpoint
from stoker.api.families import STATUS, Family, encode, family_of
from stoker.api.fleet_metrics import FleetText
from stoker.api.limits import RateLimit
from stoker.api.metrics import Metrics
from stoker.api.openapi import document
from stoker.api.routing import Route, Router
from stoker.api.sockets import Sockets
from stoker.api.streams import JSON, LongList, OpenStreams, Stream
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.permissions import RULES, Actor, Who
from stoker.services.authentication import Origin
from stoker.services.bundle import Services
from stoker.services.context import authorise

log = logging.getLogger("stoker.api")
access_log = logging.getLogger("stoker.access")

SLOW_BODY_SECONDS = 0.5
LARGE_BODY_BYTES = 65_536
"""A larger one is read beside the event loop: saying what is wrong with it may take a second."""
_EARLY = frozenset({Who.SIGNED_IN, Who.ADMIN})


class Exchange:
    """One request on its way through the steps, for the log line at its end."""

    __slots__ = ("actor", "began", "family", "origin", "request", "route", "trace_id")

    def __init__(self, request: Request, family: Family, trace_id: str, origin: Origin) -> None:
        self.request = request
        self.family = family
        self.trace_id = trace_id
        self.origin = origin
        self.route: Route | None = None
        self.actor: Actor | None = None
        self.began = time.perf_counter()


class Api:
    def __init__(self, endpoints: Iterable[Endpoint], services: Services, metrics: Metrics) -> None:
        self._endpoints = list(endpoints)
        self._router = Router(self._endpoints)
        self._services = services
        self._settings = services.settings
        self._metrics = metrics
        self._fleet_text = FleetText()
        self._sockets = Sockets(services)
        self._streams = OpenStreams(self._settings.stream_limit)
        self._per_key = RateLimit(self._settings.key_rate_limit)
        self._per_address = RateLimit(self._settings.address_rate_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets(scope, receive, send)
            return
        request = Request(scope, receive, send)
        trace_id = trace_id_of(request)
        exchange = Exchange(
            request, family_of(request.scope["path"]), trace_id, origin_of(request, self._settings, trace_id)
        )
        self._metrics.in_flight.inc()
        try:
            response = await self._answer(exchange)
            response.headers["X-Trace-Id"] = trace_id
            if request.method == "HEAD":
                response.body = b""
            await response(scope, receive, send)
        except ClientDisconnect:
            self._finish(exchange, 499)
        except StokerError as error:  # after the answer had begun: the connection is closed before its end
            log.warning("an answer was broken off: %s", error.message, extra={"trace_id": trace_id})
            self._finish(exchange, STATUS[error.code])
        else:
            self._finish(exchange, response.status_code)
        finally:
            self._metrics.in_flight.dec()

    @functools.cached_property
    def openapi(self) -> bytes:
        """The OpenAPI document of every endpoint; made when first asked for."""
        return encode(document(self._endpoints))

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """What Prometheus scrapes: this server, and the fleet and its workloads while the database answers."""
        live, totals = self._services.live, self._services.totals
        try:
            clusters, counted, consumers = await live.clusters(), await totals.read(), await live.consumers()
        except StokerError:
            return self._metrics.exposition(accept, "")

        def write() -> tuple[bytes, str]:
            return self._metrics.exposition(accept, self._fleet_text.text(clusters, counted, consumers))

        return await asyncio.to_thread(write)  # a large fleet has many lines

    async def _answer(self, exchange: Exchange) -> Response:
        try:
            return await self._served(exchange)
        except StokerError as error:
            await self._note_refusal(exchange, error)
            return self._failed(exchange, error)
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("unexpected failure", extra={"trace_id": exchange.trace_id})
            message = f"Something unexpected went wrong. The server's log has it under trace id {exchange.trace_id}."
            return self._failed(exchange, StokerError(ErrorCode.INTERNAL, message))

    async def _served(self, exchange: Exchange) -> Response:
        request = exchange.request
        if not exchange.origin.loopback:
            self._per_address.take(exchange.origin.address)
        route, values = self._routed(request)
        exchange.route = route
        endpoint = route.endpoint
        exchange.family = endpoint.family
        try:
            async with asyncio.timeout(self._settings.request_timeout_seconds):
                actor = await self._admitted(exchange, endpoint)
                raw_body = await self._body(request) if route.decode_body is not None else b""
                if time.perf_counter() - exchange.began > SLOW_BODY_SECONDS:
                    actor = await self._admitted(exchange, endpoint)  # it may have lost its rights meanwhile
                call = Call(
                    request,
                    self._services,
                    self,
                    exchange.origin,
                    actor,
                    route.decode_params(request.scope["query_string"], dict(zip(route.names, values, strict=True))),
                    await _decoded(route, raw_body),
                    raw_body,
                )
                result = await endpoint.handler(call)
        except TimeoutError:
            seconds = f"{self._settings.request_timeout_seconds:g}"
            message = f"The request took longer than {seconds} s and was given up."
            raise StokerError(ErrorCode.BACKEND_DOWN, message, hint="Try again, or ask for less.") from None
        return await self._succeeded(exchange, endpoint, result, call.headers)

    def _routed(self, request: Request) -> tuple[Route, list[str]]:
        raw_path: bytes = request.scope["raw_path"].partition(b"?")[0]
        methods, values = self._router.find(raw_path) or ({}, [])
        if "" in values and (nameless := next(iter(methods.values())).endpoint.family.nameless):
            raise StokerError(ErrorCode.BAD_REQUEST, nameless)
        if not methods or "" in values:
            path = raw_path.decode("ascii", "replace")[:200]
            raise StokerError(ErrorCode.NOT_FOUND, f"There is nothing at {path}.", hint="See /docs for what there is.")
        method = "GET" if request.method == "HEAD" else request.method
        if (route := methods.get(method)) is None:
            allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else ())}))
            raise StokerError(
                ErrorCode.METHOD_NOT_ALLOWED,
                f"{request.method} is not possible here.",
                hint=f"Use {allowed}.",
                field=allowed,
            )
        return route, values

    async def _admitted(self, exchange: Exchange, endpoint: Endpoint) -> Actor | None:
        """The caller, once it is clear that it may at least ask. What it may do to what is decided further in."""
        rule = RULES[endpoint.action]
        if rule.who is Who.ANYONE:
            return None
        actor = exchange.actor = await caller_of(exchange.request, self._services.authentication, exchange.origin)
        if actor is not None:
            self._per_key.take(actor.credential)
        elif rule.who is Who.MONITOR and may_monitor_unsigned(exchange.request, self._settings, exchange.origin):
            return None
        if actor is None or actor.pod_uid or rule.who in _EARLY:
            authorise(actor, endpoint.action)
        return actor

    async def _body(self, request: Request) -> bytes:
        limit = self._settings.body_limit_bytes
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise _too_large(limit)
        parts, size = [], 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            parts.append(chunk)
        return b"".join(parts)

    async def _succeeded(
        self, exchange: Exchange, endpoint: Endpoint, result: Any, headers: list[tuple[str, str]]
    ) -> Response:
        if isinstance(result, LongList):
            result = result.written(endpoint.family, exchange.trace_id)
        if isinstance(result, Response):
            response = result
        elif isinstance(result, Stream):
            response = await self._streams.response(result, exchange.actor)
        elif endpoint.status == 204:
            response = Response(status_code=204)
        else:
            content = endpoint.family.success(encode(result), exchange.trace_id)
            response = Response(content, endpoint.status, media_type=JSON)
        for name, value in headers:
            response.headers.append(name, value)
        return response

    def _failed(self, exchange: Exchange, error: StokerError) -> Response:
        status = STATUS[error.code]
        content = encode(exchange.family.failure(error, status, exchange.trace_id))
        response = Response(content, status, media_type=JSON)
        match error.code:
            case ErrorCode.METHOD_NOT_ALLOWED:
                response.headers["Allow"] = error.field
            case ErrorCode.NOT_SIGNED_IN:
                response.headers["WWW-Authenticate"] = "Bearer"
            case ErrorCode.TOO_MANY_REQUESTS | ErrorCode.BACKEND_DOWN:
                response.headers["Retry-After"] = str(error.retry_after_seconds or 1)
        return response

    async def _note_refusal(self, exchange: Exchange, error: StokerError) -> None:
        """A write that a known caller asked for and did not get is in the audit log too."""
        actor, route = exchange.actor, exchange.route
        if actor is None or route is None or exchange.request.method in SAFE_METHODS:
            return
        if error.code in {ErrorCode.BACKEND_DOWN, ErrorCode.TOO_MANY_REQUESTS}:
            return
        target = exchange.request.scope["raw_path"].decode("ascii", "replace")[:200]
        try:
            await self._services.trail.refused(actor, route.endpoint.action, target, str(error.code), error.message)
        except StokerError:
            log.warning("a refused write could not be recorded", extra={"trace_id": exchange.trace_id})

    def _finish(self, exchange: Exchange, status: int) -> None:
        seconds = time.perf_counter() - exchange.began
        request = exchange.request
        endpoint = exchange.route.endpoint if exchange.route else None
        method, path = (endpoint.method, endpoint.path) if endpoint else ("-", "-")
        self._metrics.answered(exchange.family.name, method, path, status, seconds)
        if access_log.isEnabledFor(logging.INFO):
            access_log.info(
                "%s %s %d",
                request.method,
                request.scope["raw_path"].decode("ascii", "replace"),
                status,
                extra={
                    "trace_id": exchange.trace_id,
                    "milliseconds": round(seconds * 1000, 2),
                    "address": exchange.origin.address,
                    "actor": exchange.actor.name if exchange.actor else "",
                },
            )


async def _decoded(route: Route, raw_body: bytes) -> Any:
    if route.decode_body is None:
        return None
    if len(raw_body) < LARGE_BODY_BYTES:
        return route.decode_body(raw_body)
    return await asyncio.to_thread(route.decode_body, raw_body)


def _too_large(limit: int) -> StokerError:
    return StokerError(ErrorCode.TOO_LARGE, f"The body is larger than {limit} bytes.")
