"""A Docker host as a cluster of a running server."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.conftest import LoopRun
from tests.engines.docker.daemon import IMAGE, DockerDaemon

from stoker.domain.settings.schema import Settings
from stoker.server.composition import running_installation

V1 = "/api/stoker/v1"
WORKLOADS = "/api/custom/workloads"
TIMEOUT_SECONDS = 60


class Client:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def until(self, path: str, is_met: Callable[[Any], bool]) -> Any:
        found = None
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not is_met(found := await self.ask("GET", path)):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{path} stays {found}") from None
        return found

    async def submit(self, script: str) -> str:
        body = {
            "displayName": "work",
            "workspaceId": "vision",
            "groupVersionKind": {"kind": "Job", "version": "v1"},
            "image": "none",
            "entryPoint": base64.b64encode(script.encode()).decode(),
            "resource": {"cpu": "100m", "memory": "64Mi", "replica": 1},
        }
        return (await self.ask("POST", WORKLOADS, body))["workloadId"]


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Client]:
    async with running_installation(settings) as installation:
        transport = httpx.ASGITransport(installation.api, client=("127.0.0.1", 40000))
        key = installation.admin_key_file.read_text().strip()
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=headers) as http:
            yield Client(http)


def test_a_host_is_added_runs_workloads_goes_away_and_comes_back(
    docker_daemon: DockerDaemon, tmp_path: Path, loop_run: LoopRun
) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"), reserve_bytes=0, gpus=0)

    async def live() -> None:
        async with serving(settings) as client:
            docker = {"url": docker_daemon.url, "defaultImage": IMAGE, "pullPolicy": "never", "gpus": 2, "shm": "64Mi"}
            await client.ask("POST", f"{V1}/clusters", {"name": "lab", "docker": docker})
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
        docker = {"url": docker_daemon.url, "defaultImage": IMAGE, "pullPolicy": "never", "gpus": 0, "shm": "64Mi"}
        async with serving(settings) as client:
            await client.ask("POST", f"{V1}/clusters", {"name": "lab", "docker": docker})
            await client.until(f"{V1}/clusters/lab", lambda cluster: cluster["nodes"] == 1)
            await client.ask("POST", f"{V1}/workspaces", {"name": "vision", "cluster": "lab"})
            work = await client.submit("sleep 600")
            await client.until(f"{WORKLOADS}/{work}", lambda found: found["phase"] == "Running")
            before = docker_daemon.docker("ps", "-q")
            assert before
            await client.ask("DELETE", f"{V1}/clusters/lab?release=true")
            await client.ask("POST", f"{V1}/clusters", {"name": "lab", "docker": docker})
            await client.until(f"{V1}/clusters/lab", lambda cluster: cluster["nodes"] == 1)
            await asyncio.sleep(3)  # long enough for a pod that counts as stray to be ended
            assert docker_daemon.docker("ps", "-q") == before
        docker_daemon.docker("rm", "-f", *before.split())

    loop_run(live())
