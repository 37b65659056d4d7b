"""Request bodies: read within the size limit, and decoded from JSON to a struct.

An error names the field that is unknown, missing or invalid, and what it may be.
"""

import difflib
import re
from typing import Any

import msgspec
from msgspec import inspect as mi
from starlette.requests import Request

from stoker.api.http.negotiation import JSON_MEDIA_TYPE
from stoker.api.http.params import parse_query
from stoker.api.http.validation import (
    KEY_STEP,
    describe_expected,
    describe_violation,
    join_choices,
    type_alternatives,
    type_at_path,
    values_at_path,
)
from stoker.domain.errors import ErrorCode, StokerError, bad_request

MAX_ECHOED_CHARS = 120

_PATH_SUFFIX = re.compile(r" - at `(?P<key>key` in `)?(?P<path>.+)`$")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`$")


class BodyDecoder:
    """Decodes one type of body. `accept_json_string` also accepts a JSON string that contains JSON."""

    def __init__(self, body: Any, *, accept_json_string: bool = False) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(body)
        self._kind = mi.type_info(body)
        self._accept_json_string = accept_json_string

    def __call__(self, raw: bytes) -> Any:
        if not raw.strip():
            raise StokerError(
                ErrorCode.BAD_REQUEST, f"The body is empty. Send {describe_expected(self._kind)} as JSON."
            )
        if self._accept_json_string and raw.lstrip()[:1] == b'"':
            raw = self._unwrap_json_string(raw)
        if _NUL.search(raw):
            raise StokerError(ErrorCode.BAD_REQUEST, "The body must not contain the character NUL (\\u0000).")
        try:
            return self._decoder.decode(raw)
        except RecursionError as error:
            raise _nested_too_deeply() from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if not _is_utf8(raw):
                raise StokerError(ErrorCode.BAD_REQUEST, "The body is not UTF-8.") from error
            if _is_nested_too_deeply(raw):
                raise _nested_too_deeply() from error
            if isinstance(error, msgspec.ValidationError):
                raise self._explain(str(error), raw) from error
            raise StokerError(ErrorCode.BAD_REQUEST, f"The body is not JSON: {error}.") from error

    def _unwrap_json_string(self, raw: bytes) -> bytes:
        try:
            return msgspec.json.decode(raw, type=str).encode()
        except (msgspec.DecodeError, UnicodeDecodeError):
            return raw

    def _explain(self, message: str, raw: bytes) -> StokerError:
        at = _PATH_SUFFIX.search(message)
        path = at["path"] if at else "$"
        problem = message[: at.start()] if at else message
        field = path.removeprefix("$").removeprefix(".")
        if unknown := _UNKNOWN_FIELD.match(problem):
            return self._unknown_field(field, path, unknown[1])
        if missing := _MISSING_FIELD.match(problem):
            wanted = type_at_path(self._kind, f"{path}.{missing[1]}")
            return bad_request(_join_path(field, missing[1]), f"it is required.{_usage_hint(wanted)}")
        if at and at["key"]:
            path += KEY_STEP
        kind = type_at_path(self._kind, path)
        name, violation = _find_invalid_value(raw, path, kind) or (field, _lower_first(problem))
        return bad_request(_truncate(name or "body"), f"{_truncate(violation)}.{_usage_hint(kind)}")

    def _unknown_field(self, field: str, path: str, name: str) -> StokerError:
        kinds = type_alternatives(type_at_path(self._kind, path))
        known = [field.encode_name for kind in kinds if isinstance(kind, mi.StructType) for field in kind.fields]
        close_matches = difflib.get_close_matches(name[:MAX_ECHOED_CHARS], known, n=1, cutoff=0.7)
        advice = (
            f" Did you mean {close_matches[0]}?" if close_matches else f" Use {join_choices(known)}." if known else ""
        )
        return bad_request(_truncate(_join_path(field, name)), f"there is no such field here.{advice}")


async def read_body(request: Request, limit: int) -> bytes:
    """The body of a request; 413 as soon as it exceeds the limit."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _body_too_large(limit)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _body_too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def require_json(request: Request) -> None:
    """Reject a request that does not declare a JSON body."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_MEDIA_TYPE:
        raise bad_request("Content-Type", f"it is required. Use {JSON_MEDIA_TYPE}.")


def _body_too_large(limit: int) -> StokerError:
    return StokerError(ErrorCode.TOO_LARGE, f"The body is larger than {limit} bytes.")


def _nested_too_deeply() -> StokerError:
    return StokerError(ErrorCode.BAD_REQUEST, "The body is nested too deeply.")


class FormDecoder:
    """Decodes a web form; of several values of a name the last one is used."""

    def __call__(self, raw: bytes) -> dict[str, str]:
        return dict(parse_query(raw.strip(), "body"))


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_nested_too_deeply(raw: bytes) -> bool:
    """Whether the whole body cannot be decoded because of its depth, whatever else is wrong with it."""
    try:
        msgspec.json.decode(raw)
    except RecursionError:
        return True
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return False


def _find_invalid_value(raw: bytes, path: str, kind: mi.Type | None) -> tuple[str, str] | None:
    """The path of the invalid value, and what is wrong with it; None if it cannot be determined."""
    if kind is None:
        return None
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return next(
        (
            (found.path, violation)
            for found in values_at_path(body, path)
            if (violation := describe_violation(kind, found.value))
        ),
        None,
    )


def _usage_hint(kind: mi.Type | None) -> str:
    return f" Use {describe_expected(kind)}." if kind is not None else ""


def _join_path(*parts: str) -> str:
    return ".".join(filter(None, parts))


def _truncate(text: str) -> str:
    """Echoed input is limited to a readable length."""
    return text if len(text) <= MAX_ECHOED_CHARS else f"{text[:MAX_ECHOED_CHARS]}…"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")
