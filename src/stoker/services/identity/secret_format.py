"""The format of API keys and other secrets, and the hash that is stored of them."""

import hashlib

KEY_PREFIX = "sk-stoker-"
_BASE58_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def to_base58(raw: bytes) -> str:
    """Bytes in base 58, whose letters and digits cannot be mistaken for each other."""
    number = int.from_bytes(raw)
    letters = []
    while number:
        number, digit = divmod(number, len(_BASE58_ALPHABET))
        letters.append(_BASE58_ALPHABET[digit])
    return "".join(letters)


def format_api_key(raw: bytes) -> str:
    return KEY_PREFIX + to_base58(raw)


def sha256_hex(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def key_hint(secret: str) -> str:
    """The first characters of a key: enough to recognise it, too few to use it."""
    return secret[: len(KEY_PREFIX) + 4] + "…"
