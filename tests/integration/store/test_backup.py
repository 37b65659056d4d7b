"""Backups are whole, restores are all or nothing, and a running server goes on through both."""

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import LoopRun
from tests.integration.store.conftest import Disk

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.migrate import Migration, shipped_migrations
from stoker.store.db.sqlite import backup as backups
from stoker.store.db.sqlite.backup import backup, restore
from stoker.store.db.sqlite.connection import DATABASE_FILE
from stoker.store.db.sqlite.store import SqliteStore

SERVER = """
import asyncio, json, sys
from pathlib import Path
from stoker.store.db.sqlite.store import SqliteStore

def rows(transaction):
    return transaction.fetch_all("SELECT name, value FROM sequence ORDER BY name")

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *rest = line.split()
        if verb == "put":
            sql = "INSERT INTO sequence (name, value) VALUES (:name, 1)"
            answer = await store.write(lambda transaction: transaction.execute(sql, {"name": rest[0]}))
        else:
            answer = await getattr(store, verb)(rows)
        print(json.dumps(answer), flush=True)
    await store.close()

asyncio.run(main())
"""


class StoreProcess:
    """A store in another process, asked by name of its method."""

    def __init__(self, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, data_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._out, self._in = self._process.stdout, self._process.stdin
        assert self._out.readline() == "ready\n"

    def ask(self, *words: str) -> Any:
        print(*words, file=self._in, flush=True)
        return msgspec.json.decode(self._out.readline())

    def names(self, how: str) -> list[str]:
        return [name for name, _ in self.ask(how)]

    def stop(self) -> None:
        self._in.close()
        assert self._process.wait(10) == 0
        self._out.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def server(data_dir: Path) -> Iterator[StoreProcess]:
    running = StoreProcess(data_dir)
    yield running
    running.stop()


@pytest.fixture
def fill(data_dir: Path, loop_run: LoopRun) -> Callable[..., None]:
    """Adds rows to the data dir's database while no server runs."""

    def put(*names: str) -> None:
        store = SqliteStore(data_dir)
        sql = "INSERT INTO sequence (name, value) VALUES (:name, 1)"
        for name in names:
            loop_run(store.write(lambda transaction, name=name: transaction.execute(sql, {"name": name})))
        loop_run(store.close())

    return put


def names_in(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sequence ORDER BY name")]


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def refused(code: ErrorCode, sentence: str) -> Any:
    return pytest.raises(StokerError, match=sentence, check=lambda error: error.code is code)


def test_a_backup_of_a_running_server_has_all_that_was_answered(
    data_dir: Path, tmp_path: Path, server: StoreProcess
) -> None:
    target = tmp_path / "copy.db"
    server.ask("put", "a")
    assert (data_dir / f"{DATABASE_FILE}-wal").stat().st_size > 0
    report = backup(data_dir, target, force=False)
    assert names_in(target) == ["a"]
    assert report.path == target
    assert report.bytes == target.stat().st_size
    assert report.migrations == len(shipped_migrations("sqlite"))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert files(tmp_path) == {"copy.db", "data"}
    assert server.ask("put", "b") == 1


def test_a_backup_taken_among_writes_is_of_one_moment(
    data_dir: Path, tmp_path: Path, fill: Callable[..., None]
) -> None:
    fill("left", "right")
    stop = threading.Event()

    def churn() -> None:
        with contextlib.closing(
            sqlite3.connect(data_dir / DATABASE_FILE, isolation_level=None, timeout=10)
        ) as connection:
            while not stop.is_set():
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("UPDATE sequence SET value = value + 1 WHERE name = 'left'")
                connection.execute("UPDATE sequence SET value = value + 1 WHERE name = 'right'")
                connection.execute("COMMIT")

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        seen = set()
        for _ in range(10):
            backup(data_dir, tmp_path / "copy.db", force=True)
            with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
                values = [value for (value,) in copy.execute("SELECT value FROM sequence")]
            assert values[0] == values[1]
            seen.add(values[0])
    finally:
        stop.set()
        writer.join()
    assert len(seen) > 1


def test_a_backup_overwrites_only_when_told(data_dir: Path, tmp_path: Path, fill: Callable[..., None]) -> None:
    fill("a")
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with refused(ErrorCode.ALREADY_EXISTS, "already exists"):
        backup(data_dir, target, force=False)
    assert target.read_text() == "precious"
    backup(data_dir, target, force=True)
    assert names_in(target) == ["a"]


def test_a_backup_never_replaces_the_database_itself(data_dir: Path, fill: Callable[..., None]) -> None:
    fill("a")
    with refused(ErrorCode.CONFLICT, "is the database itself"):
        backup(data_dir, data_dir / "." / DATABASE_FILE, force=True)
    assert names_in(data_dir / DATABASE_FILE) == ["a"]


def test_what_keeps_a_backup_from_being_written_is_said(
    data_dir: Path, tmp_path: Path, fill: Callable[..., None]
) -> None:
    with refused(ErrorCode.NOT_FOUND, "There is no database"):
        backup(data_dir, tmp_path / "copy.db", force=False)
    fill("a")
    with refused(ErrorCode.UNAVAILABLE, "cannot be written: No such file or directory"):
        backup(data_dir, tmp_path / "absent" / "copy.db", force=False)
    with refused(ErrorCode.ALREADY_EXISTS, "is a folder"):
        backup(data_dir, tmp_path, force=True)
    with refused(ErrorCode.UNAVAILABLE, "cannot be written: "):
        backup(data_dir, Path("/proc/copy.db"), force=False)


def test_a_backup_onto_a_full_disk_leaves_the_old_one(disk: Disk, data_dir: Path, fill: Callable[..., None]) -> None:
    fill("a")
    target = disk.folder / "stoker.db.copy"
    target.write_text("precious")
    disk.fill()
    with refused(ErrorCode.UNAVAILABLE, "no space left|cannot be written"):
        backup(data_dir, target, force=True)
    assert target.read_text() == "precious"
    disk.free()
    assert files(disk.folder) == {"stoker.db.copy"}
    backup(data_dir, target, force=True)
    assert names_in(target) == ["a"]


def test_a_restore_onto_a_full_disk_leaves_the_database_as_it_was(
    disk: Disk, data_dir: Path, tmp_path: Path, fill: Callable[..., None]
) -> None:
    fill("a")
    backup(data_dir, tmp_path / "copy.db", force=False)
    fill("b")
    backup(data_dir, disk.folder / DATABASE_FILE, force=False)
    disk.fill()
    with refused(ErrorCode.UNAVAILABLE, "no space left|cannot be written"):
        restore(tmp_path / "copy.db", disk.folder)
    disk.free()
    assert not list(disk.folder.glob(".*"))
    assert names_in(disk.folder / DATABASE_FILE) == ["a", "b"]
    restore(tmp_path / "copy.db", disk.folder)
    assert names_in(disk.folder / DATABASE_FILE) == ["a"]


def test_a_restore_under_a_running_server_is_seen_by_all_its_connections(
    data_dir: Path, tmp_path: Path, server: StoreProcess
) -> None:
    for name in "ab":
        server.ask("put", name)
    backup(data_dir, tmp_path / "copy.db", force=False)
    for number in range(50):
        server.ask("put", f"later{number}")
    assert len(server.names("read")) == len(server.names("read_inline")) == 52
    report = restore(tmp_path / "copy.db", data_dir)
    assert report.server_was_running
    assert server.names("read") == server.names("read_inline") == server.names("write") == ["a", "b"]
    assert server.ask("put", "c") == 1
    assert server.names("read_inline") == ["a", "b", "c"]
    assert report.previous_copy is not None
    assert len(names_in(report.previous_copy)) == 52
    assert report.previous_copy.name.startswith("stoker.db.before-restore-2")
    restore(report.previous_copy, data_dir)
    assert len(server.names("read")) == 52
    change(data_dir / DATABASE_FILE, "PRAGMA integrity_check")


def test_a_restore_without_a_server_keeps_what_was_there(
    data_dir: Path, tmp_path: Path, fill: Callable[..., None]
) -> None:
    fill("a")
    backup(data_dir, tmp_path / "copy.db", force=False)
    fill("b")
    report = restore(tmp_path / "copy.db", data_dir)
    assert not report.server_was_running
    assert (report.path, report.migrations, report.pending_migrations) == (
        data_dir / DATABASE_FILE,
        len(shipped_migrations("sqlite")),
        0,
    )
    assert names_in(data_dir / DATABASE_FILE) == ["a"]
    assert report.previous_copy is not None
    assert names_in(report.previous_copy) == ["a", "b"]
    fill("c")
    assert names_in(data_dir / DATABASE_FILE) == ["a", "c"]


def test_a_backup_can_be_restored_on_a_new_machine(data_dir: Path, tmp_path: Path, fill: Callable[..., None]) -> None:
    fill("a")
    backup(data_dir, tmp_path / "copy.db", force=False)
    report = restore(tmp_path / "copy.db", tmp_path / "new" / "data")
    assert report.previous_copy is None
    assert names_in(tmp_path / "new" / "data" / DATABASE_FILE) == ["a"]


def test_a_damaged_database_steps_aside_for_a_restore(
    data_dir: Path, tmp_path: Path, fill: Callable[..., None]
) -> None:
    fill("a")
    backup(data_dir, tmp_path / "copy.db", force=False)
    (data_dir / DATABASE_FILE).write_bytes(b"\0" * 100 + b"garbage" * 1000)
    with refused(ErrorCode.CONFLICT, "damaged"):
        backup(data_dir, tmp_path / "other.db", force=False)
    report = restore(tmp_path / "copy.db", data_dir)
    assert names_in(data_dir / DATABASE_FILE) == ["a"]
    assert report.previous_copy is not None
    assert b"garbage" in report.previous_copy.read_bytes()


def test_what_is_no_healthy_backup_is_refused_and_changes_nothing(
    data_dir: Path, tmp_path: Path, fill: Callable[..., None]
) -> None:
    fill("a", "b")
    before = files(data_dir)
    good = tmp_path / "good.db"
    backup(data_dir, good, force=False)

    def broken(name: str, *statements: str) -> Path:
        path = tmp_path / f"{name}.db"
        shutil.copy(good, path)
        change(path, *statements)
        return path

    torn = broken("torn")
    content = bytearray(torn.read_bytes())
    for page in range(4096 * 2, len(content), 4096):
        content[page : page + 512] = b"\xff" * 512
    torn.write_bytes(content)
    text = tmp_path / "text.db"
    text.write_text("not a database\n" * 100)
    empty = tmp_path / "empty.db"
    empty.touch()
    newer = "INSERT INTO migration VALUES (9999, 'tomorrow', '0', 1)"
    orphan = "INSERT INTO workspace_member VALUES (7, 'nobody', 'member', 0)"
    for path, sentence in (
        (text, "is not a Stoker database"),
        (empty, "is not a Stoker database"),
        (torn, "is damaged|is not a Stoker database"),
        (broken("newer", newer), "newer Stoker"),
        (broken("pre-release", "UPDATE migration SET name = 'identity'"), "made by a pre-release version of Stoker"),
        (broken("other", "UPDATE migration SET sha256 = 'x'"), "is not the one this version ships"),
        (broken("orphan", "PRAGMA foreign_keys = OFF", orphan), "a row of workspace_member refers to a missing row"),
        (data_dir / DATABASE_FILE, "is the database itself"),
    ):
        with refused(ErrorCode.CONFLICT, sentence):
            restore(path, data_dir)
    with refused(ErrorCode.NOT_FOUND, "There is no backup"):
        restore(tmp_path / "absent.db", data_dir)
    assert files(data_dir) == before
    assert names_in(data_dir / DATABASE_FILE) == ["a", "b"]


def test_a_pre_release_database_is_not_backed_up(data_dir: Path, tmp_path: Path, fill: Callable[..., None]) -> None:
    fill("a")
    change(data_dir / DATABASE_FILE, "UPDATE migration SET name = 'identity'")
    with refused(ErrorCode.CONFLICT, "made by a pre-release version of Stoker"):
        backup(data_dir, tmp_path / "copy.db", force=False)
    assert not (tmp_path / "copy.db").exists()


def test_an_older_backup_is_restored_only_while_the_server_is_stopped(
    data_dir: Path, tmp_path: Path, server: StoreProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.ask("put", "a")
    backup(data_dir, tmp_path / "old.db", force=False)
    server.ask("put", "b")
    coming = [*shipped_migrations("sqlite"), Migration(9999, "tomorrow", "CREATE TABLE tomorrow (id INTEGER) STRICT;")]
    monkeypatch.setattr(backups, "shipped_migrations", lambda _dialect: coming)
    with refused(ErrorCode.CONFLICT, "1 migrations behind, and a server is running") as told:
        restore(tmp_path / "old.db", data_dir)
    assert "Stop the server" in told.value.hint
    assert server.names("read") == ["a", "b"]
    assert not list(data_dir.glob("*before-restore*"))


def test_a_restore_that_fails_half_way_leaves_the_database_as_it_was(
    data_dir: Path, tmp_path: Path, fill: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill("a")
    backup(data_dir, tmp_path / "copy.db", force=False)
    copy = backups._copy_pages

    def half(source: sqlite3.Connection, destination: sqlite3.Connection) -> None:
        if destination.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            destination.execute("BEGIN IMMEDIATE")
            destination.execute("DELETE FROM sequence")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        copy(source, destination)

    fill("b")
    monkeypatch.setattr(backups, "_copy_pages", half)
    with refused(ErrorCode.UNAVAILABLE, "no space left"):
        restore(tmp_path / "copy.db", data_dir)
    assert names_in(data_dir / DATABASE_FILE) == ["a", "b"]
    (data_dir / DATABASE_FILE).write_bytes(b"garbage" * 1000)
    monkeypatch.setattr(backups, "_fsync", half)
    with pytest.raises(StokerError):
        restore(tmp_path / "copy.db", data_dir)
    assert (data_dir / DATABASE_FILE).read_bytes() == b"garbage" * 1000
