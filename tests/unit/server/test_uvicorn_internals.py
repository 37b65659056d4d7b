"""The server subclasses internals of uvicorn, so its version is bounded, and a change of them is noticed."""

import hashlib
import importlib.metadata
import inspect
import tomllib
from pathlib import Path

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

KNOWN = "0.54"
BOUND = "uvicorn>=0.54,<0.55"
PROJECT = Path(__file__).parents[3]

RELIED_ON = {
    # class: the hash of its source, and what of ours to compare with the new source
    HttpToolsProtocol: (
        "18fdf324b11bf160",
        "LimitedProtocol in server/http_protocol.py: it overrides the connection's and the parser's callbacks, "
        "replaces `app`, and uses cycle, pipeline, flow, connections, parser, url, headers, server_state, "
        "timeout_keep_alive_task, _unset_keepalive_if_required and _should_upgrade.",
    ),
    RequestResponseCycle: (
        "e67d470d435dcc1c",
        "LimitedProtocol in server/http_protocol.py: it reads more_body, response_started, response_complete and "
        "chunked_encoding, sets disconnected and keep_alive, and counts on `connection: close` of an answer closing "
        "the transport at its end unless keep_alive is set again.",
    ),
    WebSocketsSansIOProtocol: (
        "0bbcec98938432f7",
        "WebSocketProtocol in server/websocket_protocol.py: it overrides handle_connect, send_receive_event_to_app "
        "and send, and uses conn, frames, curr_msg_data_type, close_sent, initial_response, handshake_complete and "
        "handle_parser_exception.",
    ),
    uvicorn.Server: (
        "06e799f7c58f8be6",
        "Server in server/http_server.py: it overrides capture_signals and startup, and sets servers, started, "
        "should_exit and force_exit.",
    ),
}


def test_uvicorn_is_bounded_to_the_version_whose_internals_are_known() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert [each for each in project["dependencies"] if each.startswith("uvicorn")] == [BOUND]
    assert importlib.metadata.version("uvicorn").startswith(f"{KNOWN}.")


@pytest.mark.parametrize("relied_on", RELIED_ON, ids=lambda each: each.__name__)
def test_the_internals_that_are_relied_on_are_as_they_were(relied_on: type) -> None:
    digest, ours = RELIED_ON[relied_on]
    source = inspect.getsource(relied_on)
    assert hashlib.sha256(source.encode()).hexdigest()[:16] == digest, (
        f"{relied_on.__name__} of uvicorn {uvicorn.__version__} is not the one of {KNOWN}. Look at {ours} "
        "Then run tests/integration/server/test_http_*.py, and write the new hash "
        "and, in pyproject.toml, the new bound."
    )
