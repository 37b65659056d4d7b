"""Credentials of clusters, encrypted in the database with a key that is in a file outside it.

A stored credential is the JSON of `_StoredCredential`: encrypted values, or the paths of files that hold them.
"""

import base64
import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from stoker.domain.cluster.credential import NO_CREDENTIAL, ClusterCredential
from stoker.domain.errors import ErrorCode, StokerError

KEY_FILE = "credentials.key"
KEY_BYTES = 32
NONCE_BYTES = 12
MODE = 0o600


class _StoredCredential(Struct, frozen=True, omit_defaults=True):
    files: Mapping[str, str] = {}
    encrypted: str = ""


class CredentialCipher:
    """Encrypts with AES-256-GCM. The id of the cluster is authenticated too: a value that was copied to the row of
    another cluster cannot be decrypted."""

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file

    def seal(self, credential: ClusterCredential, cluster_id: str) -> str:
        """The text to store; empty without a credential. The first one creates the key file."""
        if not credential.values:
            return ""
        if credential.by_reference:
            return msgspec.json.encode(_StoredCredential(files=credential.values)).decode()
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(NONCE_BYTES)
        plain = msgspec.json.encode(credential.values)
        sealed = AESGCM(self._read_or_create_key()).encrypt(nonce, plain, cluster_id.encode())
        return msgspec.json.encode(_StoredCredential(encrypted=base64.b64encode(nonce + sealed).decode())).decode()

    def open(self, stored: str, cluster_id: str, cluster: str) -> ClusterCredential:
        """The credential of a stored text; raises UNAVAILABLE if the key is lost or another one."""
        if not stored:
            return NO_CREDENTIAL
        credential = msgspec.json.decode(stored, type=_StoredCredential)
        if credential.files:
            return ClusterCredential(credential.files, by_reference=True)
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._read_key()
        if key is None:
            raise self._lost(f"{self._key_file} does not exist", cluster)
        sealed = base64.b64decode(credential.encrypted)
        try:
            plain = AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], cluster_id.encode())
        except (InvalidTag, ValueError) as error:
            raise self._lost(f"{self._key_file} is not the key that it was encrypted with", cluster) from error
        return ClusterCredential(msgspec.json.decode(plain, type=dict[str, str]))

    def _read_or_create_key(self) -> bytes:
        if (key := self._read_key()) is not None:
            return key
        temporary = self._key_file.with_name(f"{KEY_FILE}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):  # another request was first: its key is used
                os.link(temporary, self._key_file)
        finally:
            temporary.unlink(missing_ok=True)
        key = self._read_key()
        if key is None:
            raise StokerError(ErrorCode.UNAVAILABLE, f"The key file {self._key_file} cannot be created.")
        return key

    def _read_key(self) -> bytes | None:
        try:
            text = self._key_file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StokerError(
                ErrorCode.UNAVAILABLE,
                f"The key file {self._key_file} cannot be read: {error.strerror}.",
                hint="It has to belong to the user of the server, with mode 600.",
            ) from error
        try:
            key = base64.b64decode(text.strip(), validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise StokerError(
                ErrorCode.UNAVAILABLE,
                f"The key file {self._key_file} is damaged.",
                hint="Restore it from the backup of the data directory.",
            )
        return key

    def _lost(self, why: str, cluster: str) -> StokerError:
        return StokerError(
            ErrorCode.UNAVAILABLE,
            f'The credential of cluster "{cluster}" cannot be decrypted: {why}.',
            hint=f"Restore the key file, or give it again with: stoker cluster edit {cluster} --tls-dir DIR",
        )
