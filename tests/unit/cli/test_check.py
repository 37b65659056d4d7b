"""`stoker check` finds what is wrong and says what to do; it changes nothing."""

import contextlib
import os
import socket
import sqlite3
import time
from pathlib import Path

import pytest
from tests.conftest import LoopRun

from stoker.domain.settings import Settings
from stoker.server.checks import data, machine, server
from stoker.server.checks.finding import Verdict
from stoker.store import open_store
from stoker.store.sqlite_file import DataDirLock

UNPRIVILEGED = os.geteuid() != 0


@pytest.fixture
def folder(tmp_path: Path, loop_run: LoopRun) -> Path:
    """The data dir of a server that has been stopped."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    loop_run(open_store("", path, 1).close())
    return path


def of(folder: Path, **changes: object) -> Settings:
    return Settings(data_dir=str(folder), **changes)  # pyrefly: ignore[bad-argument-type]


def test_a_healthy_data_dir_is_healthy(folder: Path) -> None:
    found = [data.data_dir(folder), data.space(of(folder)), data.database(of(folder)), machine.clock(folder)]
    assert {finding.verdict for finding in found} == {Verdict.OK}


def test_a_data_dir_that_is_not_there_yet_is_only_a_warning(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    assert data.data_dir(absent).verdict is Verdict.WARNING
    assert data.database(of(absent)).verdict is Verdict.WARNING
    assert data.space(of(absent)).verdict is Verdict.OK
    assert not absent.exists()


def test_a_data_dir_open_to_others_is_told_how_to_close(folder: Path) -> None:
    folder.chmod(0o755)
    found = data.data_dir(folder)
    assert (found.verdict, found.advice) == (Verdict.WARNING, f"chmod 700 {folder}")


def test_a_file_in_the_place_of_the_data_dir_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert data.data_dir(tmp_path / "file").verdict is Verdict.BROKEN


@pytest.mark.skipif(not UNPRIVILEGED, reason="root may write everywhere")
def test_a_data_dir_that_cannot_be_written_is_broken(folder: Path) -> None:
    folder.chmod(0o500)
    assert data.data_dir(folder).verdict is Verdict.BROKEN


def test_the_holder_of_the_lock_is_named_and_keeps_it(folder: Path) -> None:
    assert data.holder(folder) is None
    held = DataDirLock(folder)
    try:
        assert data.holder(folder) == str(os.getpid())
        assert str(os.getpid()) in data.lock(folder, data.holder(folder)).message
    finally:
        held.release()
    assert data.holder(folder) is None


def test_a_damaged_database_is_broken(folder: Path) -> None:
    (folder / "stoker.db").write_bytes(b"not a database" * 1000)
    found = data.database(of(folder))
    assert (found.verdict, found.advice) == (Verdict.BROKEN, "stoker restore FILE")


def test_a_database_of_a_newer_version_is_broken(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as connection, connection:
        connection.execute("INSERT INTO migration (number, name, sha256, applied_at) VALUES (9999, 'x', 'y', 1)")
    found = data.database(of(folder))
    assert found.verdict is Verdict.BROKEN
    assert "newer Stoker" in found.message


def test_a_database_that_is_behind_will_be_brought_up_to_date(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as connection, connection:
        connection.execute("DELETE FROM migration WHERE number = (SELECT MAX(number) FROM migration)")
    found = data.database(of(folder))
    assert (found.verdict, found.advice) == (Verdict.WARNING, "stoker serve applies them.")


def test_a_postgres_that_does_not_answer_is_broken_and_hides_its_password(folder: Path) -> None:
    pytest.importorskip("psycopg")
    found = data.database(of(folder, database="postgresql://u:s3cret@127.0.0.1:1/x"))
    assert found.verdict is Verdict.BROKEN
    assert "s3cret" not in found.message


def test_a_clock_before_this_version_was_made_is_broken(folder: Path) -> None:
    assert machine.clock(folder, now=1_000_000_000.0).verdict is Verdict.BROKEN


def test_a_clock_behind_the_data_is_a_warning(folder: Path) -> None:
    assert machine.clock(folder, now=time.time() - 3600).verdict is Verdict.WARNING


def test_an_old_python_is_broken() -> None:
    assert machine.python_version((3, 10)).verdict is Verdict.BROKEN
    assert machine.python_version().verdict is Verdict.OK


def test_tls_files_that_are_missing_or_are_none_are_broken(folder: Path) -> None:
    absent = machine.tls(of(folder, tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "key.pem")))
    (folder / "cert.pem").write_text("no")
    (folder / "key.pem").write_text("no")
    rubbish = machine.tls(of(folder, tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "key.pem")))
    assert absent.verdict is rubbish.verdict is Verdict.BROKEN
    assert machine.tls(of(folder)).verdict is Verdict.OK


def test_a_port_taken_by_something_else_is_broken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = of(folder, port=taken.getsockname()[1])
        nobody = server.Reached(server.ok("server", ""))
        assert server.port(settings, nobody).verdict is Verdict.BROKEN
    assert server.port(settings, nobody).verdict is Verdict.OK


def test_no_server_is_broken_only_where_one_should_be() -> None:
    nowhere = "http://127.0.0.1:1"
    assert server.reach(nowhere, None, asked_for=False).finding.verdict is Verdict.WARNING
    assert server.reach(nowhere, "42", asked_for=False).finding.verdict is Verdict.BROKEN
    assert server.reach(nowhere, None, asked_for=True).finding.verdict is Verdict.BROKEN


def test_an_admin_key_that_others_can_read_is_told_how_to_close(folder: Path) -> None:
    key = folder / "admin.key"
    key.write_text("sk-x\n")
    key.chmod(0o644)
    [open_to_all, _there] = server.admin_key("http://127.0.0.1:1", folder, server.Reached(server.ok("server", "")))
    assert (open_to_all.verdict, open_to_all.advice) == (Verdict.WARNING, f"chmod 600 {key}")
