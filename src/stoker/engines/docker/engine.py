"""The Docker engine: runs pods as containers of one Docker host.

Opening it does no I/O: a host that does not answer delays nobody. Everything that has to survive is with Docker, in the
labels of containers; only the ports of services are in a directory of the server.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Callable, Collection
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.cluster.capabilities import DOCKER_CAPABILITIES, Capabilities
from stoker.domain.cluster.engine_access import LogLine, Terminal
from stoker.domain.cluster.node import Node
from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.metrics.report_token import ReportEndpoint
from stoker.engines.coalescing_queue import CoalescingQueue
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.config import HOST_NETWORK, DockerConfig
from stoker.engines.docker.container_config import mount_error
from stoker.engines.docker.images import ImageStore
from stoker.engines.docker.labels import INSTALLATION_LABEL, POD_UID_LABEL, WORKLOAD_UID_LABEL
from stoker.engines.docker.logs import ContainerLogReader
from stoker.engines.docker.pod import DockerPod
from stoker.engines.docker.registry import DockerPodRegistry
from stoker.engines.docker.starter import DockerStarter
from stoker.engines.docker.stats import DockerCollector
from stoker.engines.docker.terminal import open_terminal
from stoker.engines.docker.watch import DockerWatcher
from stoker.engines.docker.watch_reports import build_delta, build_full_sync
from stoker.engines.model import Disconnected, LaunchSpec, LogRef, Observation, ServiceEndpoint, WorkloadRef
from stoker.engines.replicas.readiness import MIN_READY_SECONDS, ReadinessProber
from stoker.engines.replicas.rollout import Rollout, available_memory_bytes
from stoker.engines.replicas.rollouts import Rollouts
from stoker.engines.replicas.services import ServiceProxies

SHELLS = ("bash", "sh", "zsh", "fish")
SHELL_DIRS = ("/bin", "/usr/bin")
SETTLE_SECONDS = 0.2
"""For how long a connection through Docker's proxy has to stay open to count as accepted by the pod."""
_FIRST_PROBE_SECONDS = 0.5


class DockerEngine:
    """`installation` marks what this installation of Stoker has made; `cluster_id` is the namespace of derived uids;
    `state_dir` keeps the ports of services."""

    def __init__(
        self,
        config: DockerConfig,
        *,
        installation: str,
        cluster_id: str,
        state_dir: Path,
        service_host: str = "127.0.0.1",
        clock: Clock | None = None,
        reports: ReportEndpoint | None = None,
        ready_seconds: float = MIN_READY_SECONDS,
    ) -> None:
        clock = clock or SystemClock()
        self.config = config
        self.client = DockerClient(config)
        self._installation = installation
        self._cluster = uuid.uuid5(uuid.NAMESPACE_OID, cluster_id)
        self._purges: set[str] = set()
        self._registry = DockerPodRegistry(self.client, installation, config.host, self._on_pod_change)
        self._logs = ContainerLogReader(self.client, self._registry.notify_log)
        self._services = ServiceProxies(
            state_dir / "services",
            service_host,
            clock,
            self._registry.publish_event,
            self._registry.withdraw_event,
            on_host=config.is_local and config.network == HOST_NETWORK,
        )
        self._prober = ReadinessProber(clock, self._registry.notify_changed, ready_seconds, SETTLE_SECONDS)
        images = ImageStore(self.client, config, clock)
        starter = DockerStarter(self.client, config, installation, self._registry, images, reports)
        memory: Callable[[], int] = available_memory_bytes if config.is_local else lambda: 2**63
        rollout = Rollout(self._registry, starter, self._services.drain, memory)
        self._rollouts = Rollouts(self._registry, starter, rollout, clock)
        self._watcher = DockerWatcher(self.client, config, self._registry, clock, self._settle_pods)

    @property
    def capabilities(self) -> Capabilities:
        return DOCKER_CAPABILITIES

    async def check(self) -> Node:
        """Contact the daemon once; its node. Raises what is wrong, with what to do."""
        await self.client.ping()
        return await self._watcher.load_node()

    async def watch(self) -> AsyncGenerator[Observation]:
        queue = CoalescingQueue()
        self._registry.observers.add(queue)
        self._watcher.start()
        queue.put("")
        syncs, is_lost = 0, False
        try:
            while keys := await queue.drain():
                contact, node = self._watcher.contact, self._watcher.node
                if contact.lost_since is not None:
                    if not is_lost:
                        is_lost = True
                        yield Disconnected(contact.lost_since, contact.message)
                elif node is not None and contact.syncs != syncs:
                    syncs, is_lost = contact.syncs, False
                    yield build_full_sync(self._registry, self._cluster, node)
                elif node is not None and syncs:
                    yield build_delta(self._registry, self._cluster, node, keys)
        finally:
            self._registry.observers.discard(queue)

    async def log_activity(self) -> AsyncGenerator[LogRef]:
        queue = CoalescingQueue()
        self._registry.log_observers.add(queue)
        self._watcher.start()
        try:
            for uid in list(self._registry.pods):
                yield LogRef(uid)
            while uids := await queue.drain():
                for uid in uids:
                    yield LogRef(uid)
        finally:
            self._registry.log_observers.discard(queue)

    async def apply(self, launch_spec: LaunchSpec) -> str:
        self._watcher.start()
        async with self._rollouts.lock(launch_spec.ref.uid):
            if self._watcher.node is None:
                await self._watcher.load_node()
            await self._registry.refresh_workload(launch_spec.ref.uid)
            self._registry.forget_rejected(pod.uid for pod in launch_spec.pods)
            await self._rollouts.apply(launch_spec)
        return ""

    async def terminate(
        self, ref: WorkloadRef, *, grace_seconds: float, force: bool = False, only: Collection[str] | None = None
    ) -> None:
        if ref.engine_ref:  # only foreign workloads have a name of Docker's own
            await self._registry.stop_foreign(ref.engine_ref, 0.0 if force else grace_seconds)
            return
        async with self._rollouts.lock(ref.uid):
            if only is None:
                await self._rollouts.cancel(ref.uid)
            await self._registry.refresh_workload(ref.uid)
            for pod in self._registry.attempt_pods(ref.uid, ref.attempt):
                if (only is None or pod.record.uid in only) and not pod.is_finished:
                    if force:
                        await self._registry.force(pod)
                    else:
                        await self._registry.stop(pod, grace_seconds, "it was stopped before it began")

    async def pods_of(self, ref: WorkloadRef) -> frozenset[str]:
        await self._registry.refresh_workload(ref.uid)
        pods = [pod.record.uid for pod in self._registry.attempt_pods(ref.uid, ref.attempt)]
        return frozenset([*pods, *self._registry.rejected_pods(ref.uid, ref.attempt)])

    async def release(self, ref: WorkloadRef) -> None:
        async with self._rollouts.lock(ref.uid):
            await self._registry.refresh_workload(ref.uid)
            for pod in self._registry.attempt_pods(ref.uid, ref.attempt):
                if pod.is_finished:
                    await self._logs.forget(pod.record.uid)
                    await self.client.remove(pod.container.id)
                    self._registry.remove(pod.container.id)
            self._registry.forget_rejected(self._registry.rejected_pods(ref.uid, ref.attempt))
            if ref.uid in self._purges:
                await self._remove_volumes(ref.uid)

    async def purge(self, ref: WorkloadRef) -> None:
        """Remove the volumes of a workload. While ended containers still use them, `release` does it."""
        self._services.forget_port(ref.slug)
        await self._remove_volumes(ref.uid)

    async def read_logs(self, source: LogRef, cursor: int, limit: int) -> list[LogLine]:
        return await self._logs.read(await self._find_pod(source.pod_uid), cursor, limit)

    async def check_working_directory(self, directory: str, workspace_id: int) -> str:
        return mount_error(self.config, directory)

    async def service_address(self, workload_uid: str) -> str:
        await self._services.wait_idle()
        return self._services.address(workload_uid)

    def service_endpoints(self) -> list[ServiceEndpoint]:
        return self._services.endpoints()

    async def list_shells(self, pod_uid: str, container: str = "") -> list[str]:
        pod = await self._find_pod(pod_uid)
        return [
            shell
            for shell in SHELLS
            if any([await self.client.has_path(pod.container.id, f"{folder}/{shell}") for folder in SHELL_DIRS])
        ]

    async def execute(
        self,
        pod_uid: str,
        command: list[str],
        *,
        container: str = "",
        tty: bool,
        columns: int,
        rows: int,
        stderr: bool = False,
    ) -> Terminal:
        pod = await self._find_pod(pod_uid)
        return await open_terminal(
            self.client, pod.container.id, command, tty=tty, columns=columns, rows=rows, stderr=stderr
        )

    @property
    def node(self) -> Node | None:
        """The Docker host; None until it has answered."""
        return self._watcher.node

    def usage_collector(self, clock: Clock) -> DockerCollector:
        return DockerCollector(self.client, self._running_containers, clock)

    async def uninstall(self) -> None:
        """Remove what the engine has made for itself on a host that it leaves: its network."""
        for network in await self.client.list_networks({INSTALLATION_LABEL: self._installation}):
            await self.client.remove_network(network.id)

    async def close(self) -> None:
        await self._watcher.close()
        await self._rollouts.close()
        await self._prober.close()
        await self._services.close()
        await self._logs.close()
        await self._registry.close()
        await self.client.close()

    def _running_containers(self) -> dict[str, str]:
        """By pod: the id of its running container."""
        return {uid: pod.container.id for uid, pod in self._registry.pods.items() if pod.running_since is not None}

    async def _settle_pods(self) -> None:
        """Give found replicas a moment to be probed before they are reported: a restart of the server takes none out of
        service."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_PROBE_SECONDS):
                for pod in list(self._registry.pods.values()):
                    while pod.record.check and pod.running_since is not None and not pod.is_ready:
                        await pod.wait_for_change()
        for uid in self._registry.pods:
            self._registry.notify_log(uid)

    async def _remove_volumes(self, workload_uid: str) -> None:
        labels = {INSTALLATION_LABEL: self._installation, WORKLOAD_UID_LABEL: workload_uid}
        self._purges.add(workload_uid)
        for volume in await self.client.list_volumes(labels):
            try:
                await self.client.remove_volume(volume.name)
            except StokerError as error:
                if error.code is not ErrorCode.CONFLICT:
                    raise
                return
        self._purges.discard(workload_uid)

    async def _find_pod(self, uid: str) -> DockerPod:
        """The pod, which Docker is asked for if the watcher has not seen it yet."""
        if pod := self._registry.find(uid):
            return pod
        labels = {INSTALLATION_LABEL: self._installation, POD_UID_LABEL: uid}
        for summary in await self.client.list_containers(labels):
            if (pod := await self._registry.refresh(summary.id)) is not None:
                return pod
        raise not_found("pod", uid)

    def _on_pod_change(self, pod: DockerPod) -> None:
        self._prober.on_pod_change(pod)
        self._services.on_pod_change(pod)
