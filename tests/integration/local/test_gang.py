"""Workloads of several pods, and commands inside them, through the API of a real server with real processes."""

import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.integration.live_server import LiveClient, LiveServer, until
from tests.integration.local.harness import processes
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

PROGRAM = Path(__file__).parents[1].joinpath("ring_allreduce.py").read_text(encoding="utf-8")
RING = f"exec {sys.executable} - {{how}} << 'END'\n{PROGRAM}\nEND\n"
V1 = "/api/stoker/v1"
SERVING = """
say() {{ echo "$1 $STOKER_POD_UID $VALUE" >> {diary}; }}
trap 'say down; exit 0' TERM
say up
while :; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One for all tests that leave it running."""
    with LiveServer(tmp_path_factory.mktemp("gang") / "data") as made:
        yield made.start()


@pytest.fixture
def client(server: LiveServer) -> Iterator[LiveClient]:
    with contextlib.closing(server.client()) as made:
        yield made


class PodJournal:
    """What the pods of a Deployment write down when they come up and when they are told to go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        path.chmod(0o666)

    @property
    def script(self) -> str:
        return SERVING.format(diary=self.path)

    def entries(self) -> list[list[str]]:
        return [line.split(" ") for line in self.path.read_text().splitlines()]

    def up(self, value: str = "") -> dict[str, str]:
        """The pods that are up now, each with the value it was given."""
        now: dict[str, str] = {}
        for word, uid, *rest in self.entries():
            if word == "up":
                assert uid not in now, "a pod came up twice"
                now[uid] = "".join(rest)
            else:
                del now[uid]
        return {uid: held for uid, held in now.items() if value in {"", held}}

    def fewest(self, since: int) -> int:
        """The fewest that were up at once, after so many entries."""
        counts, now = [], 0
        for word, *_ in self.entries():
            now += 1 if word == "up" else -1
            counts.append(now)
        return min(counts[since - 1 :])


@pytest.fixture
def diary(shared_folder: Path) -> PodJournal:
    return PodJournal(shared_folder / "diary")


def deploy(client: LiveClient, diary: PodJournal, replicas: int) -> str:
    """A Deployment of which every pod is up."""
    name = client.create(
        diary.script, name="web", kind="Deployment", env={"VALUE": "1"}, resource={"replica": replicas}
    )
    client.until(name, lambda found: found["phase"] == "Running")
    assert len(until(diary.up, lambda up: len(up) == replicas)) == replicas
    return name


def settled(client: LiveClient, name: str) -> Any:
    return client.until(name, lambda found: found["phase"] == "Running")


def test_the_ranks_of_a_gang_find_each_other_and_add_up(client: LiveClient) -> None:
    name = client.create(RING.replace("{how}", ""), kind="PyTorchJob", resource={"replica": 2, "gpu": "1"})
    found = client.end(name)
    pods = [pod["podId"] for pod in found["pods"]]
    assert pods == [f"{name}-master-0", f"{name}-worker-0"]
    said = [client.lines(name, pod) for pod in pods]
    assert found["phase"] == "Succeeded", said
    assert sorted(map(tuple, said)) == [("sum [2, 1, 1] on 0",), ("sum [2, 1, 1] on 1",)]


def test_the_ranks_of_a_gang_add_up_through_torch(client: LiveClient) -> None:
    pytest.importorskip("torch", reason="torch is not installed; the same is tested over plain sockets")
    name = client.create(
        RING.replace("{how}", "torch"), kind="PyTorchJob", resource={"replica": 2, "cpu": "1", "memory": "2Gi"}
    )
    found = client.end(name, 60.0)
    assert found["phase"] == "Succeeded", client.lines(name)
    assert [client.lines(name, pod["podId"])[-1] for pod in found["pods"]] == ["sum [2, 1, 1] on "] * 2


def test_one_failing_rank_ends_the_whole_gang(client: LiveClient) -> None:
    name = client.create('[ "$RANK" = 1 ] && exit 5; sleep 600', kind="PyTorchJob", resource={"replica": 3})
    found = client.end(name)
    assert (found["phase"], found["dispatchCount"]) == ("Failed", 1)
    assert "exited with code 5" in found["message"]


def test_a_gang_waits_until_there_is_capacity_for_all_of_it(client: LiveClient) -> None:
    holder = client.create("sleep 600", resource={"gpu": "3"})
    client.until(holder, lambda found: found["phase"] == "Running")
    gang = client.create("echo ran", kind="PyTorchJob", resource={"replica": 2, "gpu": "1"})
    waiting = client.until(gang, lambda found: "GPU" in found["message"])
    assert (waiting["phase"], waiting["dispatchCount"], waiting["pods"]) == ("Pending", 0, [])
    client.send("POST", f"/api/custom/workloads/{holder}/stop")
    assert client.end(gang)["phase"] == "Succeeded"


def test_a_pod_that_fails_starts_again_after_longer_and_longer_pauses(client: LiveClient, shared_folder: Path) -> None:
    starts = shared_folder / "starts"
    name = client.create(f"date +%s%N >> {starts}; exit 1", kind="Deployment")
    until(lambda: starts.exists() and len(starts.read_text().split()) >= 3, bool)
    first, second, third = (int(text) / 1e9 for text in starts.read_text().split()[:3])
    assert second - first >= 1.0
    assert third - second >= 2.0
    found = client.workload(name)
    assert (found["dispatchCount"], len(found["pods"])) == (1, 1)
    client.send("DELETE", f"/api/custom/workloads/{name}")


def test_scaling_up_and_down_leaves_the_other_pods_alone(client: LiveClient, diary: PodJournal) -> None:
    name = deploy(client, diary, replicas=2)
    first = set(diary.up())
    client.send("PATCH", f"/api/custom/workloads/{name}", {"replica": 4})
    until(diary.up, lambda up: len(up) == 4)
    assert len(settled(client, name)["pods"]) == 4
    assert first < set(diary.up())
    client.send("PATCH", f"/api/custom/workloads/{name}", {"replica": 1})
    until(diary.up, lambda up: len(up) == 1)
    assert settled(client, name)["resource"]["replica"] == 1
    [left] = diary.up()
    assert left in first
    assert len(diary.entries()) == 4 + 3
    client.send("DELETE", f"/api/custom/workloads/{name}")


def test_a_change_replaces_pods_one_by_one(client: LiveClient, diary: PodJournal) -> None:
    name = deploy(client, diary, replicas=3)
    client.send("PATCH", f"/api/custom/workloads/{name}", {"env": {"VALUE": "2"}})
    until(lambda: diary.up("2"), lambda up: len(up) == 3)
    assert settled(client, name)["dispatchCount"] == 1
    assert len(diary.up()) == len(diary.up("2")) == 3
    assert diary.fewest(since=3) == 3  # a pod without GPUs starts before the one that it replaces stops
    client.send("DELETE", f"/api/custom/workloads/{name}")


def test_a_replacement_goes_on_where_a_killed_server_left_it(tmp_path: Path, diary: PodJournal) -> None:
    with LiveServer(tmp_path / "data").start() as server, contextlib.closing(server.client()) as client:
        name = deploy(client, diary, replicas=3)
        client.send("PATCH", f"/api/custom/workloads/{name}", {"env": {"VALUE": "2"}})
        until(lambda: diary.up("2"), bool)
        server.kill()
        assert 1 <= len(diary.up("2")) < 3
        server.start()
        until(lambda: diary.up("2"), lambda up: len(up) == 3)
        settled(client, name)
        assert len(diary.up()) == len(diary.up("2")) == 3
        assert diary.fewest(since=3) == 3  # a pod without GPUs starts before the one that it replaces stops
        client.send("DELETE", f"/api/custom/workloads/{name}")
        assert server.left_over() == []


@pytest.fixture
def desk(client: LiveClient) -> Iterator[str]:
    """An Authoring workload, idle until somebody comes."""
    name = client.create("", name="desk", kind="Authoring", env={"COLOUR": "blue"})
    client.until(name, lambda found: found["phase"] == "Running")
    yield name
    client.send("DELETE", f"/api/custom/workloads/{name}")


def run_inside(
    server: LiveServer, name: str, *command: str, key: str = "", origin: str = "", **options: Any
) -> ClientConnection:
    """A command beside what the pod runs."""
    query = urlencode([("command", word) for word in command] + list(options.items()))
    address = f"{server.address.replace('http', 'ws')}{V1}/workloads/{name}/exec?{query}"
    credential = key or (server.data_dir / "admin.key").read_text().strip()
    headers = {"Authorization": f"Bearer {credential}"} | ({"Origin": origin} if origin else {})
    return connect(address, additional_headers=headers, proxy=None)


def said_until(socket: ClientConnection, text: bytes) -> bytes:
    said = b""
    while text not in said:
        part = socket.recv(10.0)
        assert isinstance(part, bytes), part
        said += part
    return said


def all_said(socket: ClientConnection) -> tuple[bytes, int]:
    """Everything that is still printed, and the exit code."""
    *parts, last = list(socket)
    return b"".join(part for part in parts if isinstance(part, bytes)), json.loads(last)["exit"]


def test_a_command_inside_gives_its_output_and_its_exit_code(server: LiveServer, desk: str) -> None:
    with run_inside(server, desk, "sh", "-c", "echo $COLOUR; exit 7", tty="false") as socket:
        assert all_said(socket) == (b"blue\n", 7)


def test_a_command_inside_reads_what_is_typed_up_to_its_end(server: LiveServer, desk: str) -> None:
    with run_inside(server, desk, "tr", "a-z", "A-Z", tty="false") as socket:
        socket.send(b"quiet ")
        socket.send(b"words\n")
        socket.send(json.dumps({"eof": True}))
        assert all_said(socket) == (b"QUIET WORDS\n", 0)


def test_a_shell_inside_has_a_terminal_that_follows_the_window(server: LiveServer, desk: str) -> None:
    with run_inside(server, desk, "bash", "--norc", columns=100, rows=30) as socket:
        socket.send(b"stty size\n")
        said_until(socket, b"30 100")
        socket.send(json.dumps({"resize": [132, 50]}))
        socket.send(b"stty size\n")
        said_until(socket, b"50 132")
        socket.send(b"exit 3\n")
        assert all_said(socket)[1] == 3


def test_a_command_inside_ends_with_its_connection(server: LiveServer, desk: str) -> None:
    mark = uuid.uuid4().hex
    with run_inside(server, desk, "sh", "-c", f"echo up; sleep 600; : {mark}") as socket:
        said_until(socket, b"up")
        assert list(processes(mark))
    assert until(lambda: list(processes(mark)), lambda left: not left) == []


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null", "http://["])
def test_a_page_of_another_origin_may_not_run_anything_inside(server: LiveServer, desk: str, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        run_inside(server, desk, "true", origin=origin)
    assert refused.value.response.status_code == 403
    with run_inside(server, desk, "true", origin=server.address) as socket:
        assert all_said(socket)[1] == 0


def test_a_viewer_may_not_run_anything_inside(server: LiveServer, client: LiveClient, desk: str) -> None:
    client.send("POST", f"{V1}/users", {"name": "looker"})
    client.send("PUT", f"{V1}/workspaces/default/members/looker", {"role": "viewer"})
    key = client.send("POST", f"{V1}/keys", {"name": "k", "user": "looker"})["secret"]
    with contextlib.closing(server.client(key)) as looker:
        assert looker.workload(desk)["phase"] == "Running"
    with pytest.raises(InvalidStatus) as refused:
        run_inside(server, desk, "true", key=key)
    assert refused.value.response.status_code == 403
    with pytest.raises(InvalidStatus) as unknown:
        run_inside(server, desk, "true", key="sk-stoker-nobody")
    assert unknown.value.response.status_code == 401


def test_a_desk_is_still_there_after_the_server_was_killed(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data").start() as server, contextlib.closing(server.client()) as client:
        name = client.create("", name="desk", kind="Authoring")
        client.until(name, lambda found: found["phase"] == "Running")
        with run_inside(server, name, "sh", "-c", "cat /proc/1/stat > note", tty="false") as socket:
            assert all_said(socket)[1] == 0
        server.kill()
        server.start()
        with run_inside(server, name, "sh", "-c", "cat note; cat /proc/1/stat", tty="false") as socket:
            before, after = all_said(socket)[0].splitlines()
        assert before.split()[21] == after.split()[21], "the pod's first process began at another time"
        client.send("DELETE", f"/api/custom/workloads/{name}")
        assert server.left_over() == []


def folders(server: LiveServer, name: str) -> set[Path]:
    """Where the pods of a workload are kept, once they have begun."""
    begun = (server.data_dir / "local" / "pods").glob("*/started")
    return {path.parent for path in begun if json.loads((path.parent / "pod.json").read_text())["slug"] == name}


@pytest.mark.parametrize("kind", ["Authoring", "Deployment", "Job"])
def test_what_was_lost_with_its_shim_is_started_again(server: LiveServer, client: LiveClient, kind: str) -> None:
    name = client.create("sleep 600", kind=kind)
    settled(client, name)
    [first] = folders(server, name)
    os.kill(int((first / "lock").read_text()), signal.SIGKILL)
    [second] = until(lambda: folders(server, name) - {first}, bool)
    until((second / "state").exists, bool)
    assert "phase=running" in (second / "state").read_text()
    client.send("DELETE", f"/api/custom/workloads/{name}")
    assert until(lambda: folders(server, name), lambda left: not left) == set()
