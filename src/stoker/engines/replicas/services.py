"""The services of an engine's workloads. Each has a proxy on a stable port for as long as one of its pods lives."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from stoker.domain.clock import Clock
from stoker.domain.workload.phase import SERVICE_PORT_TAKEN
from stoker.domain.workload.spec import PortProtocol, Service
from stoker.engines.model import EngineEvent, ServiceEndpoint
from stoker.engines.proxy.ports import host_name, is_exposed
from stoker.engines.proxy.tcp import ConnectionLimit, ReplicaAddress, TcpProxy
from stoker.engines.proxy.udp import UdpProxy
from stoker.engines.replicas.replica import Replica

EXPOSED_REASON = "ListensBeyondLoopback"
MAX_DRAIN_SECONDS = 10.0
"""How long a replaced replica may take to finish its connections before it is asked to stop."""
_DRAIN_POLL_SECONDS = 0.05

log = logging.getLogger(__name__)


class ServiceProxies:
    """`folder` keeps the ports of services. `rendezvous_owners` returns the ports at which ranks meet, whether or not
    they listen already, and the slug of their workload; no service is opened on one of them. `on_host` says that
    replicas listen on this machine itself, where it can be seen on which addresses they do."""

    def __init__(
        self,
        folder: Path,
        host: str,
        clock: Clock,
        remark: Callable[[EngineEvent], None],
        take_back: Callable[[str, str], None],
        rendezvous_owners: Callable[[], Mapping[int, str]] = dict,
        *,
        on_host: bool = True,
    ) -> None:
        self._ports_dir = folder
        self._host = host
        self._clock = clock
        self._on_host = on_host
        self._publish_event = remark
        self._withdraw_event = take_back
        self._rendezvous_owners = rendezvous_owners
        self._proxies: dict[str, TcpProxy | UdpProxy] = {}
        self._connection_limit = ConnectionLimit()
        self._pods: dict[str, dict[str, Replica]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def address(self, workload_uid: str) -> str:
        forwarder = self._proxies.get(workload_uid)
        shown = host_name() if self._host in {"", "0.0.0.0", "::"} else self._host  # noqa: S104 - compared, not bound
        return f"{shown}:{forwarder.port}" if forwarder and forwarder.port else ""

    def endpoints(self) -> list[ServiceEndpoint]:
        """Every replica with its own address, bypassing the proxies."""
        return [
            ServiceEndpoint(pod.record.uid, workload, f"{address.host}:{address.port}")
            for workload, pods in self._pods.items()
            for pod in pods.values()
            if pod.is_ready
            and pod.record.service
            and pod.record.service.protocol is PortProtocol.TCP
            and (address := pod.address)
        ]

    def on_pod_change(self, pod: Replica) -> None:
        """Open the service with its first pod, update its replicas, and close it after its last pod."""
        service, workload = pod.record.service, pod.record.workload_uid
        if service is None:
            return
        pods = self._pods.setdefault(workload, {})
        if pod.is_finished:
            pods.pop(pod.record.uid, None)
        else:
            pods[pod.record.uid] = pod
        check = pod.record.check
        if self._on_host and pod.is_ready and check and check.port and not pod.exposure_checked:
            pod.exposure_checked = True
            self._check_exposure(pod, check.port)
        if pods and workload not in self._proxies:
            kind = TcpProxy if service.protocol is PortProtocol.TCP else UdpProxy
            self._proxies[workload] = kind(self._host, lambda: _ready_addresses(pods), self._connection_limit)
            self._spawn_task(self._open(self._proxies[workload], pod, service))
        elif not pods:
            del self._pods[workload]
            for reason in (SERVICE_PORT_TAKEN, EXPOSED_REASON):
                self._withdraw_event(workload, reason)
            if forwarder := self._proxies.pop(workload, None):
                self._spawn_task(forwarder.close())

    async def drain(self, pod: Replica) -> None:
        """Give a pod no new connections, and wait for a while until its connections have ended."""
        pod.is_draining = True
        forwarder = self._proxies.get(pod.record.workload_uid)
        for _ in range(round(MAX_DRAIN_SECONDS / _DRAIN_POLL_SECONDS)):
            address = pod.address
            if not isinstance(forwarder, TcpProxy) or address is None or not forwarder.has_connections_to(address):
                return
            await self._clock.sleep(_DRAIN_POLL_SECONDS)

    def forget_port(self, slug: str) -> None:
        """Forget the port of a workload that was deleted."""
        (self._ports_dir / slug).unlink(missing_ok=True)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(forwarder.close() for forwarder in self._proxies.values()))

    async def wait_idle(self) -> None:
        """Wait until all pending changes are done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, forwarder: TcpProxy | UdpProxy, pod: Replica, service: Service) -> None:
        """Listen on the port of the last time, the node port, the service's own port, or any. An event tells if it is
        not the requested one."""
        self._ports_dir.mkdir(parents=True, exist_ok=True)
        memory = self._ports_dir / pod.record.slug
        text = memory.read_text() if memory.exists() else ""
        before = int(text) if text.isdigit() else 0
        try:
            reserved = self._rendezvous_owners()
            candidates = (before, service.node_port, service.port)
            await forwarder.open([*(port for port in candidates if port and port not in reserved), 0])
        except OSError:
            log.exception("The service of workload %s cannot be forwarded", memory.name)
            return
        try:
            memory.write_text(str(forwarder.port))
        except OSError as error:
            log.warning("The port of the service of workload %s cannot be kept: %s", memory.name, error)
        wanted = service.node_port or service.port
        if forwarder.port != wanted:
            where = self.address(pod.record.workload_uid)
            message = f"the service answers at {where}: port {wanted} is {self._describe_port_owner(wanted)}"
            self._publish_event(EngineEvent(pod.record.workload_uid, pod.record.attempt, SERVICE_PORT_TAKEN, message))

    def _describe_port_owner(self, port: int) -> str:
        if slug := self._rendezvous_owners().get(port):
            return f"that of the ranks of {slug}"
        for workload, forwarder in self._proxies.items():
            if forwarder.port == port:
                slug = next((pod.record.slug for pod in self._pods.get(workload, {}).values()), workload)
                return f"that of the service of {slug}"
        return "taken by another program, or cannot be listened on here"

    def _check_exposure(self, pod: Replica, port: int) -> None:
        """Warn with an event if a process listens on an address other than loopback; nothing prevents it from doing
        so."""
        if is_exposed(port):
            message = (
                f"pod {pod.record.name} listens on port {port} of other addresses than loopback, so it is reached past "
                "its service; let it listen on the address in $HOST"
            )
            self._publish_event(EngineEvent(pod.record.workload_uid, pod.record.attempt, EXPOSED_REASON, message))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A service could not be opened or closed", exc_info=error)


def _ready_addresses(pods: dict[str, Replica]) -> list[ReplicaAddress]:
    return [
        address
        for pod in pods.values()
        if pod.is_ready and not pod.is_draining and (address := pod.address) is not None
    ]
