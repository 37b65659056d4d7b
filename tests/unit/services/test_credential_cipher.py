"""Credentials of clusters: encrypted with a key outside the database."""

import stat
from pathlib import Path

import pytest

from stoker.domain.cluster.credential import NO_CREDENTIAL, ClusterCredential
from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.fleet.credential_cipher import KEY_FILE, CredentialCipher

SECRET = "-----BEGIN PRIVATE KEY-----"
CREDENTIAL = ClusterCredential({"ca": "authority", "key": SECRET})


@pytest.fixture
def cipher(tmp_path: Path) -> CredentialCipher:
    return CredentialCipher(tmp_path / KEY_FILE)


def test_what_was_sealed_can_be_opened_and_not_read(cipher: CredentialCipher, tmp_path: Path) -> None:
    stored = cipher.seal(CREDENTIAL, "c1")
    assert SECRET not in stored
    assert cipher.open(stored, "c1", "lab") == CREDENTIAL
    assert CredentialCipher(tmp_path / KEY_FILE).open(stored, "c1", "lab") == CREDENTIAL
    assert cipher.seal(CREDENTIAL, "c1") != stored


def test_the_key_file_is_private_and_made_once(cipher: CredentialCipher, tmp_path: Path) -> None:
    key_file = tmp_path / KEY_FILE
    cipher.seal(CREDENTIAL, "c1")
    first = key_file.read_bytes()
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    cipher.seal(CREDENTIAL, "c2")
    assert key_file.read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_nothing_and_references_need_no_key(cipher: CredentialCipher, tmp_path: Path) -> None:
    files = ClusterCredential({"key": "/etc/stoker/lab/key.pem"}, by_reference=True)
    assert cipher.open(cipher.seal(files, "c1"), "c1", "lab") == files
    assert cipher.seal(NO_CREDENTIAL, "c1") == ""
    assert cipher.open("", "c1", "lab") == NO_CREDENTIAL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "does not exist"),
        (b"A" * 43 + b"=\n", "is not the key"),
        (b"short", "is damaged"),
        (b"\xff\xfe", "damaged"),
    ],
)
def test_a_lost_key_is_said(cipher: CredentialCipher, tmp_path: Path, key: bytes | None, words: str) -> None:
    stored = cipher.seal(CREDENTIAL, "c1")
    (tmp_path / KEY_FILE).unlink()
    if key is not None:
        (tmp_path / KEY_FILE).write_bytes(key)
    with pytest.raises(StokerError, match=words) as raised:
        cipher.open(stored, "c1", "lab")
    assert raised.value.code is ErrorCode.UNAVAILABLE
    assert raised.value.hint


def test_a_credential_that_was_copied_to_another_cluster_is_refused(cipher: CredentialCipher) -> None:
    stored = cipher.seal(CREDENTIAL, "c1")
    with pytest.raises(StokerError, match='cluster "other"'):
        cipher.open(stored, "c2", "other")


def test_a_credential_does_not_show_its_values() -> None:
    assert SECRET not in repr(CREDENTIAL)
    assert repr(CREDENTIAL) == "ClusterCredential(ca, key)"
