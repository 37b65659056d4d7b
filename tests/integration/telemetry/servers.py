"""A real VictoriaMetrics and a real Prometheus, each with a folder and a port of its own."""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx

TIMEOUT_SECONDS = 30.0


class Server:
    """A server that can be killed and started again on the same port and the same data."""

    def __init__(self, command: list[str], port: int, health: str, log: Path) -> None:
        self._command = command
        self._health = health
        self._log = log
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        self.until(f"{self.url}{self._health}")

    def until(self, url: str) -> None:
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < give_up:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(url).status_code == httpx.codes.OK:
                    return
            time.sleep(0.02)
        raise AssertionError(f"{url} does not answer: {self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, query: str, **form: object) -> list[tuple[dict[str, str], str]]:
        answer = httpx.post(f"{self.url}/api/v1/query", data={"query": query, "nocache": "1", **form}).json()
        return [(found["metric"], found["value"][1]) for found in answer["data"]["result"]]


class VictoriaMetrics(Server):
    def __init__(self, program: str, folder: Path) -> None:
        port = free_port()
        command = [program, f"-storageDataPath={folder / 'data'}", f"-httpListenAddr=127.0.0.1:{port}"]
        super().__init__([*command, "-retentionPeriod=100y"], port, "/health", folder / "log")

    def put(self, name: str, labels: Mapping[str, str], values: Iterable[tuple[int, float]]) -> None:
        """Values at epoch milliseconds, through its import API; they can be read when this returns."""
        times, numbers = zip(*values, strict=True)
        line = {"metric": {"__name__": name, **labels}, "values": numbers, "timestamps": times}
        httpx.post(f"{self.url}/api/v1/import", content=json.dumps(line)).raise_for_status()
        httpx.get(f"{self.url}/internal/force_flush").raise_for_status()


class RealPrometheus(Server):
    def __init__(self, program: str, folder: Path, scrape: str) -> None:
        port = free_port()
        (folder / "prometheus.yml").write_text(scrape)
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        super().__init__(command, port, "/-/ready", folder / "log")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
