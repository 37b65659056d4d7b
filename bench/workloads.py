"""Workloads through the API of a whole server: how many are accepted a second, how soon they run, what they cost.

The machine is shared, so figures stand beside others that are measured in turns: the same rows through
`store.write`, an endpoint that does nothing, and Slurm where it is installed.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from bench.pods import memory
from bench.startup import free_port, judged
from bench.writes import in_turns, report
from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import LOCAL_CAPABILITIES
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.lifecycle import submit_transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import Kind, Spec
from stoker.store import open_store
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import audit
from stoker.store.workloads import transitions

WORKLOADS = "/api/custom/workloads"
STOKER = (sys.executable, str(Path(sys.executable).with_name("stoker")))
ROUND_SECONDS = 1.0
CLIENTS = 32
SUBMISSIONS = 50
PAUSE_SECONDS = 0.2
"""Between submissions, so that each finds the server idle."""
CROWD = 1000
SLURM_ROUNDS = 20
POD_LIMIT_MB = 8.0
TIMEOUT_SECONDS = 120.0
BEGAN = "echo $EPOCHREALTIME"


class Server:
    """A server in a process of its own, on a data dir of its own."""

    COMMAND: tuple[str, ...] = STOKER

    def __init__(self, folder: Path, *options: str) -> None:
        self.data_dir = folder / "data"
        self._process = subprocess.Popen(
            (
                *self.COMMAND,
                "serve",
                "--port",
                "0",
                "--data-dir",
                str(self.data_dir),
                "--log-level",
                "warning",
                *options,
            ),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = next((line for line in self._process.stdout if "ready at " in line), "")
        if not line:
            self.close()
            raise RuntimeError("the server did not start")
        self.address = line.rpartition(" ")[2].strip()
        self.port = int(self.address.rpartition(":")[2])
        self.key = (self.data_dir / "admin.key").read_text().strip()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def megabytes(self) -> float:
        return psutil.Process(self._process.pid).memory_info().rss / 1e6

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        with self._process:
            self._process.wait(TIMEOUT_SECONDS)


class Connection:
    """One kept-alive connection, as thin as can be, so that the server is what is busy."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> Any:
        text = await self.raw(method, path, body)
        return json.loads(text) if text.startswith((b"{", b"[")) else None

    async def raw(self, method: str, path: str, body: bytes = b"") -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._server.port)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._server.key}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        text = await _text(reader, answer)
        status = int(answer.split(" ", 2)[1])
        if status >= 300:
            raise RuntimeError(f"{method} {path} was answered with {status}: {text.decode()}")
        return text

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
        self._streams = None


async def _text(reader: asyncio.StreamReader, head: str) -> bytes:
    """The body of an answer; long ones come in chunks."""
    if "transfer-encoding: chunked" not in head:
        return await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0] or 0))
    text = b""
    while size := int(await reader.readline(), 16):
        text += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return text


@contextlib.contextmanager
def served(*options: str) -> Generator[Server]:
    """A server, and nothing of it afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        contextlib.closing(Server(Path(folder), *options)) as server,
    ):
        yield server


def body(script: str, **parts: Any) -> bytes:
    """A create of a small Job."""
    return json.dumps(
        {
            "displayName": "bench",
            "groupVersionKind": {"kind": "Job", "version": "v1"},
            "image": "none",
            "entryPoint": base64.b64encode(script.encode()).decode(),
            "resource": {"cpu": "100m", "gpu": "0", "memory": "64Mi", "replica": 1},
            **parts,
        }
    ).encode()


def creates() -> Iterator[str]:
    """durable creates a second through the API, of workloads that wait; beside the same rows through store.write"""
    waiting = body("true", startAfter="2099-01-01T00:00:00Z")
    with served() as server, own_store() as (runner, store, rows):
        speeds = in_turns(
            {
                "store.write, 1 client": lambda: runner.run(many(1, lambda: store.write(rows))),
                f"store.write, {CLIENTS} clients": lambda: runner.run(many(CLIENTS, lambda: store.write(rows))),
                "API no-op, 1 client": lambda: runner.run(through_api(server, 1, "GET", "/healthz")),
                f"API no-op, {CLIENTS} clients": lambda: runner.run(through_api(server, CLIENTS, "GET", "/healthz")),
                "API create, 1 client": lambda: runner.run(through_api(server, 1, "POST", WORKLOADS, waiting)),
                f"API create, {CLIENTS} clients": lambda: runner.run(
                    through_api(server, CLIENTS, "POST", WORKLOADS, waiting)
                ),
            }
        )
        names = list(speeds)
        yield from report(
            speeds, [(names[4], names[0]), (names[5], names[1]), (names[4], names[2]), (names[5], names[3])]
        )
        yield f"the server then has {server.megabytes:.0f} MB"


async def many(clients: int, act: Callable[[], Any]) -> int:
    """How often this was done in a round."""
    until = time.monotonic() + ROUND_SECONDS

    async def client() -> int:
        done = 0
        while time.monotonic() < until:
            await act()
            done += 1
        return done

    return sum(await asyncio.gather(*(client() for _ in range(clients))))


async def through_api(server: Server, clients: int, method: str, path: str, content: bytes = b"") -> int:
    connections = [Connection(server) for _ in range(clients)]
    turn = itertools.cycle(connections)
    until = time.monotonic() + ROUND_SECONDS

    async def client() -> int:
        connection, done = next(turn), 0
        while time.monotonic() < until:
            await connection.ask(method, path, content)
            done += 1
        return done

    try:
        return sum(await asyncio.gather(*(client() for _ in connections)))
    finally:
        for connection in connections:
            connection.close()


@contextlib.contextmanager
def own_store() -> Generator[tuple[asyncio.Runner, Store, Callable[[Transaction], None]]]:
    """A store, and the rows that a create writes to it."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        with asyncio.Runner() as runner:
            store = open_store("", folder, 8)
            cluster = Cluster("bench", "bench", "local", "", 1, capabilities=LOCAL_CAPABILITIES)
            runner.run(store.write(lambda tx: clusters.add(tx, cluster)))
            yield runner, store, add_rows
            runner.run(store.close())
    finally:
        shutil.rmtree(folder)


def add_rows(transaction: Transaction) -> None:
    uid = str(uuid.uuid4())
    workload = Workload(
        uid=uid,
        slug=f"bench-{uid}",
        name="bench",
        kind=Kind.JOB,
        cluster_id="bench",
        workspace_id=1,
        namespace="default",
        user_id="bench",
        user_name="admin",
        origin_api="safe",
        spec=Spec("none", "true", Resources(0, 100, 64 * 2**20), shown_cpu="100m", shown_gpu="0", shown_memory="64Mi"),
        submitted_at=1,
        phase_at=1,
    )
    transitions.add(transaction, submit_transition(workload))
    words = dict.fromkeys(("actor_id", "actor", "credential", "address", "action", "target", "result"), "bench")
    transaction.execute(audit.ADD, {**words, "id": uid, "at": 1, "detail": "", "trace_id": uid})


def latency() -> Iterator[str]:
    """submit to running, one at a time on an idle server"""
    with served() as server:
        answered, began, running = asyncio.run(_latency(server))
    yield f"answered        {spread(answered)}"
    yield f"command runs    {spread(began)}, from sending the request to the command's first act"
    yield f"API says so     {spread(running)}, from sending the request to the Running condition"


async def _latency(server: Server) -> tuple[list[float], list[float], list[float]]:
    connection = Connection(server)
    answered, began, running = [], [], []
    for _ in range(SUBMISSIONS):
        sent = time.time()
        name = (await connection.ask("POST", WORKLOADS, body(BEGAN)))["workloadId"]
        answered.append(time.time() - sent)
        await asyncio.sleep(PAUSE_SECONDS)
        found = await ended(connection, name)
        lines = await connection.ask("GET", f"{WORKLOADS}/{name}/pods/{name}-0/logs")
        began.append(float(lines["logs"][0]) - sent)
        if up := [each["lastTransitionTime"] for each in found["conditions"] if each["type"] == "Running"]:
            running.append(datetime.fromisoformat(up[0]).timestamp() - sent)
        await asyncio.sleep(PAUSE_SECONDS)
    connection.close()
    return answered, began, running


async def ended(connection: Connection, name: str) -> Any:
    while (found := await connection.ask("GET", f"{WORKLOADS}/{name}"))["phase"] != "Succeeded":
        await asyncio.sleep(0.02)
    return found


def spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    at = min(len(ordered) - 1, int(len(ordered) * 0.99))
    return f"median {statistics.median(ordered) * 1000:5.1f} ms, p99 {ordered[at] * 1000:5.1f} ms (of {len(ordered)})"


def crowd() -> Iterator[str]:
    """a thousand jobs of one pod each at once: until all run, memory, until all are stopped"""
    with served() as server:
        yield from asyncio.run(_crowd(server))


async def _crowd(server: Server) -> list[str]:
    before = server.megabytes
    connections = [Connection(server) for _ in range(CLIENTS)]
    small = body("exec sleep 3600", resource={"cpu": "1m", "gpu": "0", "memory": "8Mi", "replica": 1})
    names: list[str] = []

    async def submit(connection: Connection, number: int) -> None:
        answers = [await connection.ask("POST", WORKLOADS, small) for _ in range(number)]
        names.extend(answer["workloadId"] for answer in answers)

    began = time.perf_counter()
    await asyncio.gather(
        *(submit(each, CROWD // CLIENTS + (n < CROWD % CLIENTS)) for n, each in enumerate(connections))
    )
    accepted = time.perf_counter() - began
    await counted(connections[0], "Running", CROWD)
    lines = [f"{CROWD} jobs accepted in {accepted:.1f} s, all running after {time.perf_counter() - began:.1f} s"]
    shims = [int(lock.read_text()) for lock in server.data_dir.glob("local/pods/*/lock")]
    each = statistics.mean(pss(shim) for shim in shims)
    lines.append(f"memory of a running pod's shim: {each:.2f} MB PSS{judged(each, POD_LIMIT_MB)} ({memory(shims)})")
    lines.append(f"memory of the server: {server.megabytes:.0f} MB RSS, {before:.0f} MB before")
    began = time.perf_counter()
    await connections[0].ask("POST", f"{WORKLOADS}/stop", json.dumps({"workloadIds": names}).encode())
    answered = time.perf_counter() - began
    await counted(connections[0], "Stopped", CROWD)
    lines.append(f"stop of all answered in {answered:.1f} s, all stopped after {time.perf_counter() - began:.1f} s")
    for connection in connections:
        connection.close()
    return lines


async def counted(connection: Connection, phase: str, wanted: int) -> None:
    """Wait until so many workloads are in this phase."""
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while (await connection.ask("GET", f"{WORKLOADS}?phase={phase}&limit=1"))["totalCount"] < wanted:
        if time.monotonic() > give_up:
            raise RuntimeError(f"not all are {phase} after {TIMEOUT_SECONDS:.0f} s")
        await asyncio.sleep(0.1)


def pss(process: int) -> float:
    """Megabytes of a process, with its part of what it shares."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return int(text.partition("\nPss:")[2].split()[0]) / 1000


def slurm() -> Iterator[str]:
    """submit and start beside Slurm: a one-node cluster of its own on this machine, set to start jobs at once"""
    if missing := [name for name in ("slurmctld", "slurmd", "sbatch", "munged") if not shutil.which(name)]:
        yield f"not measured: no {', '.join(missing)} here (Debian: slurmctld slurmd slurm-client munge)"
        return
    if os.geteuid() != 0:
        yield "not measured: a cluster of one's own needs root"
        return
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    folder.chmod(0o755)
    try:
        with served() as server, Slurm(folder) as cluster:
            contenders: dict[str, Callable[[str], None]] = {
                "sbatch": cluster.submit,
                "Stoker": lambda script: post(server, script),
            }
            answers: dict[str, list[float]] = {name: [] for name in contenders}
            starts: dict[str, list[float]] = {name: [] for name in contenders}
            for _ in range(SLURM_ROUNDS):
                for name, submit in contenders.items():
                    answered, began = timed(submit, folder / "began")
                    answers[name].append(answered)
                    starts[name].append(began)
        for name in contenders:
            yield f"{name:<6} answered {spread(answers[name])}; command runs {spread(starts[name])}"
        for title, taken in (("answer", answers), ("start", starts)):
            ours, theirs = statistics.median(taken["Stoker"]), statistics.median(taken["sbatch"])
            yield f"{title}: {theirs / ours:.1f} x as fast as Slurm" + ("" if ours < theirs else ", BROKEN")
    finally:
        shutil.rmtree(folder)


def timed(submit: Callable[[str], None], began: Path) -> tuple[float, float]:
    """Seconds until a submission was answered, and until its command ran."""
    began.unlink(missing_ok=True)
    sent = time.time()
    submit(f"{BEGAN} > {began}.new; mv {began}.new {began}")
    answered = time.time() - sent
    while not began.exists():
        time.sleep(0.005)
    time.sleep(0.1)
    return answered, float(began.read_text()) - sent


def post(server: Server, script: str) -> None:
    """A client that is a process and a connection of its own, as sbatch is; curl takes 8 ms to begin."""
    content = body(script).decode()
    head = f"POST {WORKLOADS} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
    request = f"{head}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n{content}"
    talk = 'printf %s "$REQUEST" >&3; read -r _ status _ <&3; [ "$status" = 200 ]'
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.port}"
    subprocess.run(["bash", "-c", f"{connect}; {talk}"], env={"REQUEST": request}, check=True)


class Slurm:
    """munged, slurmctld and slurmd on loopback, with all they keep in one folder. Batch jobs are scheduled at once;
    as installed, Slurm may hold them back for three seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._conf = folder / "slurm.conf"
        self._processes: list[subprocess.Popen[bytes]] = []

    def submit(self, script: str) -> None:
        subprocess.run(
            ["sbatch", "--quiet", "--output", "/dev/null"],
            input=f"#!/bin/bash\n{script}\n".encode(),
            check=True,
            env=os.environ | {"SLURM_CONF": str(self._conf)},
        )

    def __enter__(self) -> "Slurm":
        folder, key = self._folder, self._folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        self._conf.write_text(self._settings(socket.gethostname().partition(".")[0]))
        files = {"key-file": key, "socket": folder / "munge", "log-file": folder / "munged.log"}
        files |= {"pid-file": folder / "munged.pid", "seed-file": folder / "munged.seed"}
        self._run("munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items()))
        until(lambda: (folder / "munge").exists())
        self._run("slurmctld", "-D", "-f", str(self._conf))
        self._run("slurmd", "-D", "-f", str(self._conf))
        until(self._is_idle)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
            with process:
                process.wait(TIMEOUT_SECONDS)

    def _run(self, *command: str) -> None:
        with (self._folder / f"{command[0]}.out").open("wb") as out:
            self._processes.append(subprocess.Popen(command, stdout=out, stderr=out))

    def _is_idle(self) -> bool:
        env = os.environ | {"SLURM_CONF": str(self._conf)}
        asked = subprocess.run(["sinfo", "-h", "-o", "%t"], check=False, capture_output=True, env=env)
        return asked.stdout.strip() == b"idle"

    def _settings(self, host: str) -> str:
        control, node = free_port(), free_port()
        settings = {
            "ClusterName": "bench",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self._folder / 'munge'}",
            "SlurmctldPort": control,
            "SlurmdPort": node,
            "StateSaveLocation": self._folder / "state",
            "SlurmdSpoolDir": self._folder / "spool",
            "SlurmctldPidFile": self._folder / "slurmctld.pid",
            "SlurmdPidFile": self._folder / "slurmd.pid",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "MpiDefault": "none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU",
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0",
        }
        lines = [f"{name}={value}" for name, value in settings.items()]
        lines.append(f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN")
        lines.append("PartitionName=main Nodes=ALL Default=YES State=UP")
        return "\n".join(lines) + "\n"


def until(check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while not check():
        if time.monotonic() > give_up:
            raise RuntimeError("Slurm did not start")
        time.sleep(0.05)


BENCHES = [creates, latency, crowd, slurm]
