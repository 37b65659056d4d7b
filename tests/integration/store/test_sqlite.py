"""SQLite on disks and folders that fail."""

import asyncio
import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import LoopRun
from tests.integration.store.conftest import Disk

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.base import NO_PARAMS, Params, Transaction
from stoker.store.db.sqlite.connection import BUSY_TIMEOUT_MS, DATABASE_FILE
from stoker.store.db.sqlite.disk_reserve import STATVFS_TTL_SECONDS
from stoker.store.db.sqlite.store import SqliteStore
from stoker.store.db.sqlite.writer import MAX_BATCH_SECONDS

PUT = "INSERT INTO secret (name, value, created_at) VALUES (:name, :value, 0)"
NAMES = "SELECT name FROM secret ORDER BY name"
WAIT = 10.0


def put(name: str, size: int = 10) -> Callable[[Transaction], int]:
    return lambda transaction: transaction.execute(PUT, {"name": name, "value": "x" * size})


def names(transaction: Transaction) -> list[str]:
    return [row[0] for row in transaction.fetch_all(NAMES)]


def test_a_full_disk_fails_the_write_and_nothing_else(disk: Disk, loop_run: LoopRun) -> None:
    async def main() -> None:
        store = SqliteStore(disk.folder)
        await store.write(put("before"))
        disk.fill()
        for answer in await asyncio.gather(
            *[(store.write, store.write_inline)[n % 2](put(f"lost{n}", 300_000)) for n in range(4)],
            return_exceptions=True,
        ):
            assert isinstance(answer, StokerError)
            assert answer.code is ErrorCode.UNAVAILABLE
            assert str(store.path) in answer.message
            assert "df" in answer.hint
        assert await store.read(names) == await store.read_inline(names) == ["before"]
        disk.free()
        await store.write_inline(put("after", 300_000))
        assert await store.read(names) == ["after", "before"]
        await store.close()
        again = SqliteStore(disk.folder)
        assert await again.read_inline(names) == ["after", "before"]
        assert await again.read_inline(lambda transaction: transaction.fetch_all("PRAGMA integrity_check")) == [("ok",)]
        await again.close()

    loop_run(main())


def test_what_was_taken_on_before_the_end_is_written(tmp_path: Path, loop_run: LoopRun) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path)
        some = [asyncio.ensure_future((store.write, store.write_inline)[n % 2](put(f"{n:02}"))) for n in range(40)]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.wait_for(asyncio.gather(*some), WAIT) == [1] * 40
        for write in (store.write, store.write_inline):
            with pytest.raises(StokerError, match="its database is closed"):
                await write(put("late"))
        again = SqliteStore(tmp_path)
        assert await again.read_inline(names) == [f"{n:02}" for n in range(40)]
        await again.close()

    loop_run(main())


def test_short_writes_wait_for_a_long_one_and_go_on_after_it(tmp_path: Path, loop_run: LoopRun) -> None:
    started, go = threading.Event(), threading.Event()

    def long(transaction: Transaction) -> int:
        started.set()
        assert go.wait(WAIT)
        return put("long")(transaction)

    async def main() -> None:
        store = SqliteStore(tmp_path)
        first = asyncio.ensure_future(store.write(long))
        while not started.is_set():
            await asyncio.sleep(0.001)
        short = [asyncio.ensure_future(store.write_inline(put(f"short{n}"))) for n in range(5)]
        await asyncio.sleep(0.05)
        assert not any(each.done() for each in short), "and the event loop goes on meanwhile"
        go.set()
        await asyncio.wait_for(asyncio.gather(first, *short), WAIT)
        assert len(await store.read_inline(names)) == 6
        await store.close()

    loop_run(main())


def test_short_writes_take_turns_with_long_ones(tmp_path: Path, loop_run: LoopRun) -> None:
    done = 0

    def long(transaction: Transaction) -> None:
        nonlocal done
        time.sleep(1.5 * MAX_BATCH_SECONDS)
        done += put(f"long{done}")(transaction)

    async def main() -> None:
        store = SqliteStore(tmp_path)
        many = [asyncio.ensure_future(store.write(long)) for _ in range(20)]
        await many[0]
        begun = done
        await store.write_inline(put("short"))
        assert done <= begun + 2
        await asyncio.wait_for(asyncio.gather(*many), WAIT)
        await store.close()

    loop_run(main())


def test_the_event_loop_goes_on_while_another_process_has_locked_the_database(
    tmp_path: Path, loop_run: LoopRun
) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path)
        with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as shell:
            shell.execute("BEGIN IMMEDIATE")
            short = [asyncio.ensure_future(store.write_inline(put(f"{n}"))) for n in range(3)]
            begun = time.monotonic()
            for _ in range(50):
                await asyncio.sleep(0.01)
            assert time.monotonic() - begun < 0.5 * BUSY_TIMEOUT_MS / 1000
            assert not any(each.done() for each in short)
            shell.execute("COMMIT")
        assert await asyncio.wait_for(asyncio.gather(*short), WAIT) == [1, 1, 1]
        await store.close()

    loop_run(main())


class FailingConnection:
    """A connection whose next commit fails, after a while."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.begun = threading.Event()
        self.go = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, sql: str, params: Params = NO_PARAMS) -> sqlite3.Cursor:
        if sql == "COMMIT" and not self.begun.is_set():
            self.begun.set()
            assert self.go.wait(WAIT)
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(sql, params)


def test_what_could_not_be_committed_while_the_store_was_closed_is_written_again(
    tmp_path: Path, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path)
        failing = FailingConnection(store._write_connection)
        monkeypatch.setattr(store._writer, "_connection", failing)
        short = asyncio.ensure_future(store.write_inline(put("short")))
        assert await asyncio.to_thread(failing.begun.wait, WAIT)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0.05)
        failing.go.set()
        await asyncio.wait_for(closing, WAIT)
        assert await asyncio.wait_for(short, WAIT) == 1
        again = SqliteStore(tmp_path)
        assert await again.read_inline(names) == ["short"]
        await again.close()

    loop_run(main())


def test_a_disk_that_does_not_say_what_is_free_is_written_to(
    tmp_path: Path, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    async def main() -> None:
        monkeypatch.setattr(os, "posix_fallocate", stale)
        store = SqliteStore(tmp_path, reserve_bytes=2**20)
        monkeypatch.setattr(os, "statvfs", stale)
        await asyncio.sleep(2 * STATVFS_TTL_SECONDS)
        for number, write in enumerate((store.write_inline, store.write, store.write_inline)):
            assert await asyncio.wait_for(write(put(f"{number}")), WAIT) == 1
        await store.close()

    loop_run(main())


def test_a_second_store_on_the_data_dir_is_refused(tmp_path: Path, loop_run: LoopRun) -> None:
    store = SqliteStore(tmp_path)
    with pytest.raises(StokerError, match=rf"\(process {os.getpid()}\) already uses {tmp_path}") as refused:
        SqliteStore(tmp_path)
    assert refused.value.code is ErrorCode.CONFLICT
    assert "--data-dir" in refused.value.hint
    loop_run(store.close())
    loop_run(SqliteStore(tmp_path).close())


def test_a_read_only_data_dir_is_said(read_only_folder: Path, as_nobody: None) -> None:
    with pytest.raises(StokerError, match=f"{read_only_folder}/stoker.db cannot be used: Permission denied") as told:
        SqliteStore(read_only_folder)
    assert told.value.code is ErrorCode.UNAVAILABLE
    assert "permissions" in told.value.hint


def test_a_data_dir_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StokerError, match="No such file or directory"):
        SqliteStore(tmp_path / "absent")


def test_a_file_that_is_no_database_is_said_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).write_bytes(b"my shopping list\n" * 100)
    for _ in range(2):
        with pytest.raises(StokerError, match="file is not a database"):
            SqliteStore(tmp_path)
    assert (tmp_path / DATABASE_FILE).read_bytes() == b"my shopping list\n" * 100


def test_a_mistake_in_the_statement_is_not_called_a_failing_disk(tmp_path: Path, loop_run: LoopRun) -> None:
    store = SqliteStore(tmp_path)
    for ask in (store.write, store.read, store.read_inline):
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            loop_run(asyncio.wait_for(ask(lambda transaction: transaction.fetch_all("SELECT 1 FROM absent")), WAIT))
    loop_run(store.close())
