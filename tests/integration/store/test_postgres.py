"""Failures of PostgreSQL: races, restarts, lost responses, and the errors when it cannot be opened."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import psycopg
import pytest
from tests.conftest import LoopRun
from tests.postgres import PASSWORD, DatabasePool, PostgresServer

from stoker.domain.errors import ErrorCode, StokerError, already_exists
from stoker.store.db.base import Transaction
from stoker.store.db.postgres.store import MIGRATION_LOCK, PostgresStore

PUT = "INSERT INTO sequence (name, value) VALUES (:name, :value)"
SET = "UPDATE sequence SET value = :value WHERE name = :name"
ALL = "SELECT name, value FROM sequence ORDER BY name"
WAIT = 10.0


def everything(transaction: Transaction) -> dict[str, int]:
    return {row[0]: row[1] for row in transaction.fetch_all(ALL)}


@pytest.fixture
def opened(postgres_url: str, loop_run: LoopRun) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, 8)
    yield store
    loop_run(store.close())


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may kill."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def together() -> Callable[[], None]:
    """Lets two changes go on only when both have read, the first time each runs."""
    barrier = threading.Barrier(2, timeout=WAIT)
    seen = threading.local()

    def meet() -> None:
        if not getattr(seen, "is_satisfied", False):
            seen.is_satisfied = True
            barrier.wait()

    return meet


def test_two_changes_that_each_read_what_the_other_writes_do_not_both_win(
    opened: PostgresStore, loop_run: LoopRun
) -> None:
    meet = together()

    def leave(name: str) -> Callable[[Transaction], bool]:
        def change(transaction: Transaction) -> bool:
            on_call = sum(everything(transaction).values())
            meet()
            if on_call < 2:
                return False
            transaction.execute(SET, {"name": name, "value": 0})
            return True

        return change

    async def main() -> list[bool]:
        rows = [{"name": "ann", "value": 1}, {"name": "bob", "value": 1}]
        await opened.write(lambda transaction: transaction.execute_many(PUT, rows))
        return [*await asyncio.gather(opened.write(leave("ann")), opened.write(leave("bob")))]

    assert sorted(loop_run(main())) == [False, True]


def test_of_two_that_take_the_same_name_one_is_told_that_it_exists(opened: PostgresStore, loop_run: LoopRun) -> None:
    meet = together()

    def take(transaction: Transaction) -> None:
        taken = transaction.fetch_one("SELECT 1 FROM sequence WHERE name = 'wanted'")
        meet()
        if taken:
            raise already_exists("counter", "wanted")
        transaction.execute(PUT, {"name": "wanted", "value": 1})

    async def main() -> list[object]:
        return [*await asyncio.gather(opened.write(take), opened.write(take), return_exceptions=True)]

    won, told = sorted(loop_run(main()), key=lambda result: result is not None)
    assert won is None
    assert isinstance(told, StokerError)
    assert told.code is ErrorCode.ALREADY_EXISTS


def test_a_unique_violation_that_is_no_race_comes_out(opened: PostgresStore, loop_run: LoopRun) -> None:
    runs = []

    def double(transaction: Transaction) -> None:
        runs.append(1)
        transaction.execute_many(PUT, [{"name": "same", "value": 1}] * 2)

    with pytest.raises(psycopg.errors.UniqueViolation):
        loop_run(opened.write(double))
    assert len(runs) == 3


def test_a_failure_that_the_change_swallows_is_no_success(opened: PostgresStore, loop_run: LoopRun) -> None:
    def swallow(transaction: Transaction) -> str:
        transaction.execute(PUT, {"name": "kept?", "value": 1})
        try:
            transaction.execute("UPDATE absent SET here = 1")
        except psycopg.Error:
            return "fine"
        return "not reached"

    with pytest.raises(psycopg.errors.UndefinedTable):
        loop_run(opened.write(swallow))
    assert loop_run(opened.read(everything)) == {}


def test_slow_reads_and_waiting_writes_do_not_hold_up_a_peek(opened: PostgresStore, loop_run: LoopRun) -> None:
    go = threading.Event()

    async def main() -> None:
        slow = [asyncio.create_task(ask(lambda _tx: go.wait(WAIT))) for ask in [opened.read, opened.write] * 20]
        try:
            await asyncio.wait_for(opened.read_inline(everything), 2)
        finally:
            go.set()
            await asyncio.gather(*slow)

    loop_run(main())


def test_a_killed_server_is_said_and_a_restarted_one_is_used_again(
    own_server: PostgresServer, loop_run: LoopRun
) -> None:
    inside, killed = threading.Event(), threading.Event()

    def interrupted(transaction: Transaction) -> None:
        transaction.execute(PUT, {"name": "lost", "value": 1})
        inside.set()
        assert killed.wait(WAIT)
        transaction.execute(PUT, {"name": "lost too", "value": 1})

    async def down(*asks: Awaitable[object]) -> None:
        for answer in await asyncio.gather(*asks, return_exceptions=True):
            assert isinstance(answer, StokerError)
            assert answer.code is ErrorCode.UNAVAILABLE
            assert f"127.0.0.1:{own_server.port}" in answer.message
            assert PASSWORD not in answer.message

    async def main() -> None:
        store = PostgresStore(own_server.url("postgres"), 8)
        await store.write(lambda transaction: transaction.execute(PUT, {"name": "before", "value": 1}))
        assert await store.read_inline(everything) == await store.read(everything) == {"before": 1}
        writing = asyncio.create_task(store.write(interrupted))
        while not inside.is_set():
            await asyncio.sleep(0.001)
        await asyncio.to_thread(own_server.kill)
        killed.set()
        begun = time.monotonic()
        await down(writing, store.write(everything), store.read(everything), store.read_inline(everything))
        assert time.monotonic() - begun < 20
        await asyncio.to_thread(own_server.start)
        assert await store.read_inline(everything) == await store.read(everything) == {"before": 1}
        await store.write(lambda transaction: transaction.execute(PUT, {"name": "after", "value": 1}))
        own_server.stop()
        own_server.start()  # idle connections were cut: the next use does not notice
        assert await store.read_inline(everything) == await store.read(everything) == await store.write(everything)
        await store.close()

    loop_run(main())


class CuttingProxy:
    """Stands between a store and its server, and cuts the line when a COMMIT passes."""

    def __init__(self, port: int, *, deliver: bool) -> None:
        self._port = port
        self._deliver = deliver
        self.armed = False
        self.cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            for source, target, outgoing in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pump, args=(source, target, outgoing), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, outgoing: bool) -> None:
        with source, target:
            while data := self._received(source):
                if outgoing and self.armed and b"COMMIT" in data:
                    self.cut = True
                    if self._deliver:
                        source.shutdown(socket.SHUT_RDWR)  # so that the answer cannot reach the client
                        target.sendall(data)
                        self._received(target)
                    break
                try:
                    target.sendall(data)
                except OSError:
                    return
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    @staticmethod
    def _received(source: socket.socket) -> bytes:
        try:
            return source.recv(65536)
        except OSError:
            return b""


@pytest.mark.parametrize("deliver", [True, False])
def test_a_commit_whose_answer_is_lost_is_an_error_and_is_not_run_again(
    postgres_server: PostgresServer, postgres_url: str, loop_run: LoopRun, deliver: bool
) -> None:
    proxy = CuttingProxy(postgres_server.port, deliver=deliver)
    store = PostgresStore(postgres_url.replace(f":{postgres_server.port}/", f":{proxy.port}/"), 4)
    runs = []

    def change(transaction: Transaction) -> None:
        runs.append(1)
        transaction.execute(PUT, {"name": "uncertain", "value": 1})

    loop_run(store.write(everything))
    proxy.armed = True
    with pytest.raises(StokerError, match="may or may not have been saved") as told:
        loop_run(store.write(change))
    assert told.value.code is ErrorCode.UNAVAILABLE
    assert proxy.cut
    assert runs == [1]
    proxy.armed = False
    until = time.monotonic() + WAIT
    while deliver and not loop_run(store.read(everything)) and time.monotonic() < until:
        time.sleep(0.01)
    assert loop_run(store.write(everything)) == ({"uncertain": 1} if deliver else {})
    loop_run(store.close())
    proxy.close()


def test_servers_that_start_at_once_on_a_fresh_database_migrate_it_once(postgres_server: PostgresServer) -> None:
    script = "import sys; from stoker.store.db.postgres.store import PostgresStore; PostgresStore(sys.argv[1], 1)"
    waiting = b"SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with postgres_server.database() as url, psycopg.connect(url) as first:
        first.execute(MIGRATION_LOCK)
        servers = [subprocess.Popen([sys.executable, "-c", script, url], stderr=subprocess.PIPE) for _ in range(3)]
        until = time.monotonic() + 3 * WAIT
        while first.execute(waiting).fetchone() != (3,):
            assert time.monotonic() < until
            time.sleep(0.02)
        first.commit()
        for server in servers:
            _, complaint = server.communicate(timeout=WAIT)
            assert (server.returncode, complaint) == (0, b"")
        assert first.execute(b"SELECT COUNT(*) FROM migration WHERE number = 1").fetchone() == (1,)


def test_why_a_database_cannot_be_opened_is_said(postgres_server: PostgresServer) -> None:
    server = postgres_server
    here = f"127.0.0.1:{server.port}"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = closed.getsockname()[1]
    for url, sentence in (
        (server.url("postgres", password="hunter2"), f'{here} refuses user "stoker" with the password given'),
        (server.url("postgres", user="nobody", password="hunter2"), f'{here} refuses user "nobody"'),
        (server.url("absent"), f'{here} has no database "absent"'),
        ("postgresql://u:hunter2@no-such-host.invalid/d", 'The host "no-such-host.invalid" of the database'),
        (f"postgresql://u:hunter2@127.0.0.1:{free}/d", f"127.0.0.1:{free}/d cannot be reached"),
    ):
        with pytest.raises(StokerError) as told:
            PostgresStore(url, 4)
        assert sentence in told.value.message
        assert told.value.code is ErrorCode.UNAVAILABLE
        assert told.value.hint
        assert "hunter2" not in told.value.message
        assert PASSWORD not in told.value.message


def test_a_database_that_is_not_utf8_is_refused(postgres_server: PostgresServer) -> None:
    postgres_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StokerError, match="latin is encoded in LATIN1; Stoker needs UTF8"):
        PostgresStore(postgres_server.url("latin"), 4)
    postgres_server.execute("DROP DATABASE latin")


def test_a_user_who_may_not_create_tables_is_told(postgres_server: PostgresServer) -> None:
    postgres_server.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    with postgres_server.database() as url:
        guest = url.replace(f"stoker:{PASSWORD}@", "guest:guest@")
        with pytest.raises(StokerError, match='User "guest" cannot set up the database') as told:
            PostgresStore(guest, 4)
    assert "OWNER TO" in told.value.hint
    postgres_server.execute("DROP ROLE guest")


def test_the_name_shows_where_the_database_is_and_no_password(opened: PostgresStore, postgres_url: str) -> None:
    assert opened.name == f"PostgreSQL ({postgres_url.partition('@')[2]})"


def test_a_database_that_tests_share_comes_back_empty_and_not_at_all_once_its_schema_is_another(
    postgres_server: PostgresServer,
) -> None:
    pool = DatabasePool(postgres_server)
    with pool.database() as url, psycopg.connect(url, autocommit=True) as left_open:
        left_open.execute("INSERT INTO sequence (name, value) VALUES ('ann', 1)")
    with pool.database() as again, psycopg.connect(again, autocommit=True) as connection:
        assert again == url
        assert connection.execute("SELECT count(*) FROM sequence").fetchone() == (0,)
        connection.execute("ALTER TABLE sequence ADD COLUMN surplus INTEGER")
    with pool.database() as other:
        assert other != url
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)
    postgres_server.drop_database(other.rpartition("/")[2])
