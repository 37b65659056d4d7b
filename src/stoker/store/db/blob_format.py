"""Format versions of binary values. The first byte of every binary value is its version.

A value of an unknown version is rejected, because decoding it by guess would show wrong numbers.
"""

from stoker.domain.errors import ErrorCode, StokerError

MAX_VERSION = 0x1F
"""Values from before formats had versions begin with a higher byte."""


def add_version(version: int, body: bytes) -> bytes:
    return bytes((version,)) + body


def strip_version(what: str, version: int, data: bytes) -> bytes:
    """The body of a value of this version; `what` names such values in error messages, in the plural."""
    if data and data[0] == version:
        return data[1:]
    if not data or data[0] > MAX_VERSION:
        message = f"The {what} in this database have a pre-release format and cannot be read."
        raise StokerError(ErrorCode.UNAVAILABLE, message, hint="Start with a new data dir, or delete them.")
    message = (
        f"The {what} in this database were written by a newer Stoker (format {data[0]}; this version reads {version})."
    )
    raise StokerError(ErrorCode.UNAVAILABLE, message, hint="Start the newer version on this database.")
