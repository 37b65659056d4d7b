"""Where an event may be sent. A server reaches places that its users cannot: none of them may be a target by accident.

A name is judged by the addresses that it stands for, and by all of them. Who connects must connect to an address that
was judged, and not ask for the name again.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from msgspec import Struct

from stoker.domain.errors import StokerError, bad_request

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host; OSError when it has none."""

PORTS = {"https": 443, "http": 80}
SETTING = "webhook_private_targets"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_CLOSED = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "fec0::/10")))
"""Local all the same: clouds have their metadata at some of the first two, and the third is for sites."""
_HOST = re.compile(r"([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_THIS_MACHINE = re.compile(r"(.*\.)?localhost\.?")
"""Names that are the machine itself by definition (RFC 6761), whatever a look-up says of them."""
_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?\[\]!$&'()*+,;=%]+")


class Target(Struct, frozen=True):
    """An address of the web, in the parts that a request is made of."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def named(self) -> str:
        """The host as the receiver knows itself."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def at(self, address: str) -> str:
        """The URL with an address in the place of the name."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def target_of(url: str, *, private: bool) -> Target:
    """The parts of a URL; `private` allows for plain HTTP too, which is for networks of one's own."""
    problem = bad_request("url", 'it is not an address to send to. Use one such as "https://hooks.example.com/stoker".')
    if not _CHARACTERS.fullmatch(url):
        raise problem
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise problem from None
    host = parts.hostname or ""
    if parts.scheme not in PORTS or not _HOST.fullmatch(host) or port == 0:
        raise problem
    if parts.scheme == "http" and not private:
        raise bad_request("url", f"use https://; plain HTTP needs the server's setting {SETTING}.")
    if _THIS_MACHINE.fullmatch(host) and not private:
        raise refused(host)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or PORTS[parts.scheme], path)


def check_addresses(target: Target, addresses: Sequence[str], *, private: bool) -> str:
    """The address to connect to; none is taken when one of them may not be."""
    closed = next((each for each in addresses if not private and not is_public(each)), None)
    if closed is not None:
        where = target.host if target.host == closed else f"{target.host} ({closed})"
        raise refused(where)
    return addresses[0]


def refused(where: str) -> StokerError:
    return bad_request(
        "url",
        f"{where} is not on the public internet.",
        hint=f"A private or loopback target needs the server's setting {SETTING}.",
    )


def is_public(address: str) -> bool:
    """Whether this is an address of the public internet; so must be the one that it stands for."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return all(_is_open(each) for each in _meant(found))


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    special = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not special and not any(address in network for network in _CLOSED)


def _meant(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    """Every address that is reached through this one."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    tunnelled = (address.sixtofour, *(address.teredo or ()))
    return (address, *(each for each in tunnelled if each is not None))
