"""Names and IDs: lower case without underscores, so that they are valid everywhere they are used."""

import functools
import re
import secrets
import uuid
from collections.abc import Callable

from stoker.domain.errors import bad_request

SLUG_PATTERN = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
USER_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.@]{0,61}[a-z0-9])?$"

NATURAL_SORT_CACHE_SIZE = 1 << 16

_SLUG_REGEX = re.compile(SLUG_PATTERN + r"\Z")
_USER_NAME_REGEX = re.compile(USER_NAME_PATTERN + r"\Z")
MAX_FOREIGN_NAME = 45
FOREIGN_SUFFIX_LENGTH = 8
_NOT_SLUG_REGEX = re.compile(r"[^a-z0-9]+")
_DIGITS_REGEX = re.compile(r"[0-9]+")

RandomBytes = Callable[[int], bytes]


def check_slug(text: str, field: str) -> str:
    """Check that the text is a valid Kubernetes name."""
    if not _SLUG_REGEX.match(text):
        raise bad_request(
            field,
            f'"{text[:80]}" is not a name. Use 1 to 63 lower-case letters, digits and "-", '
            'beginning with a letter and not ending in "-", for example "vision-team".',
        )
    return text


def check_user_name(text: str, field: str) -> str:
    if not _USER_NAME_REGEX.match(text):
        raise bad_request(
            field,
            f'"{text[:80]}" is not a user name. Use 1 to 63 lower-case letters, digits, "-", "." and "@", '
            'for example "li.wei".',
        )
    return text


def to_slug(name: str, uid: str) -> str:
    """A slug for a name that was given elsewhere, unique by the uid of its object."""
    text = _NOT_SLUG_REGEX.sub("-", name.lower()).strip("-")[:MAX_FOREIGN_NAME].rstrip("-")
    suffix = uid.replace("-", "")[-FOREIGN_SUFFIX_LENGTH:]
    return f"{text if text[:1].isalpha() else f'w-{text}'.rstrip('-')}-{suffix}"


@functools.lru_cache(NATURAL_SORT_CACHE_SIZE)
def natural_sort_key(name: str) -> str:
    """A sort key that puts `gpu-node-2` before `gpu-node-10`; it is text, so that databases can sort by it."""
    return _DIGITS_REGEX.sub(_length_prefixed, name)


def _length_prefixed(found: re.Match[str]) -> str:
    """A number prefixed with its length; longer numbers are larger."""
    digits = found[0].lstrip("0") or "0"
    return f"{len(digits):03d}{digits}"


def new_uuid4(randomness: RandomBytes = secrets.token_bytes) -> str:
    return str(uuid.UUID(bytes=randomness(16), version=4))


def new_uuid7(now_ms: int, randomness: RandomBytes = secrets.token_bytes) -> str:
    """A UUIDv7, which sorts by time, so that an index on it grows at one end."""
    tail = bytearray(randomness(10))
    tail[0] = 0x70 | tail[0] & 0x0F
    tail[2] = 0x80 | tail[2] & 0x3F
    return str(uuid.UUID(bytes=(now_ms & (1 << 48) - 1).to_bytes(6) + bytes(tail)))
