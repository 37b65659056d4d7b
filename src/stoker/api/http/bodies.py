"""Request bodies: JSON to a struct. An unknown field, a missing one and a bad value are named."""

import difflib
import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as mi

from stoker.api.faults import expand, fault
from stoker.api.params import parse_query
from stoker.api.wording import A_KEY, choices, expectation, locate, ways
from stoker.domain.errors import ErrorCode, StokerError, bad_request

LONGEST = 120

_AT = re.compile(r" - at `(?P<key>key` in `)?(?P<path>.+)`$")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
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
            raise self._explained(str(error), raw) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StokerError(ErrorCode.BAD_REQUEST, f"The body is not JSON: {error}.") from error

    def _inner(self, raw: bytes) -> bytes:
        try:
            return msgspec.json.decode(raw, type=str).encode()
        except (msgspec.DecodeError, UnicodeDecodeError):
            return raw

    def _explained(self, message: str, raw: bytes) -> StokerError:
        at = _AT.search(message)
        path = at["path"] if at else "$"
        problem = message[: at.start()] if at else message
        field = path.removeprefix("$").removeprefix(".")
        if unknown := _UNKNOWN.match(problem):
            return self._unknown(field, path, unknown[1])
        if missing := _MISSING.match(problem):
            wanted = locate(self._kind, f"{path}.{missing[1]}")
            return bad_request(_joined(field, missing[1]), f"it is required.{_use(wanted)}")
        if at and at["key"]:
            path += A_KEY
        kind = locate(self._kind, path)
        named, words = _culprit(raw, path, kind) or (field, _lowered(problem))
        return bad_request(_cut(named or "body"), f"{_cut(words)}.{_use(kind)}")

    def _unknown(self, field: str, path: str, name: str) -> StokerError:
        kinds = ways(locate(self._kind, path))
        known = [field.encode_name for kind in kinds if isinstance(kind, mi.StructType) for field in kind.fields]
        near = difflib.get_close_matches(name[:LONGEST], known, n=1, cutoff=0.7)
        help_ = f" Did you mean {near[0]}?" if near else f" Use {choices(known)}." if known else ""
        return bad_request(_cut(_joined(field, name)), f"there is no such field here.{help_}")


class FormDecoder:
    """Reads a web form; the last of several values of a name counts."""

    def __call__(self, raw: bytes) -> dict[str, str]:
        return dict(parse_query(raw.strip(), "body"))


def _culprit(raw: bytes, path: str, kind: mi.Type | None) -> tuple[str, str] | None:
    """Where the value is that was refused, and what is wrong with it; None when that cannot be told."""
    if kind is None:
        return None
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return next(((each.path, words) for each in expand(body, path) if (words := fault(kind, each.value))), None)


def _use(kind: mi.Type | None) -> str:
    return f" Use {expectation(kind)}." if kind is not None else ""


def _joined(*parts: str) -> str:
    return ".".join(filter(None, parts))


def _cut(text: str) -> str:
    """Whatever the caller sent comes back in a readable length."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")
