"""How secrets look, and what is kept of them."""

import hashlib

KEY_PREFIX = "sk-stoker-"
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def readable(raw: bytes) -> str:
    """Bytes as letters and digits that are not mistaken for each other."""
    number = int.from_bytes(raw)
    letters = []
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def api_key(raw: bytes) -> str:
    return KEY_PREFIX + readable(raw)


def sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def hint_of(secret: str) -> str:
    """Enough of a key to recognise it, too little to use it."""
    return secret[: len(KEY_PREFIX) + 4] + "…"
