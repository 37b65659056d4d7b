"""Allowed targets of webhooks. The server can reach networks that its users cannot, so private targets are refused.

All addresses of a host name are checked. The sender must connect to a checked address and not resolve the name again.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from msgspec import Struct

from stoker.domain.errors import StokerError, bad_request

ResolveHost = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host; OSError when it has none."""

DEFAULT_PORTS = {"https": 443, "http": 80}
PRIVATE_TARGETS_SETTING = "webhook_private_targets"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NON_PUBLIC_NETWORKS = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "fec0::/10")))
"""Not public, although `is_global` says so: the first two have cloud metadata services, the third is site-local."""
_HOST_REGEX = re.compile(r"([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_LOCALHOST_REGEX = re.compile(r"(.*\.)?localhost\.?")
"""Names that mean this machine by definition (RFC 6761), whatever DNS says."""
_URL_REGEX = re.compile(r"[A-Za-z0-9\-._~:/?\[\]!$&'()*+,;=%]+")


class WebhookTarget(Struct, frozen=True):
    """A parsed URL."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def host_header(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def url_at(self, address: str) -> str:
        """The URL with an IP address instead of the host name."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def parse_target(url: str, *, private: bool) -> WebhookTarget:
    """Parse a URL; `private` also allows plain HTTP."""
    problem = bad_request("url", 'this is not a valid URL. Use one such as "https://hooks.example.com/stoker".')
    if not _URL_REGEX.fullmatch(url):
        raise problem
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise problem from None
    host = parts.hostname or ""
    if parts.scheme not in DEFAULT_PORTS or not _HOST_REGEX.fullmatch(host) or port == 0:
        raise problem
    if parts.scheme == "http" and not private:
        raise bad_request("url", f"use https://; plain HTTP needs the server's setting {PRIVATE_TARGETS_SETTING}.")
    if _LOCALHOST_REGEX.fullmatch(host) and not private:
        raise private_target_error(host)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookTarget(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], path)


def check_resolved_addresses(target: WebhookTarget, addresses: Sequence[str], *, private: bool) -> str:
    """The address to connect to; refused if any of the addresses is not allowed."""
    refused = next((address for address in addresses if not private and not is_public_address(address)), None)
    if refused is not None:
        where = target.host if target.host == refused else f"{target.host} ({refused})"
        raise private_target_error(where)
    return addresses[0]


def private_target_error(where: str) -> StokerError:
    return bad_request(
        "url",
        f"{where} is not on the public internet.",
        hint=f"A private or loopback target needs the server's setting {PRIVATE_TARGETS_SETTING}.",
    )


def is_public_address(address: str) -> bool:
    """Whether the address, and any address embedded in it, is on the public internet."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return all(_is_globally_routable(effective) for effective in _effective_addresses(parsed))


def _is_globally_routable(address: IPv4Address | IPv6Address) -> bool:
    special = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not special and not any(address in network for network in _NON_PUBLIC_NETWORKS)


def _effective_addresses(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    """The addresses that a connection to this one may reach."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    tunnelled = (address.sixtofour, *(address.teredo or ()))
    return (address, *(inner for inner in tunnelled if inner is not None))
