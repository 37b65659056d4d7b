"""A whole server with a Docker cluster, inside the test's own process.

`serving` is a fresh server without clusters of its own. `DockerServer` has the cluster "lab" on a real dockerd with
every workspace on it: behaviours of the management API that are written for `RunningHarness` run there as containers.
"""

import asyncio
import base64
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.api.harness import V1
from tests.contract.management.guarantees import current_contract
from tests.contract.management.harness import RunningClock, RunningHarness
from tests.engines.docker.daemon import IMAGE, DockerDaemon

from stoker.domain.settings.schema import Settings
from stoker.domain.workload.pod import Pod
from stoker.engines.docker.labels import WORKLOAD_LABEL
from stoker.server.composition import running_installation
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.workloads import pods

WORKLOADS = "/api/custom/workloads"
TIMEOUT_SECONDS = 60
CLUSTER = "lab"
NODE = "node-001"
GPUS = 8
OTHER_IMAGE = "stoker-test/busybox:2"
"""The image of the tests under another name: neither the default image nor the one that `body` names."""
HTTP_SERVER = 'exec httpd -f -p "$PORT"'
"""A command of the image that serves the files of its directory."""


def docker_cluster(daemon: DockerDaemon, **options: Any) -> dict[str, Any]:
    """The body that adds the daemon as a cluster."""
    docker = {"url": daemon.url, "defaultImage": IMAGE, "pullPolicy": "never", "gpus": 0, "shm": "64Mi"}
    return {"name": CLUSTER, "docker": docker | options}


def labelled(daemon: DockerDaemon, ref: str = "") -> list[str]:
    """Containers and volumes of a workload, or of all workloads of all servers, as Docker lists them to anybody."""
    label = f"label={WORKLOAD_LABEL}" + (f"={ref}" if ref else "")
    containers = daemon.docker("ps", "-aq", "--no-trunc", "--filter", label).split()
    return containers + daemon.docker("volume", "ls", "-q", "--filter", label).split()


class Client:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def until(self, path: str, is_met: Callable[[Any], bool], pause_seconds: float = 0.1) -> Any:
        found = None
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not is_met(found := await self.ask("GET", path)):
                    await asyncio.sleep(pause_seconds)
        except TimeoutError:
            raise AssertionError(f"{path} stays {found}") from None
        return found

    async def submit(self, script: str, **fields: Any) -> str:
        body = {
            "displayName": "work",
            "workspaceId": "vision",
            "groupVersionKind": {"kind": "Job", "version": "v1"},
            "image": "none",
            "entryPoint": base64.b64encode(script.encode()).decode(),
            "resource": {"cpu": "100m", "memory": "64Mi", "replica": 1},
        }
        return (await self.ask("POST", WORKLOADS, body | fields))["workloadId"]


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Client]:
    async with running_installation(settings) as installation:
        transport = httpx.ASGITransport(installation.api, client=("127.0.0.1", 40000))
        key = installation.admin_key_file.read_text().strip()
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=headers) as http:
            yield Client(http)


class DockerServer(RunningHarness):
    """Runs submitted workloads as containers, for one user of each role. Nothing is left on the host when it is
    closed."""

    def __init__(self, daemon: DockerDaemon, data_dir: Path) -> None:
        self.daemon = daemon
        self._others = set(labelled(daemon))
        self.settings = Settings(data_dir=str(data_dir), reserve_bytes=0, gpus=0)
        self.clock = RunningClock()
        self.keys = {}
        self._numbers = itertools.count(1)
        self._stack = contextlib.AsyncExitStack()
        self._runner = asyncio.Runner()
        self.installation = self.run(self._stack.enter_async_context(running_installation(self.settings, self.clock)))
        self.app = self.installation.api
        self.keys["admin"] = self.installation.admin_key_file.read_text().strip()
        self.contract = current_contract()
        added = self.post(f"{V1}/clusters", as_="admin", json=docker_cluster(daemon, gpus=GPUS, nodeName=NODE))
        assert added.status_code == 201, added.text
        self.until(lambda: self.get(f"{V1}/clusters/{CLUSTER}", as_="admin").json()["nodes"] == 1, "the host is there")
        daemon.docker("tag", IMAGE, OTHER_IMAGE)
        self.add_staff()

    def close(self) -> None:
        """Delete everything, and check that no container and no volume is left."""
        for item in self.listed(limit=1000):
            self.delete(f"{WORKLOADS}/{item['workloadId']}", as_="admin")
        try:
            self.until(lambda: not self.on_host(), "the host has nothing of Stoker's")
        finally:
            super().close()

    def add_workspace(self, name: str = "", **members: str) -> str:
        """A workspace on the Docker cluster with these members."""
        name = name or self.name("workspace")
        made = self.post(f"{V1}/workspaces", as_="admin", json={"name": name, "cluster": CLUSTER})
        assert made.status_code == 201, made.text
        for role, user in members.items():
            added = self.put(f"{V1}/workspaces/{name}/members/{user}", as_="admin", json={"role": role})
            assert added.status_code == 200, added.text
        return name

    def body(self, **fields: Any) -> dict[str, Any]:
        return super().body(**{"image": IMAGE, **fields})

    def on_host(self, ref: str = "") -> list[str]:
        """Containers and volumes of a workload, or of all that this server has started."""
        return [found for found in labelled(self.daemon, ref) if found not in self._others]

    def containers(self, ref: str) -> list[str]:
        """The ids of the containers of a workload, those that have ended too."""
        return self.daemon.docker("ps", "-aq", "--no-trunc", "--filter", f"label={WORKLOAD_LABEL}={ref}").split()

    def inspect(self, ref: str, template: str) -> list[str]:
        """What Docker says about each container of a workload."""
        return [self.daemon.docker("inspect", "-f", template, found) for found in self.containers(ref)]

    def _held(self) -> list[Pod]:
        def read(transaction: Transaction) -> list[Pod]:
            cluster = clusters.find(transaction, CLUSTER)
            return pods.unreleased(transaction, cluster.id) if cluster else []

        return self.run(self.installation.store.read(read))
