"""The client network of an address, which rate limits count by."""

import functools
import ipaddress

IPV6_PREFIX_LENGTH = 64
"""One IPv6 client usually controls all addresses of a /64."""


@functools.lru_cache(4096)
def client_network(address: str) -> str:
    """The IPv4 address, or the /64 network of an IPv6 address; other text is returned unchanged."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), IPV6_PREFIX_LENGTH), strict=False))
