"""The Docker engine on a real dockerd, for the conformance suite."""

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs
from tests.conformance.engine_fixture import EngineFixture, OpenerArguments
from tests.engines.docker.daemon import IMAGE, DockerDaemon

from stoker.domain.cluster.node import DeviceRef
from stoker.engines.docker import DockerConfig, DockerEngine, PullPolicy
from stoker.engines.docker.labels import INSTALLATION_LABEL, volume_name
from stoker.engines.model import LaunchSpec

READY_SECONDS = 0.5


class DockerOptions(Struct, frozen=True):
    url: str
    node_name: str
    installation: str
    state_dir: str


async def open_docker_engine(argument: str) -> DockerEngine:
    options = msgspec.json.decode(argument, type=DockerOptions)
    return DockerEngine(
        DockerConfig(url=options.url, node_name=options.node_name, gpus=4, pull_policy=PullPolicy.NEVER),
        installation=options.installation,
        cluster_id="conformance",
        state_dir=Path(options.state_dir),
        ready_seconds=READY_SECONDS,
    )


class DockerFixture(EngineFixture):
    """Contact is lost when dockerd is killed. Its containers survive that: it is started again with `live-restore`."""

    image = IMAGE
    crash_points = ("docker.created", "docker.started")
    answer_script = (
        "printf '#!/bin/sh\\necho $CONFORMANCE_POD_UID\\n' > /tmp/answer; chmod +x /tmp/answer; "
        'exec nc -ll -p "$PORT" -e /tmp/answer'
    )
    connect_script = 'until nc "$MASTER_ADDR" "$MASTER_PORT" </dev/null 2>/dev/null | grep .; do sleep 0.1; done'

    def __init__(self, daemon: DockerDaemon) -> None:
        self._daemon = daemon
        self._state_dir = Path(tempfile.mkdtemp(prefix="stoker-conformance-"))
        self._options = DockerOptions(daemon.url, self.node_name, uuid.uuid4().hex, str(self._state_dir))
        self._other = structs.replace(
            self._options, installation=uuid.uuid4().hex, state_dir=str(self._state_dir / "other")
        )
        self._foreign: list[str] = []

    async def open(self) -> DockerEngine:
        return await open_docker_engine(self.opener_arguments().argument)

    async def open_other_installation(self) -> DockerEngine:
        return await open_docker_engine(msgspec.json.encode(self._other).decode())

    def opener_arguments(self) -> OpenerArguments:
        return OpenerArguments(f"{__name__}:{open_docker_engine.__name__}", msgspec.json.encode(self._options).decode())

    def read_work_file(self, launch_spec: LaunchSpec, name: str) -> str | None:
        path = self._volume(launch_spec) / name
        return path.read_text() if path.exists() else None

    def has_working_directory(self, launch_spec: LaunchSpec) -> bool:
        return self._volume(launch_spec).exists()

    def visible_devices(self, devices: Sequence[DeviceRef]) -> Mapping[str, str]:
        visible = ",".join(str(device.index) for device in devices)
        return {
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(len(devices)))),
            "NVIDIA_VISIBLE_DEVICES": visible or "void",
        }

    def cut(self) -> None:
        self._daemon.kill()

    def restore(self) -> None:
        self._daemon.live_restore = True
        self._daemon.start()
        self._daemon.live_restore = False

    def start_foreign(self) -> str:
        name = f"foreign-{uuid.uuid4().hex[:6]}"
        gpus = ["--gpus", "device=3", "--network", "none"]
        self._daemon.docker("run", "-d", "--name", name, *gpus, IMAGE, "sleep", "600")
        self._foreign.append(name)
        return name

    def is_foreign_running(self, name: str) -> bool:
        return self._daemon.docker("inspect", "-f", "{{.State.Running}}", name) == "true"

    def leftovers(self, pod_uids: Collection[str]) -> list[str]:
        for name in self._foreign:
            self._daemon.docker("rm", "-f", name)
        self._foreign.clear()
        found: list[str] = []
        for options in (self._options, self._other):
            asyncio.run(_uninstall(options))
            ours = f"label={INSTALLATION_LABEL}={options.installation}"
            for command in (("ps", "-a"), ("volume", "ls"), ("network", "ls")):
                found += self._daemon.docker(*command, "-q", "--filter", ours).split()
        return found

    def close(self) -> None:
        shutil.rmtree(self._state_dir)

    def _volume(self, launch_spec: LaunchSpec) -> Path:
        name = volume_name(self._options.installation, launch_spec.ref.slug, None)
        return self._daemon.folder / "data" / "volumes" / name / "_data"


async def _uninstall(options: DockerOptions) -> None:
    engine = await open_docker_engine(msgspec.json.encode(options).decode())
    await engine.uninstall()
    await engine.close()
