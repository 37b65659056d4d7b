"""A whole server as a process of its own, with real pods: it can be killed at any moment and started again."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from tests.integration.local.harness import processes

T = TypeVar("T")
STOKER = (sys.executable, str(Path(sys.executable).with_name("stoker")))
WORKLOADS = "/api/custom/workloads"
READY = "ready at "
TIMEOUT_SECONDS = 30.0
ENDED = frozenset({"Succeeded", "Failed", "Stopped"})


class LiveServer:
    def __init__(self, data_dir: Path, database: str = "", gpus: int = 4, options: tuple[str, ...] = ()) -> None:
        self.data_dir = data_dir
        self.address = ""
        self._options = ["--data-dir", str(data_dir), "--gpus", str(gpus), "--log-level", "warning"]
        self._options += ["--database", database] if database else []
        self._options += options
        self._log = data_dir.with_name(f"{data_dir.name}.log")
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def spawn(self, failpoint: str = "") -> None:
        """Begin to start, no more."""
        env = os.environ | ({"STOKER_FAILPOINT": failpoint} if failpoint else {})
        command = [*STOKER, "serve", "--port", "0", *self._options]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env)

    def await_ready(self) -> bool:
        """Whether it answers; False if it has died before."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if READY in line:
                self.address = line.split(READY)[1].strip()
                return True
        return False

    def start(self, failpoint: str = "") -> Self:
        self.spawn(failpoint)
        assert self.await_ready(), self.complaints()
        return self

    def kill(self) -> None:
        """As `kill -9` does it: no farewell, no clean-up."""
        assert self._process is not None
        self._process.kill()
        assert self.wait() == -signal.SIGKILL

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        """How it ended, once it has."""
        assert self._process is not None
        with self._process as process:
            code = process.wait(TIMEOUT_SECONDS)
        self._process = None
        return code

    def client(self, key: str = "") -> "LiveClient":
        return LiveClient(self, key or (self.data_dir / "admin.key").read_text().strip())

    def complaints(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def left_over(self, *pod_uids: str) -> list[tuple[int, str]]:
        """Processes of this server's pods that are still there after a while."""

        def look() -> list[tuple[int, str]]:
            return [found for found in processes(str(self.data_dir), *pod_uids) if found[0] != self.pid]

        return until(look, lambda found: not found, 15.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self.wait()
        for pid, _ in processes(str(self.data_dir)):
            os.kill(pid, signal.SIGKILL)


class LiveClient:
    """Speaks the management API. Goes to where the server is now: it has another port after each start."""

    def __init__(self, server: LiveServer, key: str) -> None:
        self._server = server
        self.headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(headers=self.headers, timeout=TIMEOUT_SECONDS)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._http.request(method, self._server.address + path, **options)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.ask("GET", path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def create(self, script: str, **parts: Any) -> str:
        """Submit a workload; its id."""
        return self.send("POST", WORKLOADS, new_workload(script, **parts))["workloadId"]

    def workload(self, name: str) -> Any:
        return self.get(f"{WORKLOADS}/{name}")

    def until(self, name: str, check: Callable[[Any], bool], seconds: float = TIMEOUT_SECONDS) -> Any:
        """The workload when this was first seen to be true."""
        found = until(lambda: self.workload(name), check, seconds)
        assert check(found), f"after {seconds:g} s: {found}\n{self._server.complaints()[-4000:]}"
        return found

    def end(self, name: str, seconds: float = TIMEOUT_SECONDS) -> Any:
        return self.until(name, lambda found: found["phase"] in ENDED, seconds)

    def lines(self, name: str, pod: str = "", **params: Any) -> list[str]:
        """What a pod has printed; the first pod if none is named."""
        named = pod or self.workload(name)["pods"][0]["podId"]
        return self.get(f"{WORKLOADS}/{name}/pods/{named}/logs", tailLines=100_000, **params)["logs"]

    def close(self) -> None:
        self._http.close()


def new_workload(script: str, **parts: Any) -> dict[str, Any]:
    """The body of a create: a small Job, unless the parts say something else."""
    resource = {"cpu": "100m", "gpu": "0", "memory": "64Mi", "replica": 1} | parts.pop("resource", {})
    return {
        "displayName": parts.pop("name", "job"),
        "groupVersionKind": {"kind": parts.pop("kind", "Job"), "version": "v1"},
        "image": "none",
        "entryPoint": base64.b64encode(script.encode()).decode(),
        "resource": resource,
        **parts,
    }


def until(look: Callable[[], T], check: Callable[[T], bool], seconds: float = TIMEOUT_SECONDS) -> T:
    """What was seen when it first was right, or last."""
    give_up = time.monotonic() + seconds
    while not check(found := look()) and time.monotonic() < give_up:
        time.sleep(0.02)
    return found
