"""Request bodies: JSON to a struct. An unknown field, a missing one and a bad value are named."""

import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as mi

from stoker.api.wording import expectation, locate
from stoker.domain.errors import ErrorCode, StokerError, bad_request

LONGEST = 120

_AT = re.compile(r" - at `(.+)`$")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$")
_MISSING = re.compile(r"Object missing required field `(.*)`$")


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The base of every request body."""


class BodyDecoder:
    """Reads one kind of body. `json_text` also takes a body that is a JSON string holding JSON."""

    def __init__(self, body: Any, *, json_text: bool = False) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(body)
        self._kind = mi.type_info(body)
        self._json_text = json_text

    def __call__(self, raw: bytes) -> Any:
        if not raw.strip():
            raise StokerError(ErrorCode.BAD_REQUEST, f"The body is empty. Send {expectation(self._kind)} as JSON.")
        if self._json_text and raw.lstrip()[:1] == b'"':
            raw = self._inner(raw)
        if _NUL.search(raw):
            raise StokerError(ErrorCode.BAD_REQUEST, "The body may not hold the character NUL (\\u0000).")
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise self._explained(str(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StokerError(ErrorCode.BAD_REQUEST, f"The body is not JSON: {error}.") from error

    def _inner(self, raw: bytes) -> bytes:
        try:
            return msgspec.json.decode(raw, type=str).encode()
        except (msgspec.DecodeError, UnicodeDecodeError):
            return raw

    def _explained(self, message: str) -> StokerError:
        at = _AT.search(message)
        path = at.group(1) if at else "$"
        problem = message[: at.start()] if at else message
        field = path.removeprefix("$").removeprefix(".")
        for pattern, words in ((_UNKNOWN, "there is no such field here"), (_MISSING, "it is required")):
            if found := pattern.match(problem):
                return self._about(".".join(filter(None, (field, found.group(1)))), path, words)
        return self._about(field or "body", path, _lowered(problem))

    def _about(self, field: str, path: str, problem: str) -> StokerError:
        kind = locate(self._kind, path)
        allowed = f" Use {expectation(kind)}." if kind is not None else ""
        return bad_request(_cut(field), f"{_cut(problem)}.{allowed}")


def _cut(text: str) -> str:
    """Whatever the caller sent comes back in a readable length."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")
