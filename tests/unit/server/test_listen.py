"""Where the server listens, and what it says when it cannot."""

import contextlib
import socket

import pytest

from stoker.domain.errors import StokerError
from stoker.domain.settings.schema import Settings
from stoker.server.http_server import open_listener, server_url


def test_any_free_port_is_taken_and_shown() -> None:
    with contextlib.closing(open_listener("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert port > 0
        assert not listening.get_inheritable()
        assert server_url(Settings(host="127.0.0.1", port=0), listening) == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("host", "shown"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("gpu.harness", "gpu.harness")],  # noqa: S104
)
def test_the_address_is_one_that_can_be_typed(host: str, shown: str) -> None:
    with contextlib.closing(open_listener("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert server_url(Settings(host=host), listening) == f"http://{shown}:{port}"
        secure = Settings(host=host, tls_cert="cert.pem", tls_key="key.pem")
        assert server_url(secure, listening) == f"https://{shown}:{port}"


def test_a_port_in_use_is_a_sentence_and_nothing_is_left_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StokerError, match=f"Port {port} of 127.0.0.1 is in use by another program."):
            open_listener("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".test", "203.0.113.1", "1.2.3.4.5"])
def test_a_host_that_is_not_ours_is_a_sentence(host: str) -> None:
    with pytest.raises(StokerError, match="cannot be listened on") as refused:
        open_listener(host, 0)
    assert refused.value.hint == "Check --host and --port."
