"""The WebSocket connection: rejects text that is not UTF-8, and leaves a bad handshake to the HTTP connection."""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidHandshake
from websockets.http11 import Request as Handshake

INVALID_PAYLOAD = 1007
"""The close code of the WebSocket protocol for text that is not UTF-8."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, except that the HTTP connection rejects a bad handshake, and that errors of a client log no
    traceback."""

    def handle_connect(self, event: Handshake) -> None:
        try:
            self.conn.process_request(event)
        except InvalidHandshake as error:
            self.conn.handshake_exc = error
        else:
            super().handle_connect(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_utf8(b"".join(self.frames)):
            self.frames = []
            self.conn.send_close(INVALID_PAYLOAD)
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # uvicorn would log that a rejected socket was never opened


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
