"""The origin and the caller of a request: addresses, bearer credentials, session cookies and CSRF tokens."""

import functools
import hmac
import ipaddress
import re
import secrets

from starlette.requests import HTTPConnection, Request

from stoker.api.http.connection import peer_connection, reject_pod_processes
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import MonitoringAccess, Settings
from stoker.services.identity.actors import RequestOrigin
from stoker.services.identity.authentication import AuthenticationService, is_address_in_networks

LOOPBACK_ADDRESS = "127.0.0.1"
SESSION_COOKIE = "stoker_session"
CSRF_HEADER = "x-csrf-token"
SECURE_SCHEMES = frozenset({"https", "wss"})
SAFE_METHODS = frozenset({"GET", "HEAD"})
_TRACEPARENT = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?\Z"
)
_FORWARDING_HEADERS = ("forwarded", "x-real-ip")


def request_trace_id(request: HTTPConnection) -> str:
    """The caller's W3C trace id, or a new one."""
    sent = request.headers.get("traceparent")
    found = _TRACEPARENT.match(sent) if sent else None
    return found.group(1) if found else secrets.token_hex(16)


def request_origin(request: HTTPConnection, settings: Settings, trace_id: str) -> RequestOrigin:
    """The client's address and scheme; headers of trusted proxies count, except on the Unix socket."""
    connection = peer_connection(request)
    if connection is not None and connection.peer is not None:
        return RequestOrigin(address=LOOPBACK_ADDRESS, loopback=True, trace_id=trace_id, peer=connection.peer)
    peer = request.client.host if request.client else LOOPBACK_ADDRESS
    address = peer
    secure = request.scope.get("scheme") in SECURE_SCHEMES
    if settings.trusted_proxies and is_address_in_networks(peer, settings.trusted_proxies):
        # Some proxies add a second header instead of extending the first.
        for hop in reversed(",".join(request.headers.getlist("x-forwarded-for")).split(",")):
            candidate = hop.strip()
            if not _is_address(candidate):
                break
            address = candidate
            if not is_address_in_networks(candidate, settings.trusted_proxies):
                break
        secure = secure or request.headers.get("x-forwarded-proto", "").split(",")[0].strip().lower() == "https"
    return RequestOrigin(address=address, loopback=_is_loopback(address), trace_id=trace_id, secure=secure)


async def authenticate(
    request: HTTPConnection, authentication: AuthenticationService, origin: RequestOrigin
) -> Actor | None:
    """The caller; None without credentials, an error if they are invalid. The Unix socket is a credential."""
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, credential = header.partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            raise StokerError(ErrorCode.UNAUTHENTICATED, "The Authorization header must be: Bearer <API key or token>.")
        return await authentication.authenticate_bearer(credential.strip(), origin)
    cookie = _session_cookie(request)
    if cookie is None:
        if origin.peer is None:
            return None
        await reject_pod_processes(request)
        return await authentication.authenticate_socket(origin.peer, origin)
    actor, session = await authentication.authenticate_cookie(cookie, origin)
    if isinstance(request, Request) and request.method not in SAFE_METHODS:
        sent = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(sent.encode(), session.csrf_token.encode()):
            raise StokerError(
                ErrorCode.FORBIDDEN,
                "Not allowed: the CSRF token is missing or wrong.",
                hint="Send the csrfToken of the log-in in the header X-CSRF-Token.",
            )
    return actor


def check_browser_origin(request: HTTPConnection, origin: RequestOrigin) -> None:
    """Reject requests of browsers from pages of other servers or schemes."""
    page = request.headers.get("origin")
    if page is None:
        return
    here = f"{'https' if origin.secure else 'http'}://{request.headers.get('host', '')}"
    if page != here:
        raise StokerError(
            ErrorCode.FORBIDDEN,
            f"Not allowed: a page of {page[:200]} may not open this.",
            hint=f"Only pages of {here[:200]} may. Name a proxy that speaks HTTPS for this server in trusted_proxies.",
        )


async def may_monitor_anonymously(request: Request, settings: Settings, origin: RequestOrigin) -> bool:
    """Whether the setting `monitoring_access` allows this request without credentials. Pods never are allowed."""
    match settings.monitoring_access:
        case MonitoringAccess.OPEN:
            return request.method in SAFE_METHODS
        case MonitoringAccess.AUTHENTICATED:
            return False
        case MonitoringAccess.LOOPBACK:
            peer = request.client.host if request.client else LOOPBACK_ADDRESS
            is_local = (
                request.method in SAFE_METHODS
                and _is_loopback(peer)
                and not any(name in _FORWARDING_HEADERS or name.startswith("x-forwarded-") for name in request.headers)
                and _is_loopback_host(request.headers.get("host", ""))
            )
            if is_local:
                await reject_pod_processes(request)
            return is_local


def _session_cookie(request: HTTPConnection) -> str | None:
    header = request.headers.get("cookie")
    if header is None or SESSION_COOKIE not in header:
        return None
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == SESSION_COOKIE and value:
            return value
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@functools.lru_cache(256)
def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def _is_loopback_host(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.lower() == "localhost" or _is_loopback(name.strip("[]"))
