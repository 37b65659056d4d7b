"""The local engine: runs pods as processes of this machine.

Every pod has a shim that outlives the server. The state is on disk and with the shims, so an engine that is closed or
killed loses nothing but open connections.
"""

import asyncio
import contextlib
import resource
from collections.abc import AsyncGenerator, Collection
from pathlib import Path

from msgspec import structs

from stoker.domain.access.peers import ProcessOwner, SocketAddress
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.cluster.capabilities import LOCAL_CAPABILITIES, Capabilities
from stoker.domain.cluster.engine_access import LogLine, Terminal
from stoker.domain.cluster.node import CONTAINED_LABEL, Node
from stoker.domain.errors import not_found
from stoker.domain.metrics.report_token import ReportEndpoint
from stoker.engines import gpu_devices
from stoker.engines.coalescing_queue import CoalescingQueue
from stoker.engines.local import base_env
from stoker.engines.local.isolation import cgroups, users
from stoker.engines.local.isolation.containment import (
    ContainmentMode,
    ContainmentReport,
    check_working_directory,
    probe_containment,
)
from stoker.engines.local.logs import read_log
from stoker.engines.local.node import pod_processes
from stoker.engines.local.node.host import describe_node
from stoker.engines.local.node.pod_processes import PodRoot
from stoker.engines.local.pods.paths import LocalPaths
from stoker.engines.local.pods.pod import LocalPod
from stoker.engines.local.pods.registry import PodRegistry
from stoker.engines.local.pods.setup import PodRuntimeConfig
from stoker.engines.local.pods.starter import PodStarter
from stoker.engines.local.terminal import open_terminal
from stoker.engines.model import Delta, FullSync, LaunchSpec, LogRef, ServiceEndpoint, SyncReport, WorkloadRef
from stoker.engines.replicas.readiness import MIN_READY_SECONDS, ReadinessProber
from stoker.engines.replicas.rollout import Rollout, available_memory_bytes
from stoker.engines.replicas.rollouts import Rollouts
from stoker.engines.replicas.services import ServiceProxies


class LocalEngine:
    """Open one with `await LocalEngine.open(data_dir)`."""

    def __init__(
        self,
        paths: LocalPaths,
        node: Node,
        containment: ContainmentReport,
        config: PodRuntimeConfig,
        service_host: str,
        clock: Clock,
        ready_seconds: float,
    ) -> None:
        self.containment = containment
        self._node = node
        self._paths = paths
        self._config = config
        self._probe_lock = asyncio.Lock()
        self._registry = PodRegistry(paths, clock, self._on_pod_change)
        self._services = ServiceProxies(
            paths.services_dir,
            service_host,
            clock,
            self._registry.publish_event,
            self._registry.withdraw_event,
            self._registry.rendezvous_owners,
        )
        self._prober = ReadinessProber(clock, self._registry.notify_changed, ready_seconds)
        starter = PodStarter(paths, config, self._registry)
        rollout = Rollout(self._registry, starter, self._services.drain, available_memory_bytes)
        self._rollouts = Rollouts(self._registry, starter, rollout, clock)
        self._process_scan_lock = asyncio.Lock()
        """All processes of the machine are scanned by one caller at a time."""

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        *,
        node_name: str = "",
        gpus: int | None = None,
        mode: ContainmentMode = ContainmentMode.AUTO,
        hidden: tuple[Path, ...] = (),
        service_host: str = "127.0.0.1",
        log_segment_bytes: int = 16 * 1024**2,
        log_segments: int = 4,
        first_user: int = 0,
        clock: Clock | None = None,
        reports: ReportEndpoint | None = None,
        ready_seconds: float = MIN_READY_SECONDS,
    ) -> "LocalEngine":
        """Open the engine and adopt the pods that exist. `gpus` declares this many pretend devices instead of the
        detected ones; `hidden` are paths outside the data directory that no job may see; `first_user` is the first uid
        of jobs if the server is root; `reports` is where jobs send metrics; `ready_seconds` is after how long a
        running replica without a port is ready."""
        containment = await asyncio.to_thread(probe_containment, mode, first_user)
        control_groups = cgroups.prepare(cgroups.detect())
        namespaces = containment.mode is ContainmentMode.NAMESPACES
        config = PodRuntimeConfig(
            namespaces, control_groups, hidden, log_segment_bytes, log_segments, first_user, reports
        )
        devices = await asyncio.to_thread(gpu_devices.detect) if gpus is None else gpu_devices.pretend(gpus)
        _raise_file_limit()
        node = describe_node(node_name, devices)
        labels = {**node.labels, CONTAINED_LABEL: str(containment.mount_namespace).lower()}
        node = structs.replace(node, labels=labels)
        engine = cls(
            LocalPaths(data_dir), node, containment, config, service_host, clock or SystemClock(), ready_seconds
        )
        await engine._registry.load()
        for pod in list(engine._registry.pods.values()):
            engine._on_pod_change(pod)
        await engine._services.wait_idle()
        return engine

    async def check_working_directory(self, directory: str, workspace_id: int) -> str:
        config = self._config
        uid = users.workspace_uid(config.first_uid, workspace_id) if config.use_namespaces else 0
        async with self._probe_lock:  # every probe is a process
            return await asyncio.to_thread(
                check_working_directory,
                directory,
                self._paths.data_dir,
                config.hidden_paths,
                uid,
                use_namespaces=config.use_namespaces,
            )

    @property
    def capabilities(self) -> Capabilities:
        return LOCAL_CAPABILITIES

    @property
    def node(self) -> Node:
        return self._node

    def shim_pids(self) -> dict[str, int]:
        """By pod: the pid of its shim, which is the ancestor of all its processes. Any thread may call this."""
        pods = self._registry.pods.copy()  # one atomic step: the event loop's thread may change it meanwhile
        return {uid: shim.pid for uid, pod in pods.items() if (shim := pod.shim) is not None}

    async def owner_of_connection(self, far: SocketAddress, near: SocketAddress) -> ProcessOwner:
        async with self._process_scan_lock:
            return await asyncio.to_thread(pod_processes.owner_of_connection, far, near, self._process_roots())

    async def owner_of_process(self, pid: int) -> ProcessOwner:
        async with self._process_scan_lock:
            return await asyncio.to_thread(pod_processes.owner_of_process, pid, self._process_roots())

    def _process_roots(self) -> list[PodRoot]:
        return [PodRoot(pod.shim_pid, pod.record.groups) for pod in self._registry.pods.values() if not pod.is_finished]

    async def watch(self) -> AsyncGenerator[SyncReport]:
        queue = CoalescingQueue()
        self._registry.observers.add(queue)
        try:
            events = self._registry.events
            pods = tuple(pod.observed() for pod in self._registry.pods.values())
            yield FullSync((self._node,), pods, tuple(events.values()))
            while keys := await queue.drain():
                uids = [key for key in keys if "/" not in key]  # the keys of events have one
                changed = [pod.observed() for uid in uids if (pod := self._registry.pods.get(uid))]
                gone = tuple(uid for uid in uids if uid not in self._registry.pods)
                new_events = tuple(events[key] for key in keys if key in events)
                yield Delta(pods=tuple(changed), gone=gone, events=new_events)
        finally:
            self._registry.observers.discard(queue)

    async def log_activity(self) -> AsyncGenerator[LogRef]:
        queue = CoalescingQueue()
        self._registry.log_observers.add(queue)
        try:
            for uid in list(self._registry.pods):
                yield LogRef(uid)
            while uids := await queue.drain():
                for uid in uids:
                    yield LogRef(uid)
        finally:
            self._registry.log_observers.discard(queue)

    async def apply(self, launch_spec: LaunchSpec) -> str:
        async with self._rollouts.lock(launch_spec.ref.uid):
            await self._rollouts.apply(launch_spec)
        return ""

    async def terminate(
        self, ref: WorkloadRef, *, grace_seconds: float, force: bool = False, only: Collection[str] | None = None
    ) -> None:
        async with self._rollouts.lock(ref.uid):
            if only is None:
                await self._rollouts.cancel(ref.uid)
            for pod in self._registry.attempt_pods(ref.uid, ref.attempt):
                if only is None or pod.record.uid in only:
                    await self._registry.stop(pod, 0.0 if force else grace_seconds, "It was stopped before it began.")

    async def pods_of(self, ref: WorkloadRef) -> frozenset[str]:
        return frozenset(pod.record.uid for pod in self._registry.attempt_pods(ref.uid, ref.attempt))

    async def release(self, ref: WorkloadRef) -> None:
        async with self._rollouts.lock(ref.uid):
            for pod in self._registry.attempt_pods(ref.uid, ref.attempt):
                if pod.is_finished:
                    self._registry.remove(pod)
                    await asyncio.to_thread(self._paths.remove_pod_dir, pod.path)

    async def purge(self, ref: WorkloadRef) -> None:
        await asyncio.to_thread(self._paths.purge_workload, ref.slug)

    async def read_logs(self, source: LogRef, cursor: int, limit: int) -> list[LogLine]:
        return await asyncio.to_thread(read_log, self._pod(source.pod_uid).path, cursor, limit)

    async def service_address(self, workload_uid: str) -> str:
        await self._services.wait_idle()
        return self._services.address(workload_uid)

    def service_endpoints(self) -> list[ServiceEndpoint]:
        return self._services.endpoints()

    async def list_shells(self, pod_uid: str, container: str = "") -> list[str]:
        self._pod(pod_uid)
        return base_env.available_shells()

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
        folder = self._pod(pod_uid).path
        return await open_terminal(folder, command, tty=tty, columns=columns, rows=rows, stderr=stderr)

    async def close(self) -> None:
        await self._rollouts.close()
        await self._prober.close()
        await self._services.close()
        await self._registry.close()

    def _on_pod_change(self, pod: LocalPod) -> None:
        self._prober.on_pod_change(pod)
        self._services.on_pod_change(pod)

    def _pod(self, uid: str) -> LocalPod:
        if pod := self._registry.pods.get(uid):
            return pod
        raise not_found("pod", uid)


def _raise_file_limit() -> None:
    """Raise the limit of open files to its maximum: every running pod takes two."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
