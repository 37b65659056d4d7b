"""The admin key of a data dir: a revoked key stays revoked, and a new one is created on the server's machine."""

import os
import secrets
from pathlib import Path

import pytest
from tests.api.harness import PASSWORD, V1, Harness

from stoker.services.identity.admin_key import write_admin_key


def _works(harness: Harness, key: str) -> bool:
    return harness.get(f"{V1}/me", bearer=key).status_code == 200


def _revoke(harness: Harness, as_: str = "admin") -> str:
    """The key in the file, after it was revoked."""
    key = harness.keys["admin"]
    [found] = [
        each for each in harness.get(f"{V1}/keys?user=admin", as_=as_).json()["items"] if "admin.key" in each["name"]
    ]
    assert harness.delete(f"{V1}/keys/{found['id']}", as_=as_).status_code == 204
    return key


def _opened(folder: Path, database: str = "") -> Harness:
    return Harness(folder, database)


def test_a_key_that_was_revoked_stays_revoked_at_the_next_start(database_url: str, tmp_path: Path) -> None:
    with _opened(tmp_path / "data", database_url) as harness:
        key = _revoke(harness)
        assert not _works(harness, key)
    with _opened(tmp_path / "data", database_url) as harness:
        assert not _works(harness, key)
        assert (tmp_path / "data" / "admin.key").read_text().strip() == key


def test_it_does_not_come_back_for_another_user_of_the_name(tmp_path: Path) -> None:
    with _opened(tmp_path / "data") as harness:
        key = harness.keys["admin"]
        harness.add_user("boss", role="admin")
        assert harness.delete(f"{V1}/users/admin", as_="boss").status_code == 204
        body = {"name": "admin", "role": "admin", "password": PASSWORD}
        assert harness.post(f"{V1}/users", as_="boss", json=body).status_code == 201
        assert not _works(harness, key)
    with _opened(tmp_path / "data") as harness:
        assert not _works(harness, key)


def test_a_new_key_works_at_once_and_the_one_before_it_no_more(harness: Harness) -> None:
    path, before = harness.installation.admin_key_file, harness.keys["admin"]
    assert write_admin_key(path.parent, secrets.token_bytes) == path
    key = path.read_text().strip()
    assert _works(harness, key)
    assert not _works(harness, before)
    assert (
        harness.get(f"{V1}/me", bearer=key).json()["user"] | {"role": "admin"}
        == (harness.get(f"{V1}/me", bearer=key).json()["user"])
    )
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_new_key_replaces_one_that_was_revoked_and_holds_over_a_start(tmp_path: Path) -> None:
    with _opened(tmp_path / "data") as harness:
        revoked = _revoke(harness)
        key = write_admin_key(tmp_path / "data", secrets.token_bytes).read_text().strip()
        assert _works(harness, key)
    with _opened(tmp_path / "data") as harness:
        assert (_works(harness, key), _works(harness, revoked)) == (True, False)


def test_a_new_key_that_is_made_while_no_server_runs_works_from_the_next_start(tmp_path: Path) -> None:
    with _opened(tmp_path / "data") as harness:
        _revoke(harness)
    key = write_admin_key(tmp_path / "data", secrets.token_bytes).read_text().strip()
    with _opened(tmp_path / "data") as harness:
        assert _works(harness, key)


def test_a_revoked_key_is_not_taken_again_because_the_file_holds_it(harness: Harness) -> None:
    key = _revoke(harness)
    path = harness.installation.admin_key_file
    write_admin_key(path.parent, secrets.token_bytes)
    path.write_text(f"{key}\n")
    assert not _works(harness, key)


def test_no_other_key_is_taken_for_it(harness: Harness) -> None:
    new = write_admin_key(harness.installation.admin_key_file.parent, secrets.token_bytes).read_text().strip()
    for key in ("sk-stoker-", new[:-1], new + "x", new.upper()):
        assert not _works(harness, key)
    assert _works(harness, harness.keys["admin"])  # nobody has used the new one yet


def test_the_key_is_of_an_admin_even_if_the_user_admin_is_none(harness: Harness) -> None:
    harness.add_user("boss", role="admin")
    assert harness.patch(f"{V1}/users/admin", as_="boss", json={"role": "user"}).status_code == 200
    key = write_admin_key(harness.installation.admin_key_file.parent, secrets.token_bytes).read_text().strip()
    assert harness.get(f"{V1}/me", bearer=key).json()["user"]["name"] == "boss"


def test_what_is_made_is_in_the_audit_log(harness: Harness) -> None:
    key = write_admin_key(harness.installation.admin_key_file.parent, secrets.token_bytes).read_text().strip()
    harness.clock.advance(seconds=1)
    assert _works(harness, key)
    harness.keys["admin"] = key
    [record] = [each for each in harness.audit(action="key.create") if each["credential"] == "data dir"]
    assert (record["actor"], record["result"]) == ("admin", "ok")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_leaves_the_file_to_the_servers_user(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    assert write_admin_key(folder, secrets.token_bytes).stat().st_uid == 12345
