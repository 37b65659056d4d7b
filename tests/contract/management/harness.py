"""Installations for the contract of the management family: every response is validated against the OpenAPI document.

`QueueHarness` has no engine: submitted workloads stay pending, and a test applies transitions itself. `RunningHarness`
runs them: real processes, two nodes of eight pretend GPUs each, and the system clock.
"""

import asyncio
import base64
import contextlib
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Unpack
from unittest import mock

import httpx
from msgspec import structs
from starlette.types import Message, Scope
from tests.api.harness import MANAGEMENT_PATH, Harness, RequestOptions, StoppedClock
from tests.contract.management.guarantees import ENDED, check_detail, current_contract

from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import MILLI
from stoker.domain.settings.schema import LocalTrust, Settings
from stoker.domain.workload.events import LifecycleEvent
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.pod import Pod
from stoker.engines.local import engine as local_engine
from stoker.server.composition import running_installation
from stoker.store.cluster import clusters, nodes
from stoker.store.db.base import Transaction
from stoker.store.workloads import pods, transitions
from stoker.store.workloads import rows as workload_rows

TIMEOUT_SECONDS = 20.0
GIB = 2**30
NODES = ("node-001", "node-002")
ALLOCATIONS = "SELECT node, device, gpu_milli, from_at, to_at FROM allocation"
WAIT = "trap 'exit 0' TERM; sleep 600 & wait $!"
"""A script that runs until it is asked to stop."""


def encoded(script: str) -> str:
    """A script as `entryPoint` takes it."""
    return base64.b64encode(script.encode()).decode()


def big_node(name: str, gpus: int = 8) -> Node:
    """A node of the size that the document's example needs."""
    devices = tuple(Device(number, f"{name}-{number}", "Pretend GPU", pretend=True) for number in range(gpus))
    return Node(name, 256 * MILLI, 1024 * GIB, devices, address="127.0.0.1")


class QueueHarness(Harness):
    """Accepts and queues workloads; nothing runs unless a test applies a transition."""

    def __init__(self, data_dir: Path, database: str = "", **settings: Any) -> None:
        super().__init__(data_dir, database, **settings)
        self.contract = current_contract()

    async def ask(self, method: str, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        answer = await super().ask(method, path, **how)
        assert len(answer.headers["X-Trace-Id"]) == 32
        if path.startswith(MANAGEMENT_PATH) and hasattr(self, "contract"):
            self.contract.check(method, path, answer)
        return answer

    def body(self, **fields: Any) -> dict[str, Any]:
        """The body of a create. `run` is the script; cpu, gpu, memory and replica go to the resources; None is left
        out."""
        resource = {"cpu": "100m", "memory": "256Mi", "replica": 1}
        resource |= {name: fields.pop(name) for name in ("cpu", "gpu", "memory", "replica") if name in fields}
        kind = fields.pop("kind", "PyTorchJob")
        made = {
            "displayName": self.name("job"),
            "workspaceId": "vision",
            "groupVersionKind": {"kind": kind, "version": "v1"},
            "image": "none",
            "entryPoint": encoded(fields.pop("run", "true")),
            "resource": resource,
            **fields,
        }
        return {name: value for name, value in made.items() if value is not None}

    def create(self, as_: str = "member", /, **fields: Any) -> httpx.Response:
        return self.post(MANAGEMENT_PATH, as_=as_, json=self.body(**fields))

    def submit(self, as_: str = "member", /, **fields: Any) -> str:
        """The id of a workload that was accepted."""
        made = self.create(as_, **fields)
        assert made.status_code == 200, made.text
        return made.json()["workloadId"]

    def detail(self, ref: str, as_: str = "admin") -> dict[str, Any]:
        found = self.get(f"{MANAGEMENT_PATH}/{ref}", as_=as_)
        assert found.status_code == 200, found.text
        shown = found.json()
        check_detail(shown)
        return shown

    def listed(self, as_: str = "admin", /, **query: Any) -> list[dict[str, Any]]:
        """The items of a list."""
        return self.page(as_, **query)["items"]

    def page(self, as_: str = "admin", /, **query: Any) -> dict[str, Any]:
        found = self.get(f"{MANAGEMENT_PATH}?{httpx.QueryParams(query)}", as_=as_)
        assert found.status_code == 200, found.text
        return found.json()

    def row(self, ref: str) -> dict[str, Any]:
        """A workload as the list shows it."""
        [found] = self.listed(workloadId=ref)
        return found

    def inside(self, ref: str) -> Workload:
        """A workload as it is stored, also a deleted one."""
        found = self.run(self.installation.store.read(lambda tx: workload_rows.find(tx, ref)))
        assert found is not None
        return found

    def pods(self, ref: str) -> list[Pod]:
        """Every pod that a workload has had."""
        uid = self.inside(ref).uid
        return self.run(self.installation.store.read(lambda tx: pods.of_workload(tx, uid)))

    def go(self, ref: str, *events: Callable[[int], LifecycleEvent], seconds: float = 0) -> None:
        """Apply events to a workload, some time after each other."""
        for event in events:
            self.clock.advance(seconds=seconds)
            now = self.clock.now()

            def change(transaction: Transaction, make: Callable[[int], LifecycleEvent] = event, at: int = now) -> None:
                workload = workload_rows.find(transaction, ref)
                assert workload is not None
                step = transition(workload, make(at))
                assert step is not None, f"{workload.phase} does not take {make}"
                transitions.apply(transaction, workload, step)

            self.run(self.installation.store.write(change))

    def put_in(self, ref: str, phase: Phase) -> None:
        """Bring a workload into a phase by the usual transitions."""
        before = self.inside(ref)
        after = Transition(structs.replace(before, phase=phase, version=before.version + 1), ())
        self.run(self.installation.store.write(lambda tx: transitions.apply(tx, before, after)))

    def add_nodes(self, *found: Node) -> None:
        """Add nodes of the cluster `local`, as an engine would report them."""

        def change(transaction: Transaction) -> None:
            cluster = clusters.find(transaction, "local")
            assert cluster is not None
            nodes.upsert(transaction, cluster.id, found, self.clock.now())

        self.run(self.installation.store.write(change))

    def add_quota(self, workspace: str, gpu: str | None) -> None:
        quota = self.patch(f"/api/stoker/v1/workspaces/{workspace}", as_="admin", json={"quota": {"gpu": gpu}})
        assert quota.status_code == 200, quota.text

    def scope(self, path: str, as_: str) -> Scope:
        """The ASGI scope of a GET request."""
        raw, _, query = path.partition("?")
        return {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": raw,
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1:8080"), (b"authorization", f"Bearer {self.keys[as_]}".encode())],
            "server": ("127.0.0.1", 8080),
            "client": ("127.0.0.1", 40000),
        }

    @contextlib.asynccontextmanager
    async def stream(self, path: str, as_: str = "admin", last_event: int | None = None) -> AsyncIterator["Stream"]:
        """A response that is read while it is sent."""
        stream = Stream()
        scope = self.scope(path, as_)
        if last_event is not None:
            scope["headers"].append((b"last-event-id", str(last_event).encode()))
        task = asyncio.create_task(self.app(scope, stream.receive, stream.send))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await stream.begun.wait()
                yield stream
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


class RunningClock(StoppedClock):
    """The system clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RunningHarness(QueueHarness):
    """Runs submitted workloads. Nothing is left when it is closed."""

    def __init__(self, data_dir: Path, database: str = "", **settings: Any) -> None:
        folder, trust = str(data_dir), LocalTrust.SHARED
        settings.setdefault("reserve_bytes", 0)
        self.settings = Settings(data_dir=folder, database=database, gpus=8, local_trust=trust, **settings)
        self.clock = RunningClock()
        self.keys = {}
        self._numbers = itertools.count(1)
        self._stack = contextlib.AsyncExitStack()
        self._runner = asyncio.Runner()
        with mock.patch.object(local_engine, "describe_node", lambda _, devices: big_node(NODES[0], len(devices))):
            self.installation = self.run(
                self._stack.enter_async_context(running_installation(self.settings, self.clock))
            )
        self.app = self.installation.api
        self.keys["admin"] = self.installation.admin_key_file.read_text().strip()
        self.contract = current_contract()
        self.until(lambda: self._known_nodes() == 1, "the engine has reported")
        self.add_nodes(big_node(NODES[1]))

    def close(self) -> None:
        """Stop everything, and check that no process is left."""
        try:
            for item in self.listed(phase="Pending,Running,Updating", limit=1000):
                self.delete(f"{MANAGEMENT_PATH}/{item['workloadId']}", as_="admin")
            self.until(lambda: not self._held(), "every pod has gone")
            assert self.held_twice() == []
        finally:
            super().close()

    def until(self, holds: Callable[[], bool], what: str, within: float = TIMEOUT_SECONDS) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + within
        while not holds():
            assert time.monotonic() < end, f"not within {within:g} s: {what}"
            self.run(asyncio.sleep(0.02))

    def reach(self, ref: str, *phases: str, within: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        """The workload once it is in one of these phases; polled without a pause."""
        end = time.monotonic() + within
        while (found := self.detail(ref))["phase"] not in phases:
            assert time.monotonic() < end, f"still {found['phase']}: {found['message']} {found['conditions']}"
            assert found["phase"] not in ENDED, f"{found['phase']}: {found['message']} {self.printed(ref)}"
            self.run(asyncio.sleep(0.02))
        return found

    def running(self, ref: str) -> dict[str, Any]:
        return self.reach(ref, "Running")

    def ended(self, ref: str, within: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        return self.reach(ref, *ENDED, within=within)

    def finished(self, as_: str = "member", /, **fields: Any) -> dict[str, Any]:
        """A workload that was submitted and has ended."""
        return self.ended(self.submit(as_, **fields))

    def stop(self, *refs: str) -> None:
        """Stop workloads that a test is done with."""
        answer = self.post(f"{MANAGEMENT_PATH}/stop", as_="admin", json={"workloadIds": list(refs)})
        assert answer.status_code == 204, answer.text

    def printed(self, ref: str, pod: str = "", **query: Any) -> list[str]:
        """The log of a pod, by default of the first one."""
        shown = self.detail(ref)["pods"]
        if not shown and not pod:
            return []
        asked = f"{MANAGEMENT_PATH}/{ref}/pods/{pod or shown[0]['podId']}/logs?{httpx.QueryParams(query)}"
        answer = self.get(asked, as_="admin")
        assert answer.status_code == 200, answer.text
        return answer.json()["logs"]

    def prints(self, ref: str, text: str, pod: str = "") -> list[str]:
        """The log once it contains this text."""
        self.until(lambda: any(text in line for line in self.printed(ref, pod)), f"{ref} prints {text}")
        return self.printed(ref, pod)

    def held_twice(self) -> list[tuple[str, int, int]]:
        """Node, device and time of every GPU that was allocated more than once."""
        rows = self.run(self.installation.store.read(lambda tx: tx.fetch_all(ALLOCATIONS, {})))
        steps: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for node, device, milli, begin, end in rows:
            steps.setdefault((node, device), []).extend([(begin, milli), *([(end, -milli)] if end else [])])
        found = []
        for (node, device), changes in sorted(steps.items()):
            held = 0
            for at, change in sorted(changes):  # what is given back goes before what is given out
                held += change
                if held > MILLI:
                    found.append((node, device, at))
        return found

    def _known_nodes(self) -> int:
        def count(transaction: Transaction) -> int:
            cluster = clusters.find(transaction, "local")
            return len(nodes.of_cluster(transaction, cluster.id)) if cluster else 0

        return self.run(self.installation.store.read(count))

    def _held(self) -> list[Pod]:
        def read(transaction: Transaction) -> list[Pod]:
            cluster = clusters.find(transaction, "local")
            return pods.unreleased(transaction, cluster.id) if cluster else []

        return self.run(self.installation.store.read(read))


class Stream:
    """One end of a streamed response."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.status = 0
        self.headers: dict[str, str] = {}
        self._asked = False
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def receive(self) -> Message:
        if self._asked:
            await asyncio.Event().wait()
        self._asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self.begun.set()
            return
        if message["body"]:
            self._pieces.put_nowait(message["body"])
        if not message.get("more_body", False):
            self._pieces.put_nowait(None)

    async def events(self) -> AsyncIterator[tuple[str, str]]:
        """Kind and data of each event, as a browser reads them."""
        text = ""
        while (piece := await self._pieces.get()) is not None:
            text += piece.decode()
            *whole, text = re.split(r"\r\n\r\n|\n\n|\r\r", text)
            for block in whole:
                kind, data = "message", []
                for field, value in _fields(block):
                    if field == "event":
                        kind = value
                    elif field == "data":
                        data.append(value)
                if data:
                    yield kind, "\n".join(data)


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for line in re.split(r"\r\n|\n|\r", block):
        if not line.startswith(":"):
            field, _, value = line.partition(":")
            yield field, value.removeprefix(" ")
