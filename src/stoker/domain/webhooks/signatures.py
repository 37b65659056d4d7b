"""Signatures of the Standard Webhooks format: whoever knows the secret can tell that an event is from here."""

import base64
import binascii
import hmac
from collections.abc import Iterable

from stoker.domain.errors import bad_request

PREFIX = "whsec_"
FEWEST_BYTES = 24
MOST_BYTES = 64


def secret_text(raw: bytes) -> str:
    """A secret as people copy it."""
    return PREFIX + base64.b64encode(raw).decode()


def check_secret(text: str, field: str) -> str:
    """The secret, if it is one that can be used."""
    try:
        size = len(_key(text)) if text.startswith(PREFIX) else 0
    except (binascii.Error, ValueError):
        size = 0
    if not FEWEST_BYTES <= size <= MOST_BYTES:
        raise bad_request(
            field, f"use {PREFIX} and {FEWEST_BYTES} to {MOST_BYTES} random bytes in base64, or leave it out."
        )
    return text


def headers(secrets: Iterable[str], event_id: str, at: int, payload: bytes) -> dict[str, str]:
    """What is sent with an event at this moment: one signature for each secret that is still good."""
    seconds = str(at // 1000)
    signed = f"{event_id}.{seconds}.".encode() + payload
    signatures = (base64.b64encode(hmac.digest(_key(secret), signed, "sha256")).decode() for secret in secrets)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
