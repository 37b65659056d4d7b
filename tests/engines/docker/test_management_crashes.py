"""A real server process and a real dockerd are killed in the middle: nothing is lost, and nothing runs twice.

Every run of a job adds a line to a file in the volume of its workload, so the jobs themselves say how often they ran.
"""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines.docker.daemon import IMAGE, DockerDaemon
from tests.engines.docker.server import CLUSTER, docker_cluster, labelled
from tests.integration.live_server import WORKLOADS, LiveClient, LiveServer, until

from stoker.engines.docker.labels import WORKLOAD_LABEL

V1 = "/api/stoker/v1"
WITNESS = "echo run >> runs; echo run $(wc -l < runs); "
JOBS = 6


class Killable:
    """A server process with a Docker cluster."""

    def __init__(self, server: LiveServer, daemon: DockerDaemon) -> None:
        self.server = server
        self.daemon = daemon
        self._others = set(labelled(daemon))
        server.start()
        self.client: LiveClient = server.client()
        self.client.send("POST", f"{V1}/clusters", docker_cluster(daemon))
        self.await_contact()
        self.client.send("POST", f"{V1}/workspaces", {"name": "vision", "cluster": CLUSTER})

    def await_contact(self) -> None:
        found = until(self.cluster, lambda cluster: cluster["reachable"] and cluster["nodes"] == 1)
        assert found["reachable"], found

    def cluster(self) -> Any:
        return self.client.get(f"{V1}/clusters/{CLUSTER}")

    def restart(self) -> None:
        self.server.kill()
        self.server.start()

    def create(self, script: str, **fields: Any) -> str:
        return self.client.create(WITNESS + script, workspaceId="vision", image=IMAGE, **fields)

    def running(self, name: str) -> Any:
        return self.client.until(name, lambda found: found["phase"] == "Running")

    def says(self, name: str, wanted: list[str]) -> None:
        assert until(lambda: self.client.lines(name), lambda lines: lines == wanted) == wanted

    def containers(self) -> list[str]:
        listed = self.daemon.docker("ps", "-q", "--no-trunc", "--filter", f"label={WORKLOAD_LABEL}").split()
        return [found for found in listed if found not in self._others]

    def runs(self, name: str) -> int:
        """How often the command of a workload began."""
        [volume] = self.daemon.docker("volume", "ls", "-q", "--filter", f"label={WORKLOAD_LABEL}={name}").split()
        path = Path(self.daemon.docker("volume", "inspect", "-f", "{{.Mountpoint}}", volume)) / "runs"
        return path.read_text().count("run")

    def clear(self) -> None:
        """Delete every workload, and see that the host is clean."""
        for item in self.client.get(WORKLOADS, limit=1000)["items"]:
            self.client.send("DELETE", f"{WORKLOADS}/{item['workloadId']}")

        def left() -> set[str]:
            return set(labelled(self.daemon)) - self._others

        assert until(left, lambda found: not found) == set()


@pytest.fixture
def killable(docker_daemon: DockerDaemon, tmp_path: Path) -> Iterator[Killable]:
    with LiveServer(tmp_path / "data", gpus=0) as server:
        made = Killable(server, docker_daemon)
        with contextlib.closing(made.client):
            yield made
            made.clear()


def test_what_runs_outlives_a_killed_server_and_ends_as_it_would_have(killable: Killable) -> None:
    goes_on = killable.create("sleep 600")
    ends = killable.create("sleep 2; echo last; exit 3")
    for name in (goes_on, ends):
        killable.running(name)
    before = killable.containers()
    killable.server.kill()
    assert len(until(killable.containers, lambda found: len(found) == 1)) == 1
    killable.server.start()
    ended = killable.client.end(ends)
    assert (ended["phase"], ended["dispatchCount"]) == ("Failed", 1)
    assert "code 3" in ended["message"]
    killable.says(ends, ["run 1", "last"])
    shown = killable.running(goes_on)
    assert (shown["dispatchCount"], killable.runs(goes_on)) == (1, 1)
    assert set(killable.containers()) < set(before)


def test_submissions_that_were_answered_before_a_kill_run_once(killable: Killable) -> None:
    names = []
    for number in range(JOBS):
        names.append(killable.create("sleep 0.5", maxRetry=0))
        if number % 2:
            killable.restart()
    for name in names:
        shown = killable.client.end(name)
        assert (shown["phase"], shown["dispatchCount"]) == ("Succeeded", 1), shown["message"]
        killable.says(name, ["run 1"])
        assert killable.runs(name) == 1


@pytest.mark.parametrize("failpoint", ["docker.created", "docker.started"])
def test_a_start_in_whose_middle_the_server_dies_is_completed_by_the_next(killable: Killable, failpoint: str) -> None:
    killable.server.kill()
    killable.server.start(failpoint)
    killable.await_contact()
    name = killable.create("sleep 600", kind="PyTorchJob", resource={"replica": 2})
    assert killable.server.wait() == -signal.SIGKILL
    killable.server.start()
    shown = killable.running(name)
    assert (shown["dispatchCount"], len(shown["pods"])) == (1, 2)
    assert len(killable.containers()) == killable.runs(name) == 2


def test_a_stop_that_was_asked_for_before_a_kill_is_carried_out(killable: Killable) -> None:
    name = killable.create("trap 'sleep 1; echo stopped; exit 0' TERM; sleep 600 & wait $!")
    killable.says(name, ["run 1"])
    killable.client.send("POST", f"{WORKLOADS}/{name}/stop")
    killable.restart()
    assert killable.client.end(name)["phase"] == "Stopped"
    assert killable.containers() == []
    killable.says(name, ["run 1", "stopped"])
    assert killable.runs(name) == 1


def test_what_a_killed_dockerd_takes_with_it_begins_again_once(killable: Killable) -> None:
    name = killable.create("sleep 600")
    done = killable.create("true")
    killable.running(name)
    assert killable.client.end(done)["phase"] == "Succeeded"
    killable.daemon.kill()
    assert not until(killable.cluster, lambda cluster: not cluster["reachable"])["reachable"]
    shown = killable.client.workload(name)
    assert (shown["phase"], shown["dispatchCount"]) == ("Running", 1), "nothing is given up while it is away"
    waits = killable.create("true")
    killable.daemon.start()
    again = killable.client.until(name, lambda found: found["dispatchCount"] == 2 and found["phase"] == "Running")
    assert [each["type"] for each in again["conditions"]].count("Failover") == 1
    assert killable.client.end(waits)["phase"] == "Succeeded"
    assert [killable.runs(each) for each in (name, done, waits)] == [2, 1, 1]
    assert len(killable.containers()) == 1


def test_what_ended_while_both_were_down_begins_again_once(killable: Killable) -> None:
    name = killable.create("sleep 600", maxRetry=0)
    done = killable.create("exit 3", maxRetry=0)
    killable.says(name, ["run 1"])
    assert killable.client.end(done)["phase"] == "Failed"
    killable.server.kill()
    killable.daemon.kill()
    killable.daemon.start()
    killable.server.start()
    again = killable.client.until(name, lambda found: found["dispatchCount"] == 2 and found["phase"] == "Running")
    assert [each["type"] for each in again["conditions"]].count("Failover") == 1
    ended = killable.client.workload(done)
    assert (ended["phase"], ended["dispatchCount"]) == ("Failed", 1)
    killable.says(name, ["run 2"])
    assert [killable.runs(each) for each in (name, done)] == [2, 1]
    assert len(killable.containers()) == 1


def test_what_runs_outlives_both_where_dockerd_restores_its_containers(killable: Killable) -> None:
    killable.daemon.live_restore = True
    killable.daemon.stop()
    killable.daemon.start()
    try:
        killable.await_contact()
        name = killable.create("sleep 600")
        killable.says(name, ["run 1"])
        [container] = killable.containers()
        killable.server.kill()
        killable.daemon.kill()
        killable.daemon.start()
        killable.server.start()
        killable.await_contact()
        shown = killable.running(name)
        assert (shown["dispatchCount"], killable.runs(name)) == (1, 1)
        assert killable.containers() == [container]
        killable.says(name, ["run 1"])
    finally:
        killable.daemon.live_restore = False
    killable.clear()
    killable.daemon.stop()
    killable.daemon.start()
    killable.await_contact()
