"""All pods and foreign containers of a Docker host, as last reported.

Pods are keyed by the uid that Stoker gave them, foreign containers by the id of Docker. Whoever changes a container
updates it here at once; the watcher does so for everything that others change.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any

from stoker.domain.errors import StokerError
from stoker.engines.coalescing_queue import CoalescingQueue
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.schema import ContainerInspect
from stoker.engines.docker.foreign import ForeignContainer, find_foreign
from stoker.engines.docker.gpus import HostGpus
from stoker.engines.docker.labels import INSTALLATION_LABEL, WORKLOAD_UID_LABEL, read_record
from stoker.engines.docker.pod import DockerPod, rejected_pod
from stoker.engines.model import EngineEvent, LaunchSpec, ObservedPod

log = logging.getLogger(__name__)


class DockerPodRegistry:
    def __init__(
        self, client: DockerClient, installation: str, host: str, on_change: Callable[[DockerPod], None]
    ) -> None:
        self.pods: dict[str, DockerPod] = {}
        self.foreign: dict[str, ForeignContainer] = {}
        self.rejected: dict[str, ObservedPod] = {}
        """Pods that will never have a container, reported as failed until they are released."""
        self.observers: set[CoalescingQueue] = set()
        self.log_observers: set[CoalescingQueue] = set()
        self.events: dict[str, EngineEvent] = {}
        self.gpus = HostGpus()
        self._client = client
        self._installation = installation
        self._host = host
        self._on_change = on_change
        self._uid_by_container: dict[str, str] = {}
        self._without_gpus: set[str] = set()
        """Foreign containers that hold no GPUs; what a container holds never changes."""
        self._stops: dict[str, asyncio.Task[None]] = {}

    def find(self, uid: str) -> DockerPod | None:
        return self.pods.get(uid)

    def attempt_pods(self, workload_uid: str, attempt: int) -> list[DockerPod]:
        found = [
            pod
            for pod in self.pods.values()
            if pod.record.workload_uid == workload_uid and pod.record.attempt == attempt
        ]
        return sorted(found, key=lambda pod: (pod.record.rank, pod.record.revision))

    def is_ignored(self, container_id: str) -> bool:
        """Whether the container is known to be none of ours and to hold no GPUs."""
        return container_id in self._without_gpus

    def update(self, container: ContainerInspect) -> DockerPod | None:
        """Take over what Docker reports of a container. Returns the pod if it is one."""
        record = read_record(container, self._installation)
        if record is None:
            self._update_foreign(container)
            return None
        pod = self.pods.get(record.uid)
        if pod is None or pod.container.id != container.id:
            pod = DockerPod(record, container, self._host)
            self.pods[record.uid] = pod
            self._uid_by_container[container.id] = record.uid
            self.notify_changed(pod)
        elif pod.container != container:
            pod.update(container)
            self.notify_changed(pod)
        return pod

    def remove(self, container_id: str) -> None:
        """Forget a container that does not exist any more."""
        self._without_gpus.discard(container_id)
        if self.foreign.pop(container_id, None):
            self._put(container_id)
        uid = self._uid_by_container.pop(container_id, "")
        pod = self.pods.get(uid)
        if pod is not None and pod.container.id == container_id:
            pod.is_removed = True
            del self.pods[uid]
            self.notify_changed(pod)

    def replace_all(self, containers: Iterable[ContainerInspect], listed: Collection[str]) -> None:
        """Take over a complete list after a gap. A pod that ran before and was ended from outside meanwhile has ended
        with dockerd."""
        running = {uid for uid, pod in self.pods.items() if pod.is_running and not pod.stop_requested}
        for container in containers:
            pod = self.update(container)
            if pod is not None and pod.record.uid in running and pod.was_ended_from_outside:
                self.mark_lost(pod)
        for container_id in [*self._uid_by_container, *self.foreign, *self._without_gpus]:
            if container_id not in listed:
                self.remove(container_id)

    def mark_lost(self, pod: DockerPod) -> None:
        pod.is_lost = True
        log.warning("Pod %s was ended by a restart of Docker", pod.record.name)

    def known_containers(self) -> set[str]:
        return self._without_gpus | {
            foreign.container.id for foreign in self.foreign.values() if foreign.container.state.status == "exited"
        }

    async def refresh(self, container_id: str) -> DockerPod | None:
        """Ask Docker about one container."""
        container = await self._client.inspect(container_id)
        if container is None:
            self.remove(container_id)
            return None
        return self.update(container)

    async def refresh_workload(self, workload_uid: str) -> None:
        """Ask Docker which containers a workload has, whether or not the watcher has seen them."""
        labels = {INSTALLATION_LABEL: self._installation, WORKLOAD_UID_LABEL: workload_uid}
        listed = {summary.id for summary in await self._client.list_containers(labels)}
        known = {pod.container.id for pod in self.pods.values() if pod.record.workload_uid == workload_uid}
        for container_id in (listed - known) | (known - listed):
            await self.refresh(container_id)

    async def stop(self, pod: DockerPod, grace_seconds: float, reason: str) -> None:
        """Ask a pod to stop; that goes on in a task. One that has not started is removed."""
        if pod.is_finished:
            return
        pod.stop_requested = True
        container = pod.container.id
        if not pod.has_started:
            await self._client.remove(container, force=True)
            log.info("Pod %s is removed: %s", pod.record.name, reason)
            self.remove(container)
        elif container not in self._stops:
            self._spawn_stop(container, self._stop(container, grace_seconds))
        elif grace_seconds <= 0:
            await self._client.kill(container)

    async def force(self, pod: DockerPod) -> None:
        """Drop a pod, whether or not its processes end."""
        pod.stop_requested = True
        await self._client.remove(pod.container.id, force=True)
        self.remove(pod.container.id)

    async def stop_foreign(self, container_id: str, grace_seconds: float) -> None:
        """Ask a container of somebody else to stop, as an admin may where the cluster allows it. It is not removed."""
        if container_id not in self.foreign:
            return
        if container_id not in self._stops:
            self._spawn_stop(container_id, self._stop(container_id, grace_seconds))
        elif grace_seconds <= 0:
            await self._client.kill(container_id)

    def notify_changed(self, pod: DockerPod) -> None:
        self._on_change(pod)
        pod.notify()
        self._put(pod.record.uid)
        for queue in self.log_observers:
            queue.put(pod.record.uid)

    def notify_log(self, uid: str) -> None:
        for queue in self.log_observers:
            queue.put(uid)

    def notify_observers(self) -> None:
        """Wake all observers: contact was lost or is back."""
        self._put("")

    def publish_event(self, event: EngineEvent) -> None:
        key = f"{event.workload_uid}/{event.reason}"
        if self.events.get(key) != event:
            self.events[key] = event
            self._put(key)

    def withdraw_event(self, workload_uid: str, reason: str) -> None:
        self.events.pop(f"{workload_uid}/{reason}", None)

    def reject(self, launch_spec: LaunchSpec, reason: str) -> None:
        """Report the missing pods as failed, unless other pods of the attempt run: then an update has failed."""
        ref = launch_spec.ref
        started = [pod for pod in self.attempt_pods(ref.uid, ref.attempt) if pod.has_started]
        if any(not pod.is_finished for pod in started):
            return
        for pod in launch_spec.pods:
            if pod.uid not in {existing.record.uid for existing in started}:
                self.rejected[pod.uid] = rejected_pod(launch_spec, pod, reason)
                self._put(pod.uid)

    def rejected_pods(self, workload_uid: str, attempt: int) -> list[str]:
        return [
            uid for uid, pod in self.rejected.items() if pod.workload_uid == workload_uid and pod.attempt == attempt
        ]

    def forget_rejected(self, uids: Iterable[str]) -> None:
        for uid in uids:
            if self.rejected.pop(uid, None):
                self._put(uid)

    async def close(self) -> None:
        for queue in self.observers | self.log_observers:
            queue.close()
        stops = list(self._stops.values())
        for task in stops:
            task.cancel()
        await asyncio.gather(*stops, return_exceptions=True)

    def _update_foreign(self, container: ContainerInspect) -> None:
        found = find_foreign(container, self.gpus)
        if found is None:
            self._without_gpus.add(container.id)
        elif self.foreign.get(container.id) != found:
            self.foreign[container.id] = found
            self._put(container.id)

    async def _stop(self, container_id: str, grace_seconds: float) -> None:
        try:
            if grace_seconds <= 0:  # Docker's own stop without a grace period still sends SIGTERM first
                await self._client.kill(container_id)
            else:
                await self._client.stop(container_id, grace_seconds)
            await self.refresh(container_id)
        except StokerError as error:
            log.warning("Container %s could not be stopped: %s", container_id[:12], error.message)

    def _spawn_stop(self, container: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._stops[container] = task
        task.add_done_callback(lambda _: self._stops.pop(container, None))

    def _put(self, key: str) -> None:
        for queue in self.observers:
            queue.put(key)
