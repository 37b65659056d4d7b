"""The address of a server, normalized: equal addresses have equal text, so it can be a key."""

import ipaddress
import posixpath
from urllib.parse import urlsplit

from stoker.client.transport.unix_socket import UNIX_SCHEME, socket_path
from stoker.domain.errors import StokerError, bad_request

DEFAULT_SERVER = "http://127.0.0.1:8080"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def normalize_server(text: str) -> str:
    """The normalized address; raises an error with an example if the text is not an address.

    `unix:///srv/stoker/stoker.sock` is the server that listens on that socket.
    """
    if (path := socket_path(text.strip())) is not None:
        if not path.startswith("/") or not path.isprintable():
            raise invalid_server_address(text)
        return f"{UNIX_SCHEME}{posixpath.normpath(path)}"
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise invalid_server_address(text) from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise invalid_server_address(text)
    if any(character.isspace() or not character.isprintable() for character in parts.netloc):
        raise invalid_server_address(text)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown_port = "" if port in {None, _DEFAULT_PORTS[parts.scheme]} else f":{port}"
    return f"{parts.scheme}://{host}{shown_port}{parts.path.rstrip('/')}"


def is_loopback(server: str) -> bool:
    """Whether the address is certainly this machine."""
    if socket_path(server) is not None:
        return True
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def invalid_server_address(text: str) -> StokerError:
    return bad_request("server", f'"{text[:80]}" is not an address. Use for example "{DEFAULT_SERVER}".')
