"""Who writes to SQLite: one thread with group commit for what is long, the event loop for what is short.

All writes that wait while a commit is under way share the next one; each has a savepoint, so one that
fails takes nothing with it. A write is answered after the commit that carries it is on disk.

A thread that shares the interpreter with a busy event loop waits for its turn at every step of every statement. So what
is short is written on the event loop itself, which leaves only the commit to a thread; whoever has `_turn`
writes. What cannot be written there is handed to the thread, which knows what to do about it: only the thread waits for
another process that has locked the database.
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

from stoker.store.base import Change, T
from stoker.store.disk import Disk
from stoker.store.sqlite_file import AT_ONCE, PATIENTLY, SqliteTransaction, is_failure, is_full, unwritable

BATCH = 256
BATCH_SECONDS = 0.02
POKE_SECONDS = 0.005
"""For how long the event loop writes at a time, before it goes on while that is committed."""

log = logging.getLogger("stoker.store")


class _Job:
    __slots__ = ("change", "error", "future", "loop", "result")

    def __init__(self, change: Callable[[Any], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.change = change
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: object = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.future.cancelled():
            return
        if isinstance(self.error, StopIteration):  # which a future cannot carry
            self.error = RuntimeError("a change let StopIteration out")
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Writer:
    """`log_path` is the log of the database, which some of the disk's reserve goes to when there is no other room."""

    def __init__(self, connection: sqlite3.Connection, path: Path, log_path: Path, disk: Disk) -> None:
        self._connection = connection
        self._path = path
        self._log_path = log_path
        self._disk = disk
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._pokes: deque[_Job] = deque()
        self._turn = threading.Lock()
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="store-commit")
        self._thread = threading.Thread(target=self._write_forever, name="store-write", daemon=True)
        connection.execute(AT_ONCE)
        self._thread.start()

    async def write(self, change: Change[T]) -> T:
        job = _Job(change, asyncio.get_running_loop())
        self._jobs.put(job)
        return await job.future

    async def poke(self, change: Change[T]) -> T:
        job = _Job(change, asyncio.get_running_loop())
        self._pokes.append(job)
        job.loop.call_soon(self._poke)
        return await job.future

    async def close(self) -> None:
        """Finish what is queued. Nothing may be given to it any more."""
        self._hand_over(self._pokes)
        self._pokes.clear()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._committer.shutdown)
        self._jobs.put(None)  # behind what could not be committed
        await loop.run_in_executor(None, self._thread.join)

    def _write_forever(self) -> None:
        stopping = False
        while not stopping and (job := self._jobs.get()) is not None:
            batch = [job]
            self._turn.acquire()
            error = self._try(batch)
            if error is not None and is_full(error) and self._disk.release(self._log_path):
                log.warning("the disk of %s is full: its reserve was given up", self._path.parent)
                error = self._try(batch)
            if error is not None:
                for lost in batch:
                    lost.error = unwritable(error, self._path)
            else:
                self._disk.hold()
            stopping = self._deliver(batch)
            self._pass_on()

    def _pass_on(self) -> None:
        """From the writer, who would otherwise take the turn again at once: to the event loop, if something waits."""
        with contextlib.suppress(IndexError, RuntimeError):
            self._pokes[0].loop.call_soon_threadsafe(self._write_short)
            return
        self._turn.release()
        self._wake()

    def _poke(self) -> None:
        """On the event loop: write what is short, unless somebody else writes; they call again when they are done."""
        if self._pokes and self._turn.acquire(blocking=False):
            self._write_short()

    def _write_short(self) -> None:
        """On the event loop, which has the turn."""
        if not self._pokes:  # the writer has them: the store is closed
            self._turn.release()
            return
        transaction = SqliteTransaction(self._connection)
        batch: list[_Job] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            until = time.monotonic() + POKE_SECONDS
            while self._pokes and len(batch) < BATCH and (not batch or time.monotonic() < until):
                batch.append(self._pokes.popleft())
                self._run(batch[-1], transaction)
            self._committer.submit(self._finish, batch)
        except (sqlite3.Error, RuntimeError):  # of the database, or there can be no thread
            self._give_up(batch or [self._pokes.popleft()])

    def _finish(self, batch: list[_Job]) -> None:
        """Beside the event loop: commit what it wrote."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            self._give_up(batch)
            return
        self._disk.hold()
        self._turn.release()
        self._deliver(batch)
        self._wake()

    def _give_up(self, batch: list[_Job]) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
        self._turn.release()
        self._hand_over(batch)
        self._wake()

    def _hand_over(self, batch: Iterable[_Job]) -> None:
        for job in batch:
            self._jobs.put(job)

    def _wake(self) -> None:
        """Whoever has written lets the event loop write what came meanwhile."""
        with contextlib.suppress(IndexError, RuntimeError):  # there is nothing, or nobody who could
            self._pokes[0].loop.call_soon_threadsafe(self._poke)

    def _try(self, batch: list[_Job]) -> sqlite3.Error | None:
        """Commit these, or undo all of them; what was in the way."""
        try:
            self._commit(batch)
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            return error
        return None

    def _commit(self, batch: list[_Job]) -> None:
        """Run these jobs and those behind them, and commit them together."""
        execute = self._connection.execute
        transaction = SqliteTransaction(self._connection)
        execute(PATIENTLY)
        try:
            execute("BEGIN IMMEDIATE")
        finally:
            execute(AT_ONCE)
        until = time.monotonic() + BATCH_SECONDS
        position = 0
        while position < len(batch):
            self._run(batch[position], transaction)
            position += 1
            if position == len(batch) and position < BATCH and time.monotonic() < until:
                with contextlib.suppress(queue.Empty):
                    following = self._jobs.get_nowait()
                    if following is None:
                        self._jobs.put(None)
                        break
                    batch.append(following)
        execute("COMMIT")

    def _run(self, job: _Job, transaction: SqliteTransaction) -> None:
        execute = self._connection.execute
        job.result = job.error = None
        execute("SAVEPOINT job")
        try:
            job.result = job.change(transaction)
        except sqlite3.Error as error:
            if is_full(error) or not self._connection.in_transaction:
                raise
            job.error = unwritable(error, self._path) if is_failure(error) else error
        except BaseException as error:
            job.error = error
        if job.error is not None:
            execute("ROLLBACK TO job")
        execute("RELEASE job")

    def _deliver(self, batch: list[_Job]) -> bool:
        """Hand the results over; True when nobody is left to receive any."""

        def settle() -> None:
            for job in batch:
                job.settle()

        if batch:
            try:
                batch[0].loop.call_soon_threadsafe(settle)
            except RuntimeError:  # the loop is closed: the server has gone
                return True
        return False
