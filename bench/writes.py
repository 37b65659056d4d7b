"""Durable writes a second through `store.write`, beside the bare driver committing the same rows.

A change is three rows of the real tables: an audit record, an idempotency record and a counter. Both sides
run in turns in the same minute, on the same filesystem, with fsync on.
"""

import asyncio
import contextlib
import itertools
import os
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psycopg
from tests.postgres import PostgresServer

from stoker.store import open_store
from stoker.store.db.base import Store, Transaction
from stoker.store.db.postgres.connection import to_psycopg_sql
from stoker.store.db.sqlite.connection import connect
from stoker.store.identity import audit, idempotency
from stoker.store.sql.sequences import ADVANCE

ROUNDS = 4
ROUND_SECONDS = 1.0
CLIENTS = 32
POOL = 32
serial = itertools.count()


def rows(counter: str) -> list[tuple[str, dict[str, object]]]:
    """The three statements of a change."""
    number = f"{next(serial):020d}"
    words = dict.fromkeys(("actor_id", "actor", "credential", "address", "action", "target", "result"), "bench")
    return [
        (audit.ADD, {**words, "id": number, "at": 1, "detail": "{}", "trace_id": number}),
        (
            idempotency.ADD,
            {"user_id": "bench", "key_sha256": number, "request_sha256": number, "answer": "{}", "created_at": 1},
        ),
        (ADVANCE, {"name": counter, "count": 1}),
    ]


def change(transaction: Transaction, counter: str) -> None:
    for sql, params in rows(counter):
        transaction.execute(sql, params)


async def through_store(store: Store, clients: int, counter: Callable[[int], str]) -> int:
    """How many writes were answered in a round."""
    until = time.monotonic() + ROUND_SECONDS

    async def client(number: int) -> int:
        done = 0
        while time.monotonic() < until:
            await store.write(lambda transaction: change(transaction, counter(number)))
            done += 1
        return done

    return sum(await asyncio.gather(*map(client, range(clients))))


def bare_sqlite(connection: sqlite3.Connection) -> int:
    done, until = 0, time.monotonic() + ROUND_SECONDS
    while time.monotonic() < until:
        connection.execute("BEGIN IMMEDIATE")
        for sql, params in rows("bare"):
            connection.execute(sql, params)
        connection.execute("COMMIT")
        done += 1
    return done


def bare_postgres(connections: list[psycopg.Connection[Any]]) -> int:
    counts = [0] * len(connections)
    until = time.monotonic() + ROUND_SECONDS

    def client(number: int) -> None:
        connection = connections[number]
        while time.monotonic() < until:
            for sql, params in rows(f"bare{number}"):
                connection.execute(to_psycopg_sql(sql), params)
            connection.commit()
            counts[number] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def fsync_line(folder: Path) -> str:
    """What one page and its fsync cost on this filesystem."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(300):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return f"fsync of a 4 KiB write: median {statistics.median(times) * 1e6:.0f} us in {folder.parent}"


def in_turns(contenders: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Writes a second of each, all having had the same share of the time."""
    done = dict.fromkeys(contenders, 0)
    spent = dict.fromkeys(contenders, 0.0)
    for _ in range(ROUNDS):
        for name, contender in contenders.items():
            begun = time.monotonic()
            done[name] += contender()
            spent[name] += time.monotonic() - begun
    return {name: done[name] / spent[name] for name in contenders}


def report(speeds: dict[str, float], pairs: list[tuple[str, str]]) -> Iterator[str]:
    for name, speed in speeds.items():
        yield f"{name:<44} {speed:8,.0f} writes/s"
    for mine, bare in pairs:
        yield f"{mine} / {bare}: {speeds[mine] / speeds[bare]:.2f}"


def store_contenders(run: Callable[[Coroutine[Any, Any, int]], int], store: Store) -> dict[str, Callable[[], int]]:
    return {
        "store, 1 client": lambda: run(through_store(store, 1, lambda _n: "one")),
        f"store, {CLIENTS} clients": lambda: run(through_store(store, CLIENTS, lambda n: f"own{n}")),
        f"store, {CLIENTS} clients, one counter row": lambda: run(through_store(store, CLIENTS, lambda _n: "shared")),
    }


def sqlite() -> Iterator[str]:
    """durable three-row writes on SQLite"""
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        with asyncio.Runner() as runner:
            store = open_store("", folder, POOL)
            (folder / "bare").mkdir()
            runner.run(open_store("", folder / "bare", POOL).close())
            with contextlib.closing(connect(folder / "bare" / "stoker.db")) as bare:
                speeds = in_turns({"bare sqlite3": lambda: bare_sqlite(bare), **store_contenders(runner.run, store)})
            runner.run(store.close())
        yield fsync_line(folder)
        yield from report(speeds, [(name, "bare sqlite3") for name in speeds if name.startswith("store")])
    finally:
        shutil.rmtree(folder)


def postgres() -> Iterator[str]:
    """durable three-row writes on PostgreSQL"""
    server = PostgresServer()
    try:
        server.start()
        with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
            store = open_store(server.url("postgres"), server.root, POOL)
            many = [stack.enter_context(psycopg.connect(server.url("postgres"))) for _ in range(CLIENTS)]
            speeds = in_turns(
                {
                    "bare psycopg, 1 connection": lambda: bare_postgres(many[:1]),
                    f"bare psycopg, {CLIENTS} connections": lambda: bare_postgres(many),
                    **store_contenders(runner.run, store),
                }
            )
            runner.run(store.close())
        yield fsync_line(server.root)
        one, all_ = list(speeds)[:2]
        stores = list(speeds)[2:]
        yield from report(speeds, [(stores[0], one), (stores[1], all_), (stores[2], all_)])
    finally:
        server.remove()


BENCHES = [sqlite, postgres]
