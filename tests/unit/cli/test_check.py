"""`stoker check` reports problems with advice and changes nothing."""

import contextlib
import os
import socket
import sqlite3
import time
from pathlib import Path

import pytest
from tests.conftest import LoopRun

from stoker.domain.diagnostics import CheckStatus
from stoker.domain.settings.schema import Settings
from stoker.server.diagnostics import host, running_server, storage
from stoker.store import open_store
from stoker.store.db.sqlite.connection import DataDirLock

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
    found = [
        storage.check_data_dir(folder),
        storage.check_disk_space(of(folder)),
        storage.check_database(of(folder)),
        host.check_clock(folder),
    ]
    assert {finding.verdict for finding in found} == {CheckStatus.OK}


def test_a_data_dir_that_is_not_there_yet_is_only_a_warning(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    assert storage.check_data_dir(absent).verdict is CheckStatus.WARNING
    assert storage.check_database(of(absent)).verdict is CheckStatus.WARNING
    assert storage.check_disk_space(of(absent)).verdict is CheckStatus.OK
    assert not absent.exists()


def test_a_data_dir_open_to_others_is_told_how_to_close(folder: Path) -> None:
    folder.chmod(0o755)
    found = storage.check_data_dir(folder)
    assert (found.verdict, found.advice) == (CheckStatus.WARNING, f"chmod 700 {folder}")


def test_a_file_in_the_place_of_the_data_dir_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert storage.check_data_dir(tmp_path / "file").verdict is CheckStatus.BROKEN


@pytest.mark.skipif(not UNPRIVILEGED, reason="root may write everywhere")
def test_a_data_dir_that_cannot_be_written_is_broken(folder: Path) -> None:
    folder.chmod(0o500)
    assert storage.check_data_dir(folder).verdict is CheckStatus.BROKEN


def test_the_holder_of_the_lock_is_named_and_keeps_it(folder: Path) -> None:
    assert storage.lock_holder(folder) is None
    held = DataDirLock(folder)
    try:
        assert storage.lock_holder(folder) == str(os.getpid())
        assert str(os.getpid()) in storage.check_lock(folder, storage.lock_holder(folder)).message
    finally:
        held.release()
    assert storage.lock_holder(folder) is None


def test_a_damaged_database_is_broken(folder: Path) -> None:
    (folder / "stoker.db").write_bytes(b"not a database" * 1000)
    found = storage.check_database(of(folder))
    assert (found.verdict, found.advice) == (CheckStatus.BROKEN, "stoker restore FILE")


def test_a_database_of_a_newer_version_is_broken(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as connection, connection:
        connection.execute("INSERT INTO migration (number, name, sha256, applied_at) VALUES (9999, 'x', 'y', 1)")
    found = storage.check_database(of(folder))
    assert found.verdict is CheckStatus.BROKEN
    assert "newer Stoker" in found.message


def test_a_database_that_is_behind_will_be_brought_up_to_date(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as connection, connection:
        connection.execute("DELETE FROM migration WHERE number = (SELECT MAX(number) FROM migration)")
    found = storage.check_database(of(folder))
    assert (found.verdict, found.advice) == (CheckStatus.WARNING, "stoker serve applies them.")


def test_a_postgres_that_does_not_answer_is_broken_and_hides_its_password(folder: Path) -> None:
    pytest.importorskip("psycopg")
    found = storage.check_database(of(folder, database="postgresql://u:s3cret@127.0.0.1:1/x"))
    assert found.verdict is CheckStatus.BROKEN
    assert "s3cret" not in found.message


def test_a_clock_before_this_version_was_made_is_broken(folder: Path) -> None:
    assert host.check_clock(folder, now=1_000_000_000.0).verdict is CheckStatus.BROKEN


def test_a_clock_behind_the_data_is_a_warning(folder: Path) -> None:
    assert host.check_clock(folder, now=time.time() - 3600).verdict is CheckStatus.WARNING


def test_an_old_python_is_broken() -> None:
    assert host.check_python_version((3, 10)).verdict is CheckStatus.BROKEN
    assert host.check_python_version().verdict is CheckStatus.OK


def test_tls_files_that_are_missing_or_are_none_are_broken(folder: Path) -> None:
    absent = host.check_tls(of(folder, tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "key.pem")))
    (folder / "cert.pem").write_text("no")
    (folder / "key.pem").write_text("no")
    rubbish = host.check_tls(of(folder, tls_cert=str(folder / "cert.pem"), tls_key=str(folder / "key.pem")))
    assert absent.verdict is rubbish.verdict is CheckStatus.BROKEN
    assert host.check_tls(of(folder)).verdict is CheckStatus.OK


def test_a_port_taken_by_something_else_is_broken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = of(folder, port=taken.getsockname()[1])
        assert running_server.check_port(settings, None).verdict is CheckStatus.BROKEN
    assert running_server.check_port(settings, None).verdict is CheckStatus.OK


def test_no_server_is_broken_only_where_one_should_be() -> None:
    nowhere = "http://127.0.0.1:1"
    assert running_server.probe_server(nowhere, None, asked_for=False).finding.verdict is CheckStatus.WARNING
    assert running_server.probe_server(nowhere, "42", asked_for=False).finding.verdict is CheckStatus.BROKEN
    assert running_server.probe_server(nowhere, None, asked_for=True).finding.verdict is CheckStatus.BROKEN


def test_an_admin_key_that_others_can_read_is_told_how_to_close(folder: Path) -> None:
    key = folder / "admin.key"
    key.write_text("sk-x\n")
    key.chmod(0o644)
    [open_to_all, _there] = running_server.check_admin_key(folder, None)
    assert (open_to_all.verdict, open_to_all.advice) == (CheckStatus.WARNING, f"chmod 600 {key}")


def test_a_cluster_that_nobody_drives_is_a_warning_with_what_to_do() -> None:
    message = 'No server drives cluster "demo": nothing in it starts, stops or is observed. Start it with --demo.'
    parts = (
        running_server._ReadinessPart("database", True, "SQLite"),
        running_server._ReadinessPart("cluster", True, message),
    )
    reached = running_server.ServerProbe(running_server.ok("server", ""), running_server._Readiness(True, parts))
    [found] = running_server.check_clusters(reached)
    assert (found.verdict, found.name, found.advice) == (CheckStatus.WARNING, "cluster", "Start it with --demo.")
    assert found.message.startswith('No server drives cluster "demo"')
    assert list(running_server.check_clusters(running_server.ServerProbe(running_server.ok("server", "")))) == []
