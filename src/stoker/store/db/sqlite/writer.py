"""The SQLite writer: a thread with group commit for long writes, the event loop for short ones.

All writes that arrive during a commit share the next one. Each runs in a savepoint, so a write that fails does not
affect the others. A write returns after the commit that contains it is on disk.

A thread competes with a busy event loop for the GIL at every statement step. Therefore short writes run on the event
loop itself, and only their commit runs on a thread. The holder of `_write_lock` writes. Writes that fail on the event
loop are passed to the writer thread, which alone handles a full disk and waits for locks of other processes.
"""

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stoker.store.db.base import T, TransactionFn
from stoker.store.db.sqlite.connection import (
    CLEAR_BUSY_TIMEOUT,
    SET_BUSY_TIMEOUT,
    SqliteTransaction,
    database_failure,
    is_database_failure,
    is_disk_full,
)
from stoker.store.db.sqlite.disk_reserve import DiskReserve

MAX_BATCH_SIZE = 256
MAX_BATCH_SECONDS = 0.02
INLINE_WRITE_SECONDS = 0.005
"""How long the event loop runs inline writes before their commit."""

log = logging.getLogger("stoker.store")


class _WriteJob:
    __slots__ = ("change", "error", "future", "loop", "result")

    def __init__(self, change: Callable[[Any], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.change = change
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: object = None
        self.error: BaseException | None = None

    def resolve(self) -> None:
        if self.future.cancelled():
            return
        if isinstance(self.error, StopIteration):  # a future cannot carry it
            self.error = RuntimeError("a change raised StopIteration")
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class SqliteWriter:
    """`wal_path` is preallocated from the disk reserve when the disk is full."""

    def __init__(self, connection: sqlite3.Connection, path: Path, wal_path: Path, disk_reserve: DiskReserve) -> None:
        self._connection = connection
        self._path = path
        self._wal_path = wal_path
        self._disk_reserve = disk_reserve
        self._queue: queue.SimpleQueue[_WriteJob | None] = queue.SimpleQueue()
        self._inline_queue: deque[_WriteJob] = deque()
        self._write_lock = threading.Lock()
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="store-commit")
        self._thread = threading.Thread(target=self._write_forever, name="store-write", daemon=True)
        connection.execute(CLEAR_BUSY_TIMEOUT)
        self._thread.start()

    async def write(self, change: TransactionFn[T]) -> T:
        job = _WriteJob(change, asyncio.get_running_loop())
        self._queue.put(job)
        return await job.future

    async def write_inline(self, change: TransactionFn[T]) -> T:
        job = _WriteJob(change, asyncio.get_running_loop())
        self._inline_queue.append(job)
        job.loop.call_soon(self._try_write_inline)
        return await job.future

    async def close(self) -> None:
        """Finish queued writes. No write may be submitted after this call."""
        self._enqueue(self._inline_queue)
        self._inline_queue.clear()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._committer.shutdown)
        self._queue.put(None)  # after the batches that could not be committed inline
        await loop.run_in_executor(None, self._thread.join)

    def _write_forever(self) -> None:
        stopping = False
        while not stopping and (job := self._queue.get()) is not None:
            batch = [job]
            self._write_lock.acquire()
            error = self._try_commit(batch)
            if error is not None and is_disk_full(error) and self._disk_reserve.release_reserve(self._wal_path):
                log.warning("The disk of %s is full; its reserve was released", self._path.parent)
                error = self._try_commit(batch)
            if error is not None:
                for failed_job in batch:
                    failed_job.error = database_failure(error, self._path)
            else:
                self._disk_reserve.ensure_reserve()
            stopping = self._deliver_results(batch)
            self._release_lock_to_loop()

    def _release_lock_to_loop(self) -> None:
        """Pass the lock directly to the event loop if inline writes are queued.

        Otherwise the writer thread could take the lock again at once and starve them."""
        with contextlib.suppress(IndexError, RuntimeError):
            self._inline_queue[0].loop.call_soon_threadsafe(self._write_inline_batch)
            return
        self._write_lock.release()
        self._wake_inline_writer()

    def _try_write_inline(self) -> None:
        """Runs on the event loop: write the queued short writes, unless the lock is held; its holder calls again."""
        if self._inline_queue and self._write_lock.acquire(blocking=False):
            self._write_inline_batch()

    def _write_inline_batch(self) -> None:
        """Runs on the event loop, with the lock held."""
        if not self._inline_queue:  # `close` moved them to the writer thread
            self._write_lock.release()
            return
        transaction = SqliteTransaction(self._connection)
        batch: list[_WriteJob] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            until = time.monotonic() + INLINE_WRITE_SECONDS
            while self._inline_queue and len(batch) < MAX_BATCH_SIZE and (not batch or time.monotonic() < until):
                batch.append(self._inline_queue.popleft())
                self._run_job(batch[-1], transaction)
            self._committer.submit(self._commit_inline_batch, batch)
        except (sqlite3.Error, RuntimeError):  # RuntimeError: the committer is shut down
            self._requeue_batch(batch or [self._inline_queue.popleft()])

    def _commit_inline_batch(self, batch: list[_WriteJob]) -> None:
        """Runs on the committer thread: commit what the event loop wrote."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            self._requeue_batch(batch)
            return
        self._disk_reserve.ensure_reserve()
        self._write_lock.release()
        self._deliver_results(batch)
        self._wake_inline_writer()

    def _requeue_batch(self, batch: list[_WriteJob]) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
        self._write_lock.release()
        self._enqueue(batch)
        self._wake_inline_writer()

    def _enqueue(self, batch: Iterable[_WriteJob]) -> None:
        for job in batch:
            self._queue.put(job)

    def _wake_inline_writer(self) -> None:
        """Let the event loop run the inline writes that were queued meanwhile."""
        with contextlib.suppress(IndexError, RuntimeError):  # the queue is empty, or the loop is closed
            self._inline_queue[0].loop.call_soon_threadsafe(self._try_write_inline)

    def _try_commit(self, batch: list[_WriteJob]) -> sqlite3.Error | None:
        """Commit the batch or roll all of it back; returns the error, if any."""
        try:
            self._run_and_commit(batch)
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            return error
        return None

    def _run_and_commit(self, batch: list[_WriteJob]) -> None:
        """Run these jobs and those queued behind them, and commit them together."""
        execute = self._connection.execute
        transaction = SqliteTransaction(self._connection)
        execute(SET_BUSY_TIMEOUT)
        try:
            execute("BEGIN IMMEDIATE")
        finally:
            execute(CLEAR_BUSY_TIMEOUT)
        until = time.monotonic() + MAX_BATCH_SECONDS
        position = 0
        while position < len(batch):
            self._run_job(batch[position], transaction)
            position += 1
            if position == len(batch) and position < MAX_BATCH_SIZE and time.monotonic() < until:
                with contextlib.suppress(queue.Empty):
                    following = self._queue.get_nowait()
                    if following is None:
                        self._queue.put(None)
                        break
                    batch.append(following)
        execute("COMMIT")

    def _run_job(self, job: _WriteJob, transaction: SqliteTransaction) -> None:
        execute = self._connection.execute
        job.result = job.error = None
        execute("SAVEPOINT job")
        try:
            job.result = job.change(transaction)
        except sqlite3.Error as error:
            if is_disk_full(error) or not self._connection.in_transaction:
                raise
            job.error = database_failure(error, self._path) if is_database_failure(error) else error
        except BaseException as error:
            job.error = error
        if job.error is not None:
            execute("ROLLBACK TO job")
        execute("RELEASE job")

    def _deliver_results(self, batch: list[_WriteJob]) -> bool:
        """Pass results to the event loop; True if the loop is closed."""

        def resolve_all() -> None:
            for job in batch:
                job.resolve()

        if batch:
            try:
                batch[0].loop.call_soon_threadsafe(resolve_all)
            except RuntimeError:  # the loop is closed
                return True
        return False
