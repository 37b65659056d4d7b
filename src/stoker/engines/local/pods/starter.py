"""Prepares and starts pods, each at most once: a second start finds the shim, or what it has recorded, and does
nothing."""

import asyncio
import os

import msgspec

from stoker.concurrency.failpoints import failpoint
from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.local.pods.paths import LocalPaths
from stoker.engines.local.pods.pod import LocalPod, read_pod
from stoker.engines.local.pods.registry import PodRegistry
from stoker.engines.local.pods.setup import PodRuntimeConfig, create_pod, write_record
from stoker.engines.local.shim_launcher import ERROR_FILE, launch_shim
from stoker.engines.model import LaunchSpec, PodAssignment
from stoker.engines.pod_env import RENDEZVOUS_VARIABLES
from stoker.engines.proxy.ports import find_free_ports, find_rendezvous_port

MAX_PORT = 65_535
_SHOWN_CHARACTERS = 300


class PodStarter:
    def __init__(self, paths: LocalPaths, config: PodRuntimeConfig, registry: PodRegistry) -> None:
        self._paths = paths
        self._config = config
        self._registry = registry
        self._launch_slots = asyncio.Semaphore(max(4, 2 * (os.cpu_count() or 1)))

    async def prepare(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> LocalPod:
        return self._ensure_prepared(launch_spec, assignment)

    async def takes_long(self, launch_spec: LaunchSpec) -> bool:
        return False

    async def start_all(self, launch_spec: LaunchSpec) -> None:
        done = await asyncio.gather(
            *(self.start(launch_spec, wanted) for wanted in launch_spec.pods), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result

    def _ensure_prepared(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> LocalPod:
        """The pod, prepared to be started if it never was: everything that needs disk space or ports is done."""
        pod = self._registry.pods.get(assignment.uid) or read_pod(self._paths.pod_dir(assignment.uid))
        if pod is not None and (pod.has_started or pod.is_finished or pod.shim):
            self._adopt_revision(pod, launch_spec)
            return pod
        if pod is not None and pod.is_prepared:
            return pod
        try:
            pod = self._create(launch_spec, assignment, pod)
        except OSError as error:
            hint = f"Check the free space and the permissions of {self._paths.data_dir}."
            raise StokerError(
                ErrorCode.UNAVAILABLE, f"Pod {assignment.name} cannot be created: {error}", hint=hint
            ) from error
        pod.is_prepared = True
        self._registry.add(pod)
        failpoint("engine.pod-made")
        return pod

    async def start(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> LocalPod:
        """Start this pod, if it never was."""
        pod = self._ensure_prepared(launch_spec, assignment)
        if pod.has_started or pod.is_finished or pod.shim:
            return pod
        pod.is_prepared = False
        reason = await self._launch(pod)
        failpoint("engine.started-recorded")
        await self._registry.wait_for_shim(pod, reason or "Its shim died before the command began.")
        return pod

    def _adopt_revision(self, pod: LocalPod, launch_spec: LaunchSpec) -> None:
        """A running pod that a newer revision still lists belongs to that revision."""
        if launch_spec.ref.revision > pod.record.revision:
            pod.replace_record(msgspec.structs.replace(pod.record, revision=launch_spec.ref.revision))
            write_record(pod.path, pod.record)
            self._registry.add(pod)

    def _create(self, launch_spec: LaunchSpec, assignment: PodAssignment, before: LocalPod | None) -> LocalPod:
        port = (_requested_port(assignment) if launch_spec.service else assignment.port) or (
            before.record.port if before else 0
        )
        if launch_spec.service and not port:
            [port] = find_free_ports(1, {pod.record.port for pod in self._registry.pods.values()})
        return create_pod(
            self._paths, self._config, launch_spec, assignment, port, self._rendezvous_port(launch_spec, assignment)
        )

    def _rendezvous_port(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> int:
        """The rendezvous port of a pod: that of its peers, else one that is free on this machine; 0 if none was
        proposed. Replicas of rolling kinds have no peers."""
        proposed = int(assignment.env.get(RENDEZVOUS_VARIABLES[0], 0))
        if not proposed:
            return 0
        others: set[int] = set()
        for pod in self._registry.pods.values():
            is_peer = (pod.record.workload_uid, pod.record.attempt) == (launch_spec.ref.uid, launch_spec.ref.attempt)
            if is_peer and not launch_spec.rolling_update and pod.record.rendezvous_port:
                return pod.record.rendezvous_port
            if not pod.is_finished:
                others |= {pod.record.rendezvous_port, pod.record.port}
        return find_rendezvous_port(proposed, others)

    async def _launch(self, pod: LocalPod) -> str:
        """Returns why the start has failed, or an empty text."""
        try:
            async with self._launch_slots:
                code = await launch_shim(pod.path)
        except OSError as error:
            return f"Its shim could not be started: {error}"
        if code == 0:
            return ""
        text = (pod.path / ERROR_FILE).read_text(errors="replace").strip()
        return f"Its shim ended with {code}. {text[-_SHOWN_CHARACTERS:]}".strip()


def _requested_port(assignment: PodAssignment) -> int:
    """The port the pod will listen on, as far as it is known: the user's own PORT wins over the assigned one."""
    text = assignment.env.get("PORT", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) <= MAX_PORT else assignment.port
