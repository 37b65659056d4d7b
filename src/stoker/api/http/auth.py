"""Where a request comes from, and who sends it: addresses, bearer credentials, cookies and CSRF."""

import functools
import hmac
import ipaddress
import re
import secrets

from starlette.requests import HTTPConnection, Request

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.permissions import Actor
from stoker.domain.settings import MonitoringAccess, Settings
from stoker.services.authentication import Authentication, Origin, inside

COOKIE = "stoker_session"
CSRF_HEADER = "x-csrf-token"
SECURE_SCHEMES = frozenset({"https", "wss"})
SAFE_METHODS = frozenset({"GET", "HEAD"})
_TRACEPARENT = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?\Z"
)
_FORWARDING = ("forwarded", "x-real-ip")


def trace_id_of(request: HTTPConnection) -> str:
    """The caller's W3C trace id, or a new one."""
    sent = request.headers.get("traceparent")
    found = _TRACEPARENT.match(sent) if sent else None
    return found.group(1) if found else secrets.token_hex(16)


def origin_of(request: HTTPConnection, settings: Settings, trace_id: str) -> Origin:
    """The peer's address and how it reached us, or what a trusted proxy says of that."""
    peer = request.client.host if request.client else "127.0.0.1"
    address = peer
    secure = request.scope.get("scheme") in SECURE_SCHEMES
    if settings.trusted_proxies and inside(peer, settings.trusted_proxies):
        # Some proxies add a header of their own instead of a comma to the one they got.
        for hop in reversed(",".join(request.headers.getlist("x-forwarded-for")).split(",")):
            candidate = hop.strip()
            if not _is_address(candidate):
                break
            address = candidate
            if not inside(candidate, settings.trusted_proxies):
                break
        secure = secure or request.headers.get("x-forwarded-proto", "").split(",")[0].strip().lower() == "https"
    return Origin(address=address, loopback=_is_loopback(address), trace_id=trace_id, secure=secure)


async def caller_of(request: HTTPConnection, authentication: Authentication, origin: Origin) -> Actor | None:
    """Who sends this; None without credentials, an error with bad ones."""
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, credential = header.partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            raise StokerError(ErrorCode.NOT_SIGNED_IN, "The Authorization header must be: Bearer <API key or token>.")
        return await authentication.by_bearer(credential.strip(), origin)
    cookie = _session_cookie(request)
    if cookie is None:
        return None
    actor, session = await authentication.by_cookie(cookie, origin)
    if isinstance(request, Request) and request.method not in SAFE_METHODS:
        sent = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(sent.encode(), session.csrf_token.encode()):
            raise StokerError(
                ErrorCode.NOT_ALLOWED,
                "Not allowed: the CSRF token is missing or wrong.",
                hint="Send the csrfToken of the log-in in the header X-CSRF-Token.",
            )
    return actor


def may_monitor_unsigned(request: Request, settings: Settings, origin: Origin) -> bool:
    """Whether the monitoring APIs are open to this request without credentials."""
    match settings.monitoring_access:
        case MonitoringAccess.OPEN:
            return request.method in SAFE_METHODS
        case MonitoringAccess.AUTHENTICATED:
            return False
        case MonitoringAccess.LOOPBACK:
            peer = request.client.host if request.client else "127.0.0.1"
            return (
                request.method in SAFE_METHODS
                and _is_loopback(peer)
                and not any(name in _FORWARDING or name.startswith("x-forwarded-") for name in request.headers)
                and _is_loopback_name(request.headers.get("host", ""))
            )


def _session_cookie(request: HTTPConnection) -> str | None:
    header = request.headers.get("cookie")
    if header is None or COOKIE not in header:
        return None
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
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


def _is_loopback_name(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.lower() == "localhost" or _is_loopback(name.strip("[]"))
