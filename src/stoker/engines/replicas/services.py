"""The services of this machine's workloads: each has a forwarder as long as one of its pods lives, on a stable port."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from stoker.domain.workload import PortProtocol, Service
from stoker.engines.base import Serving
from stoker.engines.local.datagrams import DatagramForwarder
from stoker.engines.local.forward import Connections, Forwarder
from stoker.engines.local.machine import host_name
from stoker.engines.local.pods import Pod

LOOPBACK = "127.0.0.1"

log = logging.getLogger(__name__)


class Services:
    def __init__(self, folder: Path, host: str) -> None:
        self._folder = folder
        self._host = host
        self._forwarders: dict[str, Forwarder | DatagramForwarder] = {}
        self._connections = Connections()
        self._pods: dict[str, dict[str, Pod]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def address(self, workload_uid: str) -> str:
        forwarder = self._forwarders.get(workload_uid)
        shown = host_name() if self._host in {"", "0.0.0.0", "::"} else self._host  # noqa: S104 - compared, not bound
        return f"{shown}:{forwarder.port}" if forwarder and forwarder.port else ""

    def serving(self) -> list[Serving]:
        """Every replica by itself, past the forwarders."""
        return [
            Serving(pod.record.uid, workload, f"{LOOPBACK}:{pod.record.port}")
            for workload, pods in self._pods.items()
            for pod in pods.values()
            if pod.ready and pod.record.port and pod.record.service and pod.record.service.protocol is PortProtocol.TCP
        ]

    def follow(self, pod: Pod) -> None:
        """A pod has come, changed or gone: open the service with the first, close it after the last."""
        service, workload = pod.record.service, pod.record.workload_uid
        if service is None:
            return
        pods = self._pods.setdefault(workload, {})
        if pod.ended:
            pods.pop(pod.record.uid, None)
        else:
            pods[pod.record.uid] = pod
        if pods and workload not in self._forwarders:
            kind = Forwarder if service.protocol is PortProtocol.TCP else DatagramForwarder
            self._forwarders[workload] = kind(self._host, lambda: _ports(pods), self._connections)
            self._run(self._open(self._forwarders[workload], self._folder / pod.record.slug, service))
        elif not pods:
            del self._pods[workload]
            if forwarder := self._forwarders.pop(workload, None):
                self._run(forwarder.close())

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(forwarder.close() for forwarder in self._forwarders.values()))

    async def settled(self) -> None:
        """Wait until what was begun is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, forwarder: Forwarder | DatagramForwarder, memory: Path, service: Service) -> None:
        """On the port it had before, the node port, the service's own, or any."""
        text = memory.read_text() if memory.exists() else ""
        before = int(text) if text.isdigit() else 0
        try:
            await forwarder.open([*(port for port in (before, service.node_port, service.port) if port), 0])
        except OSError:
            log.exception("The service of workload %s cannot be forwarded", memory.name)
            return
        memory.write_text(str(forwarder.port))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ports(pods: dict[str, Pod]) -> list[int]:
    return [pod.record.port for pod in pods.values() if pod.ready and pod.record.port]
