"""The ASGI application. Every request takes the same steps, and every error is rendered in one place:

trace id → route → rate limits → caller → permission → parameters and body → handler → response → log and metrics
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

from stoker.api.exec_socket import EXEC_ENDPOINT, ExecSocket
from stoker.api.fleet_metrics import FleetExposition
from stoker.api.http.auth import SAFE_METHODS, authenticate, may_monitor_anonymously, request_origin, request_trace_id
from stoker.api.http.bodies import read_body, require_json
from stoker.api.http.endpoint import Call, Endpoint
from stoker.api.http.error_bodies import HTTP_STATUS, write_outcome_unknown
from stoker.api.http.families import FAMILIES, ApiFamily, encode_json, family_for_path
from stoker.api.http.openapi import build_document
from stoker.api.http.prometheus import ServerMetrics
from stoker.api.http.rate_limit import RateLimiter
from stoker.api.http.responses import error_response, success_response
from stoker.api.http.routing import Route, Router
from stoker.api.http.security_headers import add_security_headers
from stoker.api.http.streaming import StreamLimiter
from stoker.domain.access.addresses import client_network
from stoker.domain.access.permission_rules import RULES, AccessLevel
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.model import OWN_USER_AGENTS
from stoker.services.container import ServiceContainer
from stoker.services.context import authorise
from stoker.services.identity.actors import RequestOrigin

log = logging.getLogger("stoker.api")
access_log = logging.getLogger("stoker.access")

SLOW_BODY_SECONDS = 0.5
LARGE_BODY_BYTES = 65_536
"""A larger body is decoded in a thread: describing what is wrong with it may take a second."""
_EARLY_CHECKED_RULES = frozenset({AccessLevel.SIGNED_IN, AccessLevel.ADMIN})


class RequestTrace:
    """What is known of a request so far, for its log line."""

    __slots__ = ("actor", "family", "origin", "request", "route", "started", "trace_id")

    def __init__(self, request: Request, family: ApiFamily, trace_id: str, origin: RequestOrigin) -> None:
        self.request = request
        self.family = family
        self.trace_id = trace_id
        self.origin = origin
        self.route: Route | None = None
        self.actor: Actor | None = None
        self.started = time.perf_counter()


class AsgiApp:
    def __init__(self, endpoints: Iterable[Endpoint], services: ServiceContainer, metrics: ServerMetrics) -> None:
        self._endpoints = list(endpoints)
        self._router = Router(self._endpoints)
        self._services = services
        self._settings = services.settings
        self._metrics = metrics
        self._fleet_exposition = FleetExposition()
        self._family_documents: dict[str, bytes] = {}
        self._stream_limiter = StreamLimiter(self._settings.stream_limit)
        self._key_rate_limiter = RateLimiter(self._settings.key_rate_limit)
        self._address_rate_limiter = RateLimiter(self._settings.address_rate_limit)
        self._explain_rate_limiter = RateLimiter(self._settings.explain_rate_limit)
        self._exec_socket = ExecSocket(services, metrics, self._address_rate_limiter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._exec_socket(scope, receive, send)
            return
        request = Request(scope, receive, send)
        trace_id = request_trace_id(request)
        trace = RequestTrace(
            request, family_for_path(request.scope["path"]), trace_id, request_origin(request, self._settings, trace_id)
        )
        self._metrics.in_flight.inc()
        try:
            response = await self._respond(trace)
            response.headers["X-Trace-Id"] = trace_id
            add_security_headers(response.headers)
            if request.method == "HEAD":
                response.body = b""
            await response(scope, receive, send)
        except ClientDisconnect:
            self._log_request(trace, 499)
        except StokerError as error:  # the response has begun, so the connection is closed before its end
            log.warning("a streamed response was aborted: %s", error.message, extra={"trace_id": trace_id})
            self._log_request(trace, HTTP_STATUS[error.code])
        else:
            self._log_request(trace, response.status_code)
        finally:
            self._metrics.in_flight.dec()

    def check_explain_rate(self, actor: Actor) -> None:
        """Count one explanation of a caller, or reject it: each may plan the whole cluster."""
        self._explain_rate_limiter.acquire(actor.credential)

    @functools.cached_property
    def openapi(self) -> bytes:
        """The OpenAPI document of the whole API; built on first use, like those of the families."""
        return encode_json(build_document(self._endpoints, (EXEC_ENDPOINT,)))

    def family_openapi(self, family: str) -> bytes | None:
        """The OpenAPI document of one family; None if there is no such family."""
        if family not in self._family_documents:
            found = next((known for known in FAMILIES if known.name == family), None)
            if found is None:
                return None
            document = build_document(self._endpoints, (EXEC_ENDPOINT,), family=found)
            self._family_documents[family] = encode_json(document)
        return self._family_documents[family]

    async def exposition(self, accept: str, actor: Actor | None) -> tuple[bytes, str]:
        """The Prometheus metrics of this server, and of the fleet and its workloads while the database is available.

        A caller who may not see the whole fleet gets only the metrics of the server.
        """
        live, totals = self._services.live, self._services.queue_aggregates
        if not self._services.visible_fleet.can_see_fleet(actor):
            return self._metrics.exposition(accept, "")
        try:
            clusters, counts, consumers = await live.clusters(), await totals.read(), await live.consumers()
        except StokerError:
            return self._metrics.exposition(accept, "")

        def render() -> tuple[bytes, str]:
            return self._metrics.exposition(accept, self._fleet_exposition.render(clusters, counts, consumers))

        return await asyncio.to_thread(render)  # a large fleet has many lines

    async def _respond(self, trace: RequestTrace) -> Response:
        try:
            return await self._handle(trace)
        except StokerError as error:
            await self._audit_refusal(trace, trace.family.with_wire_field(error))
            return error_response(trace.family, error, trace.trace_id)
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("unexpected error in a request handler", extra={"trace_id": trace.trace_id})
            message = f"An unexpected error occurred. See the server's log for trace id {trace.trace_id}."
            return error_response(trace.family, StokerError(ErrorCode.INTERNAL, message), trace.trace_id)

    async def _handle(self, trace: RequestTrace) -> Response:
        request = trace.request
        if not trace.origin.loopback:
            self._address_rate_limiter.acquire(client_network(trace.origin.address))
        route, values = self._match_route(request)
        trace.route = route
        endpoint = route.endpoint
        trace.family = endpoint.family
        write_started = False
        try:
            async with asyncio.timeout(self._settings.request_timeout_seconds):
                actor = await self._authenticate(trace, endpoint)
                if endpoint.json_only:
                    require_json(request)
                limit = self._settings.body_limit_bytes
                raw_body = await read_body(request, limit) if route.decode_body is not None else b""
                if time.perf_counter() - trace.started > SLOW_BODY_SECONDS:
                    actor = await self._authenticate(
                        trace, endpoint
                    )  # the permissions of the caller may have been revoked meanwhile
                call = Call(
                    request,
                    self._services,
                    self,
                    trace.origin,
                    actor,
                    route.decode_params(
                        request.scope["query_string"], dict(zip(route.param_names, values, strict=True))
                    ),
                    await _decode_body(route, raw_body),
                    raw_body,
                )
                write_started = request.method not in SAFE_METHODS
                result = await endpoint.handler(call)
        except TimeoutError:
            reason = f"The request took longer than {self._settings.request_timeout_seconds:g} s"
            if write_started:
                raise write_outcome_unknown(f"{reason}.", request, idempotent=endpoint.idempotent) from None
            raise StokerError(
                ErrorCode.UNAVAILABLE, f"{reason} and was cancelled.", hint="Try again, or request less data."
            ) from None
        response = await success_response(endpoint, result, trace.trace_id, self._stream_limiter, trace.actor)
        for name, value in call.headers:
            response.headers.append(name, value)
        return response

    def _match_route(self, request: Request) -> tuple[Route, list[str]]:
        raw_path: bytes = request.scope["raw_path"].partition(b"?")[0]
        methods, values = self._router.find(raw_path) or ({}, [])
        if "" in values and (message := next(iter(methods.values())).endpoint.family.missing_name_message):
            raise StokerError(ErrorCode.BAD_REQUEST, message)
        if not methods or "" in values:
            path = raw_path.decode("ascii", "replace")[:200]
            raise StokerError(ErrorCode.NOT_FOUND, f"There is nothing at {path}.", hint="See /docs for the API.")
        method = "GET" if request.method == "HEAD" else request.method
        if (route := methods.get(method)) is None:
            allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else ())}))
            raise StokerError(
                ErrorCode.METHOD_NOT_ALLOWED,
                f"{request.method} is not allowed here.",
                hint=f"Use {allowed}.",
                field=allowed,
            )
        return route, values

    async def _authenticate(self, trace: RequestTrace, endpoint: Endpoint) -> Actor | None:
        """The caller. Permissions that depend on a target are checked by the services."""
        rule = RULES[endpoint.action]
        if rule.level is AccessLevel.ANYONE:
            return None
        actor = trace.actor = await authenticate(trace.request, self._services.authentication, trace.origin)
        if actor is not None:
            self._key_rate_limiter.acquire(actor.credential)
        elif rule.level is AccessLevel.MONITOR and await may_monitor_anonymously(
            trace.request, self._settings, trace.origin
        ):
            return None
        if actor is None or actor.pod_uid or rule.level in _EARLY_CHECKED_RULES:
            authorise(actor, endpoint.action)
        return actor

    async def _audit_refusal(self, trace: RequestTrace, error: StokerError) -> None:
        """Rejected writes of authenticated callers are recorded in the audit log."""
        actor, route = trace.actor, trace.route
        if actor is None or route is None or trace.request.method in SAFE_METHODS:
            return
        if error.code in {ErrorCode.UNAVAILABLE, ErrorCode.TOO_MANY_REQUESTS}:
            return
        target = trace.request.scope["raw_path"].decode("ascii", "replace")[:200]
        try:
            await self._services.audit_log.record_refusal(
                actor, route.endpoint.action, target, str(error.code), error.message
            )
        except StokerError:
            log.warning("a rejected write could not be recorded in the audit log", extra={"trace_id": trace.trace_id})

    def _log_request(self, trace: RequestTrace, status: int) -> None:
        seconds = time.perf_counter() - trace.started
        request = trace.request
        endpoint = trace.route.endpoint if trace.route else None
        method, path = (endpoint.method, endpoint.path) if endpoint else ("-", "-")
        self._metrics.observe_request(trace.family.name, method, path, status, seconds)
        level = logging.DEBUG if _is_own_client_poll(request, status) else logging.INFO
        if access_log.isEnabledFor(level):
            access_log.log(
                level,
                "%s %s %d",
                request.method,
                request.scope["raw_path"].decode("ascii", "replace"),
                status,
                extra={
                    "trace_id": trace.trace_id,
                    "milliseconds": round(seconds * 1000, 2),
                    "address": trace.origin.address,
                    "actor": trace.actor.name if trace.actor else "",
                },
            )


def _is_own_client_poll(request: Request, status: int) -> bool:
    """Whether Stoker's own client polled: `stoker top` and `stoker wait` read every second."""
    client = request.headers.get("user-agent", "").partition("/")[0]
    return request.method in SAFE_METHODS and status < 400 and client in OWN_USER_AGENTS


async def _decode_body(route: Route, raw_body: bytes) -> Any:
    if route.decode_body is None:
        return None
    if len(raw_body) < LARGE_BODY_BYTES:
        return route.decode_body(raw_body)
    return await asyncio.to_thread(route.decode_body, raw_body)
