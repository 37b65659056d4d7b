"""The address of a server. Two spellings of one address are the same text here, so it can be a key."""

import ipaddress
from urllib.parse import urlsplit

from stoker.domain.errors import StokerError, bad_request

DEFAULT_SERVER = "http://127.0.0.1:8080"
_PORTS = {"http": 80, "https": 443}


def server_address(text: str) -> str:
    """The address without path, in one spelling; a text that is none is an error that shows one."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise not_an_address(text) from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise not_an_address(text)
    if any(character.isspace() or not character.isprintable() for character in parts.netloc):
        raise not_an_address(text)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown_port = "" if port in {None, _PORTS[parts.scheme]} else f":{port}"
    return f"{parts.scheme}://{host}{shown_port}{parts.path.rstrip('/')}"


def is_loopback(server: str) -> bool:
    """Whether the address can only be this machine."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def not_an_address(text: str) -> StokerError:
    return bad_request("server", f'"{text[:80]}" is not an address. Use for example "{DEFAULT_SERVER}".')
