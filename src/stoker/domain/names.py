"""Names and ids: lower case, no underscores, legal in every place that a name is later put."""

import re
import secrets
import uuid
from collections.abc import Callable

from stoker.domain.errors import bad_request

SLUG = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
USER_NAME = r"^[a-z0-9]([-a-z0-9.@]{0,61}[a-z0-9])?$"

_slug = re.compile(SLUG + r"\Z")
_user_name = re.compile(USER_NAME + r"\Z")

Randomness = Callable[[int], bytes]


def check_slug(text: str, field: str) -> str:
    """A name that is also a Kubernetes name."""
    if not _slug.match(text):
        raise bad_request(
            field,
            f'"{text[:80]}" is not a name. Use 1 to 63 lower-case letters, digits and "-", '
            'beginning with a letter and not ending in "-", for example "vision-team".',
        )
    return text


def check_user_name(text: str, field: str) -> str:
    if not _user_name.match(text):
        raise bad_request(
            field,
            f'"{text[:80]}" is not a user name. Use 1 to 63 lower-case letters, digits, "-", "." and "@", '
            'for example "li.wei".',
        )
    return text


def new_uuid(randomness: Randomness = secrets.token_bytes) -> str:
    return str(uuid.UUID(bytes=randomness(16), version=4))


def ordered_uuid(now_ms: int, randomness: Randomness = secrets.token_bytes) -> str:
    """A UUID of version 7: sorts by time, so an index on it grows at one end."""
    tail = bytearray(randomness(10))
    tail[0] = 0x70 | tail[0] & 0x0F
    tail[2] = 0x80 | tail[2] & 0x3F
    return str(uuid.UUID(bytes=(now_ms & (1 << 48) - 1).to_bytes(6) + bytes(tail)))
