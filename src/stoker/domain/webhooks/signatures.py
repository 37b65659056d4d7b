"""Signatures in the Standard Webhooks format, with which a receiver verifies the origin of an event."""

import base64
import binascii
import hmac
from collections.abc import Iterable

from stoker.domain.errors import bad_request

SECRET_PREFIX = "whsec_"
MIN_SECRET_BYTES = 24
MAX_SECRET_BYTES = 64


def encode_secret(raw: bytes) -> str:
    """The text form of a secret."""
    return SECRET_PREFIX + base64.b64encode(raw).decode()


def check_secret(text: str, field: str) -> str:
    """The secret, if it is valid."""
    try:
        size = len(_decode_key(text)) if text.startswith(SECRET_PREFIX) else 0
    except (binascii.Error, ValueError):
        size = 0
    if not MIN_SECRET_BYTES <= size <= MAX_SECRET_BYTES:
        raise bad_request(
            field,
            f"use {SECRET_PREFIX} and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} random bytes in base64, "
            "or leave it out.",
        )
    return text


def signature_headers(secrets: Iterable[str], event_id: str, at: int, payload: bytes) -> dict[str, str]:
    """The headers of a delivery: one signature for each valid secret."""
    seconds = str(at // 1000)
    signed = f"{event_id}.{seconds}.".encode() + payload
    signatures = (base64.b64encode(hmac.digest(_decode_key(secret), signed, "sha256")).decode() for secret in secrets)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _decode_key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
