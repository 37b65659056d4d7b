"""The local engine, for the conformance suite."""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from tests.conformance.engine_fixture import EngineFixture, Feature, OpenerArguments

from stoker.domain.cluster.node import DeviceRef
from stoker.engines.local import ContainmentMode, LocalEngine
from stoker.engines.local.isolation import cgroups
from stoker.engines.local.isolation.cgroups import PARENT_GROUP
from stoker.engines.model import LaunchSpec

READY_SECONDS = 0.3


class LocalOptions(Struct, frozen=True):
    data_dir: str
    mode: ContainmentMode
    node_name: str


async def open_local_engine(argument: str) -> LocalEngine:
    options = msgspec.json.decode(argument, type=LocalOptions)
    return await LocalEngine.open(
        Path(options.data_dir), node_name=options.node_name, gpus=4, mode=options.mode, ready_seconds=READY_SECONDS
    )


class LocalFixture(EngineFixture):
    crash_points = ("engine.pod-made", "engine.shim-started", "engine.started-recorded")
    answer_script = """exec python -c '
import os, socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(os.environ["CONFORMANCE_POD_UID"].encode())
socketserver.TCPServer.allow_reuse_address = True
socketserver.TCPServer((os.environ.get("HOST", "127.0.0.1"), int(os.environ["PORT"])), Answer).serve_forever()
'"""
    connect_script = """python -c '
import os, socket, time
while True:
    try:
        with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as peer:
            print(peer.recv(100).decode())
            break
    except OSError:
        time.sleep(0.05)
'"""

    def __init__(self, mode: ContainmentMode) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="stoker-conformance-")
        self._data_dir = Path(self._folder.name) / "data"
        self._data_dir.mkdir()
        self._mode = mode
        self.unsupported = {
            Feature.BACKEND_CUT: "the local engine has no backend that it could lose contact with",
            Feature.FOREIGN: "the local engine reports only its own pods",
        }
        if cgroups.detect().memory is None:
            self.unsupported[Feature.MEMORY_LIMITS] = "no memory control group can be written on this machine"

    async def open(self) -> LocalEngine:
        return await open_local_engine(self.opener_arguments().argument)

    def opener_arguments(self) -> OpenerArguments:
        options = LocalOptions(str(self._data_dir), self._mode, self.node_name)
        return OpenerArguments(f"{__name__}:{open_local_engine.__name__}", msgspec.json.encode(options).decode())

    def read_work_file(self, launch_spec: LaunchSpec, name: str) -> str | None:
        path = self._work_dir(launch_spec) / name
        return path.read_text() if path.exists() else None

    def has_working_directory(self, launch_spec: LaunchSpec) -> bool:
        return self._work_dir(launch_spec).exists()

    def visible_devices(self, devices: Sequence[DeviceRef]) -> Mapping[str, str]:
        return {"CUDA_VISIBLE_DEVICES": ",".join(str(device.index) for device in devices)}

    def leftovers(self, pod_uids: Collection[str]) -> list[str]:
        folders = [self._data_dir / "local" / name for name in ("pods", "work", "services", "gone")]
        controllers = cgroups.detect()
        groups = {each for each in (controllers.memory, controllers.cpu, controllers.pids) if each is not None}
        made = [path for folder in folders for path in folder.glob("*")]
        made += [path for group in groups for uid in pod_uids if (path := group / PARENT_GROUP / uid).exists()]
        return [str(path) for path in made]

    def close(self) -> None:
        self._folder.cleanup()

    def _work_dir(self, launch_spec: LaunchSpec) -> Path:
        return self._data_dir / "local" / "work" / launch_spec.ref.slug
