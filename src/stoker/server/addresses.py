"""The addresses of this machine, for a server that listens on all of them."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
_INTERFACE_ADDRESS = 0x8915
"""SIOCGIFADDR of Linux."""


def machine_addresses(host: str, inet6: Path = Path("/proc/net/if_inet6")) -> list[str]:
    """The addresses under which others reach a server that listens on this host; empty unless it listens on all."""
    if host not in WILDCARD_HOSTS:
        return []
    found = _ipv4_addresses() + (_ipv6_addresses(inet6) if host == "::" else [])
    return [each for each in dict.fromkeys(found) if _is_reachable(each)]


def is_loopback_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ipv4_addresses() -> list[str]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                answer = fcntl.ioctl(asking, _INTERFACE_ADDRESS, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    return found


def _ipv6_addresses(table: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return [str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in table.read_text().splitlines()]
    return []


def _is_reachable(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return not (parsed.is_loopback or parsed.is_link_local)
