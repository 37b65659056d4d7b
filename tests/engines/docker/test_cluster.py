"""A Docker host as a cluster of a running server."""

import asyncio
from pathlib import Path

from tests.api.harness import V1
from tests.conftest import LoopRun
from tests.engines.docker.daemon import IMAGE, DockerDaemon
from tests.engines.docker.server import WORKLOADS, docker_cluster, serving

from stoker.domain.settings.schema import Settings


def test_a_host_is_added_runs_workloads_goes_away_and_comes_back(
    docker_daemon: DockerDaemon, tmp_path: Path, loop_run: LoopRun
) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"), reserve_bytes=0, gpus=0)

    async def live() -> None:
        async with serving(settings) as client:
            await client.ask("POST", f"{V1}/clusters", docker_cluster(docker_daemon, gpus=2))
            found = await client.until(f"{V1}/clusters/lab", lambda cluster: cluster["gpus"] == 2)
            assert (found["nodes"], found["reachable"]) == (1, True)
            checked = await client.ask("POST", f"{V1}/clusters/lab/check")
            assert checked["ok"], checked
            assert {"daemon", "host", "controller"} <= {each["name"] for each in checked["checks"]}
            await client.ask("POST", f"{V1}/workspaces", {"name": "vision", "cluster": "lab"})
            done = await client.submit("echo done")
            detail = await client.until(f"{WORKLOADS}/{done}", lambda work: work["phase"] in {"Succeeded", "Failed"})
            assert (detail["phase"], detail["image"]) == ("Succeeded", IMAGE)
            docker_daemon.stop()
            found = await client.until(f"{V1}/clusters/lab", lambda cluster: not cluster["reachable"])
            assert "cannot be reached" in found["unreachableMessage"]
            checked = await client.ask("POST", f"{V1}/clusters/lab/check")
            assert not checked["ok"]
            assert "dockerd" in next(each["advice"] for each in checked["checks"] if each["name"] == "daemon")
            waiting = await client.submit("echo later")
            shown = await client.ask("GET", f"{WORKLOADS}/{waiting}")
            assert shown["message"].startswith('Cluster "lab" cannot be reached since ')
            await asyncio.to_thread(docker_daemon.start)
            await client.until(f"{V1}/clusters/lab", lambda cluster: cluster["reachable"])
            await client.until(f"{WORKLOADS}/{waiting}", lambda work: work["phase"] == "Succeeded")

    loop_run(live())


def test_released_workloads_keep_running_and_are_foreign_when_the_host_is_added_again(
    docker_daemon: DockerDaemon, tmp_path: Path, loop_run: LoopRun
) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"), reserve_bytes=0, gpus=0)

    async def live() -> None:
        async with serving(settings) as client:
            await client.ask("POST", f"{V1}/clusters", docker_cluster(docker_daemon))
            await client.until(f"{V1}/clusters/lab", lambda cluster: cluster["nodes"] == 1)
            await client.ask("POST", f"{V1}/workspaces", {"name": "vision", "cluster": "lab"})
            work = await client.submit("sleep 600")
            await client.until(f"{WORKLOADS}/{work}", lambda found: found["phase"] == "Running")
            before = docker_daemon.docker("ps", "-q")
            assert before
            await client.ask("DELETE", f"{V1}/clusters/lab?release=true")
            await client.ask("POST", f"{V1}/clusters", docker_cluster(docker_daemon))
            await client.until(f"{V1}/clusters/lab", lambda cluster: cluster["nodes"] == 1)
            await asyncio.sleep(3)  # long enough for a pod that counts as stray to be ended
            assert docker_daemon.docker("ps", "-q") == before
        docker_daemon.docker("rm", "-f", *before.split())

    loop_run(live())
