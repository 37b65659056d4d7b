"""A server that is killed repeatedly under load: no accepted workload is lost, none runs twice, nothing is left behind.

Jobs append a line outside the data dir when they start and when they end; the API must agree with these lines.
"""

import contextlib
import json
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct
from tests.integration.live_server import WORKLOADS, LiveClient, LiveServer, new_workload, until

SEED = 20260116
CLIENTS = 5
LINES = [f"line {number}" for number in range(1, 51)]
DRAIN_SECONDS = 60.0
SCRIPT = """
say() {{ echo "$1 $WORKLOAD_ID $STOKER_POD_UID $RANK $VALUE" >> {witness}; }}
say start
if [ -n "$CUDA_VISIBLE_DEVICES" ]; then
    exec 9> {witness}.gpu$CUDA_VISIBLE_DEVICES
    flock -n 9 || say clash
fi
for block in 0 1 2 3 4; do
    for line in 1 2 3 4 5 6 7 8 9 10; do echo "line $((block * 10 + line))"; done
    sleep 0.1
done
{ending}
say end
"""
FAIL_ONCE = 'if mkdir "{witness}.$WORKLOAD_ID" 2> /dev/null; then say failed; exit 3; fi'
LINGER = "sleep 600"


class InjectedEvent(StrEnum):
    """What is done to a job, and so how it has to end."""

    PLAIN = "plain"
    GANG = "gang"
    RETRIED = "retried"
    STOPPED = "stopped"
    DELETED = "deleted"
    PATCHED = "patched"


WEIGHTS = {
    InjectedEvent.PLAIN: 6,
    InjectedEvent.GANG: 2,
    InjectedEvent.RETRIED: 2,
    InjectedEvent.STOPPED: 2,
    InjectedEvent.DELETED: 2,
    InjectedEvent.PATCHED: 2,
}


class SubmittedJob(Struct):
    """What its client knows of it."""

    name: str
    fate: InjectedEvent
    ttl_seconds: int = 600
    patched: bool | None = None
    """None: the answer to the PATCH was lost, and it came too late when it was asked for again."""


class WitnessLine(Struct, frozen=True):
    """A line of a witness."""

    word: str
    pod_uid: str
    rank: str
    value: str


class JobWitness:
    """What the jobs themselves have seen."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lines"
        self.path.touch()
        self.path.chmod(0o666)

    def script(self, fate: InjectedEvent) -> str:
        endings = {
            InjectedEvent.RETRIED: FAIL_ONCE.format(witness=self.path),
            InjectedEvent.STOPPED: LINGER,
            InjectedEvent.DELETED: LINGER,
        }
        return SCRIPT.format(witness=self.path, ending=endings.get(fate, ""))

    def job(self, fate: InjectedEvent, *, gpus: int = 0, ttl_seconds: int = 600) -> dict[str, Any]:
        """The body of its create."""
        return new_workload(
            self.script(fate),
            name=fate,
            env={"VALUE": "1"},
            resource={"replica": 2 if fate is InjectedEvent.GANG else 1, "gpu": str(gpus)},
            maxRetry=1 if fate is InjectedEvent.RETRIED else 0,
            ttlSecondsAfterFinished=ttl_seconds,
        )

    def of(self, name: str) -> list[WitnessLine]:
        words = (line.split(" ") for line in self.path.read_text().splitlines())
        return [WitnessLine(word, *rest) for word, workload, *rest in words if workload == name]

    def words(self) -> Counter[str]:
        return Counter(line.split(" ")[0] for line in self.path.read_text().splitlines())

    def pod_uids(self) -> set[str]:
        return {line.split(" ")[2] for line in self.path.read_text().splitlines()}


class Submitter:
    """A client that never gives up: a request without an answer is sent again until it has one."""

    def __init__(self, number: int, server: LiveServer, witness: JobWitness, over: threading.Event) -> None:
        self._number = number
        self._random = random.Random(f"{SEED} {number}")
        self._client = server.client()
        self._witness = witness
        self._over = over
        self.jobs: list[SubmittedJob] = []

    def work(self) -> list[SubmittedJob]:
        with contextlib.closing(self._client):
            while not self._over.is_set():
                job = self._submit()
                self._over.wait(self._random.uniform(0.0, 0.4))
                meddle(self._client, job)
        return self.jobs

    def _submit(self) -> SubmittedJob:
        chance = self._random
        fate = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        ttl_seconds = chance.choice([0, 0, 1, 600])
        body = self._witness.job(fate, gpus=chance.choice([0, 0, 1]), ttl_seconds=ttl_seconds)
        job = SubmittedJob(submit(self._client, body, f"{self._number}-{len(self.jobs)}"), fate, ttl_seconds)
        self.jobs.append(job)
        return job


def meddle(client: LiveClient, job: SubmittedJob) -> None:
    """Do to a job what is its fate."""
    path = f"{WORKLOADS}/{job.name}"
    match job.fate:
        case InjectedEvent.STOPPED:
            answer, _ = insist(client, "POST", f"{path}/stop")
            assert answer.status_code == 204, answer.text
        case InjectedEvent.DELETED:
            answer, again = insist(client, "DELETE", path)
            assert answer.status_code == 204 or (again and answer.status_code == 404), answer.text
        case InjectedEvent.PATCHED:
            answer, again = insist(client, "PATCH", path, json={"env": {"VALUE": "2"}, "description": "patched"})
            assert answer.status_code in {204, 409}, answer.text
            job.patched = True if answer.status_code == 204 else None if again else False
        case InjectedEvent.PLAIN | InjectedEvent.GANG | InjectedEvent.RETRIED:
            return


def submit(client: LiveClient, body: Any, once: str) -> str:
    answer, _ = insist(client, "POST", WORKLOADS, json=body, headers={"Idempotency-Key": once})
    assert answer.status_code == 200, answer.text
    return answer.json()["workloadId"]


def insist(client: LiveClient, method: str, path: str, **options: Any) -> tuple[httpx.Response, bool]:
    """The answer, and whether it had to be asked for again."""
    again = False
    while True:
        try:
            return client.ask(method, path, **options), again
        except httpx.TransportError:
            again = True
            time.sleep(0.1)  # so that many who ask do not keep the server from starting


def kill_again_and_again(server: LiveServer, kills: int) -> None:
    """Kills while it starts and adopts, and while it plans, launches, collects and rests."""
    chance = random.Random(SEED)
    for _ in range(kills):
        server.spawn()
        if chance.random() < 0.25:
            time.sleep(chance.uniform(0.1, 0.6))
        elif server.await_ready():
            time.sleep(chance.uniform(0.0, 1.0))
        server.kill()
    server.start()


def await_ends(client: LiveClient, jobs: list[SubmittedJob]) -> dict[str, Any]:
    """Every job as it is once all have ended."""
    give_up = time.monotonic() + DRAIN_SECONDS
    found: dict[str, Any] = {}
    for job in jobs:
        if job.fate is not InjectedEvent.DELETED:
            found[job.name] = client.end(job.name, max(1.0, give_up - time.monotonic()))
    return found


def check_end(job: SubmittedJob, found: Any, said: list[WitnessLine]) -> None:
    """The end that the job was meant to have, and each attempt begun at most once."""
    about = (job, found["phase"], found["dispatchCount"], found["conditions"], said)
    replicas = found["resource"]["replica"]
    starts = Counter(each.pod_uid for each in said if each.word == "start")
    ends = [each for each in said if each.word == "end"]
    assert set(starts.values()) <= {1}, about
    assert [len(attempt) for attempt in found["ranks"]] == [replicas] * found["dispatchCount"], about
    assert not [each for each in found["conditions"] if each["type"] == "Failover"], about
    if job.fate is InjectedEvent.STOPPED:
        assert found["phase"] == "Stopped", about
        assert len(starts) <= found["dispatchCount"] <= 1, about
        assert not ends, about
        return
    assert found["phase"] == "Succeeded", about
    match job.fate:
        case InjectedEvent.PATCHED:  # the first attempt may have come to its end before the PATCH, while nobody saw it
            assert len(ends) <= len(starts) <= found["dispatchCount"] <= 2, about
            assert ends[-1].value == found["env"]["VALUE"], about
            assert job.patched is None or (found["env"]["VALUE"] == "2") == job.patched, about
        case InjectedEvent.RETRIED:
            assert found["dispatchCount"] == len(starts) == 2, about
            assert [each.word for each in said] == ["start", "failed", "start", "end"], about
        case _:
            assert found["dispatchCount"] == 1, about
            assert len(starts) == len(ends) == replicas, about


def check_logs(client: LiveClient, job: SubmittedJob, found: Any) -> None:
    """All that was printed, in order and once; of an attempt that was cut short, the beginning of it."""
    pods = {pod["podId"] for pod in found["pods"]}
    for attempt in range(1, found["dispatchCount"] + 1):
        cut_short = job.fate is InjectedEvent.STOPPED or (
            attempt < found["dispatchCount"] and job.fate is InjectedEvent.PATCHED
        )
        for pod in pods:
            lines = client.lines(job.name, pod, attempt=attempt)
            assert lines == LINES[: len(lines)] if cut_short else lines == LINES, (job, attempt, pod, lines)


def check_folders(server: LiveServer, jobs: list[SubmittedJob]) -> None:
    """Nothing is kept of pods past their time, nor anything at all of what was deleted."""
    local = server.data_dir / "local"
    kept = {job.name for job in jobs if job.fate is not InjectedEvent.DELETED}
    held = {job.name for job in jobs if job.fate is not InjectedEvent.DELETED and job.ttl_seconds > 1}

    def left() -> set[str]:
        pods = {json.loads(record.read_text())["slug"] for record in local.glob("pods/*/pod.json")}
        return (pods - held) | ({folder.name for folder in local.glob("work/*")} - kept)

    assert until(left, lambda names: not names) == set()


def check_database(server: LiveServer) -> None:
    """The database is intact, and no finished workload has allocations."""
    with contextlib.closing(sqlite3.connect(server.data_dir / "stoker.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("SELECT uid FROM pod WHERE released_at IS NULL").fetchall() == []
        assert connection.execute("SELECT pod_uid FROM allocation WHERE to_at IS NULL").fetchall() == []


@pytest.fixture
def server(tmp_path: Path, database_url: str) -> Iterator[LiveServer]:
    with LiveServer(tmp_path / "data", database_url) as made:
        yield made


@pytest.fixture
def witness(shared_folder: Path) -> JobWitness:
    return JobWitness(shared_folder)


@pytest.mark.slow
def test_a_server_killed_at_any_moment_loses_nothing_and_runs_nothing_twice(
    server: LiveServer, witness: JobWitness, database_url: str
) -> None:
    kills = 10 if database_url else 30
    over = threading.Event()
    server.start()
    submitters = [Submitter(number, server, witness, over) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(submitter.work) for submitter in submitters]
        try:
            server.kill()
            kill_again_and_again(server, kills)
        finally:
            over.set()
        jobs = [job for each in working for job in each.result()]
    assert len(jobs) > kills
    with contextlib.closing(server.client()) as client:
        found = await_ends(client, jobs)
        for job in jobs:
            if job.fate is InjectedEvent.DELETED:
                assert client.ask("GET", f"{WORKLOADS}/{job.name}").status_code == 404
                starts = Counter(each.pod_uid for each in witness.of(job.name) if each.word == "start")
                assert list(starts.values()) in ([], [1])
            else:
                check_end(job, found[job.name], witness.of(job.name))
                check_logs(client, job, found[job.name])
        assert client.get(WORKLOADS, limit=1)["totalCount"] == len(found)
    assert witness.words()["clash"] == 0
    assert server.left_over(*witness.pod_uids()) == []
    check_folders(server, jobs)
    assert server.stop() == 0
    if not database_url:
        check_database(server)
    assert "Traceback" not in server.complaints()


class CrashingServer:
    """A server that dies at a failpoint, and is started again."""

    def __init__(self, server: LiveServer, witness: JobWitness) -> None:
        self.server = server
        self.witness = witness
        self.local = server.data_dir / "local"

    @contextlib.contextmanager
    def at(self, place: str) -> Generator[LiveClient]:
        """A client while the server dies there. It must not end before that has happened."""
        self.server.start(place)
        with ThreadPoolExecutor(1) as pool, contextlib.closing(self.server.client()) as client:
            restarted = pool.submit(self._restart)
            yield client
            restarted.result()

    def submit(self, client: LiveClient, fate: InjectedEvent, ttl_seconds: int = 600) -> SubmittedJob:
        """A job; one that is to be meddled with has begun."""
        job = SubmittedJob(submit(client, self.witness.job(fate, ttl_seconds=ttl_seconds), "once"), fate, ttl_seconds)
        if fate in {InjectedEvent.STOPPED, InjectedEvent.DELETED}:
            assert until(lambda: self.witness.of(job.name), bool)
        return job

    def check(self, job: SubmittedJob) -> None:
        """It has had its right end, once, and nothing of it runs."""
        with contextlib.closing(self.server.client()) as client:
            found = client.end(job.name)
            check_end(job, found, self.witness.of(job.name))
            check_logs(client, job, found)
        assert self.server.left_over(*self.witness.pod_uids()) == []

    def left(self, *places: str) -> list[Path]:
        """What is still there in folders of the local engine, after a while."""
        return until(
            lambda: [path for place in places for path in self.local.glob(f"{place}/*")], lambda found: not found
        )

    def _restart(self) -> None:
        assert self.server.wait() == -signal.SIGKILL
        self.server.start()


@pytest.fixture
def crash(tmp_path: Path, witness: JobWitness) -> Iterator[CrashingServer]:
    with LiveServer(tmp_path / "data") as server:
        yield CrashingServer(server, witness)


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        "controller.dispatched",
        "controller.applied",
        "controller.observed",
        "engine.pod-made",
        "engine.shim-started",
        "engine.started-recorded",
    ],
)
def test_a_job_runs_once_though_the_server_dies_while_it_starts(crash: CrashingServer, place: str) -> None:
    with crash.at(place) as client:
        job = crash.submit(client, InjectedEvent.GANG)
    crash.check(job)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["controller.dispatched", "controller.applied", "controller.observed"])
def test_a_job_runs_once_on_postgresql_though_the_server_dies_while_it_starts(
    tmp_path: Path, witness: JobWitness, postgres_url: str, place: str
) -> None:
    with LiveServer(tmp_path / "data", postgres_url) as server:
        crash = CrashingServer(server, witness)
        with crash.at(place) as client:
            job = crash.submit(client, InjectedEvent.GANG)
        crash.check(job)


@pytest.mark.slow
def test_a_job_is_stopped_though_the_server_dies_when_it_has_asked_for_that(crash: CrashingServer) -> None:
    with crash.at("controller.removed") as client:
        job = crash.submit(client, InjectedEvent.STOPPED)
        meddle(client, job)
    crash.check(job)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["controller.logs-kept", "controller.forgotten"])
def test_what_was_printed_is_kept_once_though_the_server_dies_when_it_lets_go(
    crash: CrashingServer, place: str
) -> None:
    with crash.at(place) as client:
        job = crash.submit(client, InjectedEvent.RETRIED, ttl_seconds=0)
    assert crash.left("pods") == []
    crash.check(job)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["controller.removed", "controller.logs-kept", "controller.forgotten"])
def test_nothing_is_left_of_a_deleted_job_though_the_server_dies_on_the_way(crash: CrashingServer, place: str) -> None:
    with crash.at(place) as client:
        meddle(client, crash.submit(client, InjectedEvent.DELETED))
    assert crash.server.left_over(*crash.witness.pod_uids()) == []
    assert crash.left("pods", "work") == []


@pytest.mark.slow
def test_nothing_is_left_of_a_job_that_is_deleted_long_after_its_end_though_the_server_dies_then(
    crash: CrashingServer,
) -> None:
    with crash.at("controller.discarding") as client:
        job = crash.submit(client, InjectedEvent.PLAIN, ttl_seconds=0)
        client.end(job.name)
        assert crash.left("pods") == []
        meddle(client, SubmittedJob(job.name, InjectedEvent.DELETED))
    assert crash.left("work") == []
