"""Creates and starts the containers of pods, each at most once: Docker refuses a second container of the same name, and
the start of a container that runs changes nothing."""

import asyncio
import secrets
from collections.abc import Sequence

from stoker.concurrency.failpoints import failpoint
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.metrics.report_token import ReportEndpoint
from stoker.domain.workload.spec import Kind
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.schema import ImageConfig
from stoker.engines.docker.config import HOST_NETWORK, DockerConfig
from stoker.engines.docker.container_config import (
    SHELL,
    PodPlacement,
    build_record,
    create_body,
    image_reference,
    service_port,
)
from stoker.engines.docker.images import ImageStore
from stoker.engines.docker.labels import INSTALLATION_LABEL, container_name, host_name_of, network_name
from stoker.engines.docker.pod import DockerPod
from stoker.engines.docker.registry import DockerPodRegistry
from stoker.engines.model import EngineEvent, LaunchSpec, PodAssignment
from stoker.engines.pod_env import RENDEZVOUS_VARIABLES
from stoker.engines.proxy.ports import LOOPBACK, find_free_ports, find_rendezvous_port

PULLING = "PullingImage"
_CONCURRENT_STARTS = 8
_NO_DRIVER = "could not select device driver"
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the port of a remote host has to be reached from here


class DockerStarter:
    def __init__(
        self,
        client: DockerClient,
        config: DockerConfig,
        installation: str,
        registry: DockerPodRegistry,
        images: ImageStore,
        reports: ReportEndpoint | None,
    ) -> None:
        self._client = client
        self._config = config
        self._installation = installation
        self._registry = registry
        self._images = images
        self._reports = reports
        self._start_slots = asyncio.Semaphore(_CONCURRENT_STARTS)
        self._network = ""
        self._network_lock = asyncio.Lock()
        self._with_shell: set[str] = set()
        self.node_name = ""
        """The name of the node, as soon as it is known."""

    async def takes_long(self, launch_spec: LaunchSpec) -> bool:
        """Whether an image has to be pulled first."""
        return bool(self._missing(launch_spec)) and await self._images.needs_pull(
            image_reference(self._config, launch_spec)
        )

    async def start_all(self, launch_spec: LaunchSpec) -> None:
        """Start missing pods. Rank 0 of a gang comes first: the others need its address."""
        await self._pull(launch_spec)
        pods = sorted(launch_spec.pods, key=lambda pod: pod.rank)
        first: Sequence[PodAssignment] = pods[:1] if _is_gang(launch_spec) else []
        for assignment in first:
            await self._start(launch_spec, assignment)
        done = await asyncio.gather(
            *(self._start(launch_spec, wanted) for wanted in pods[len(first) :]), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result

    async def prepare(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> DockerPod:
        await self._pull(launch_spec)
        return await self._prepare(launch_spec, assignment)

    async def start(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> DockerPod:
        await self._pull(launch_spec)
        return await self._start(launch_spec, assignment)

    async def _start(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> DockerPod:
        async with self._start_slots:
            pod = await self._prepare(launch_spec, assignment)
            if pod.has_started:
                return pod
            failpoint("docker.created")
            try:
                await self._client.start(pod.container.id)
            except StokerError as error:
                if error.code is ErrorCode.UNAVAILABLE and _NO_DRIVER not in error.message:
                    raise  # the start is repeated with the same container
                await self._client.remove(pod.container.id)  # not by force: another server may have started it
                self._registry.remove(pod.container.id)
                if error.code is ErrorCode.NOT_FOUND:  # the network was removed meanwhile
                    self._network = ""
                raise _start_error(error, assignment) from error
            failpoint("docker.started")
            return await self._registry.refresh(pod.container.id) or pod

    async def _prepare(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> DockerPod:
        if (pod := self._registry.find(assignment.uid)) is not None:
            if launch_spec.ref.revision > pod.record.revision:
                pod.adopt_revision(launch_spec.ref.revision)
                self._registry.notify_changed(pod)
            return pod
        reference = image_reference(self._config, launch_spec)
        image = await self._images.find(reference)
        placement = await self._place(launch_spec, assignment)
        record = build_record(launch_spec, assignment, placement, self.node_name)
        body = create_body(
            self._config,
            self._installation,
            launch_spec,
            assignment,
            record,
            placement,
            image.config or ImageConfig(),
            self._registry.gpus,
            self._reports.pod_env(record.workload_uid, record.uid) if self._reports else None,
        )
        container = await self._create(container_name(assignment.name, assignment.uid), body)
        await self._check_shell(launch_spec, container, image.id, reference)
        created = await self._registry.refresh(container)
        if created is None or created.record.uid != assignment.uid:
            raise StokerError(ErrorCode.CONFLICT, f"Pod {assignment.name} was removed while it was created.")
        return created

    async def _create(self, name: str, body: object) -> str:
        """Create a container; if the name is taken by one of this installation, that one is it."""
        try:
            return await self._client.create(name, body)
        except StokerError as error:
            if error.code is ErrorCode.NOT_FOUND:  # the image or the network was removed meanwhile
                self._network = ""
                raise StokerError(ErrorCode.UNAVAILABLE, error.message) from error
            if error.code is not ErrorCode.CONFLICT:
                raise
        existing = await self._client.inspect(name)
        if existing is None:  # Docker reserves a name before the container exists
            raise StokerError(ErrorCode.UNAVAILABLE, f'The container "{name}" is being created or removed.')
        if existing.labels.get(INSTALLATION_LABEL) != self._installation:
            raise StokerError(
                ErrorCode.UNAVAILABLE, f'The name "{name}" is taken by a container that is not of this installation.'
            )
        return existing.id

    async def _check_shell(self, launch_spec: LaunchSpec, container: str, image_id: str, reference: str) -> None:
        """An entry point needs a shell in the image; an image is checked once."""
        needs_shell = launch_spec.main.entry_point or launch_spec.kind == Kind.AUTHORING
        if not needs_shell or image_id in self._with_shell:
            return
        if not await self._client.has_path(container, SHELL):
            await self._client.remove(container, force=True)
            self._registry.remove(container)
            raise StokerError(
                ErrorCode.BAD_REQUEST,
                f"entryPoint: The image {reference} has no {SHELL}, which has to run the entry point.",
                hint="Leave the entry point empty to run the command of the image, or add a shell to the image.",
                field="entryPoint",
            )
        self._with_shell.add(image_id)

    async def _pull(self, launch_spec: LaunchSpec) -> None:
        """Pull the image if a pod is missing and the policy asks for it; an event shows the progress meanwhile."""
        missing = self._missing(launch_spec)
        reference = image_reference(self._config, launch_spec)
        if not missing or not await self._images.needs_pull(reference):
            return
        ref, pending = launch_spec.ref, tuple(pod.uid for pod in missing)
        try:
            await self._images.pull(
                reference,
                lambda text: self._registry.publish_event(EngineEvent(ref.uid, ref.attempt, PULLING, text, pending)),
            )
        finally:
            self._registry.withdraw_event(ref.uid, PULLING)

    def _missing(self, launch_spec: LaunchSpec) -> list[PodAssignment]:
        return [pod for pod in launch_spec.pods if self._registry.find(pod.uid) is None]

    async def _place(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> PodPlacement:
        network = await self._ensure_network()
        on_host = network == HOST_NETWORK
        port = service_port(launch_spec, assignment)
        if port and on_host:
            taken = {pod.record.port for pod in self._registry.pods.values()}
            port = port if "PORT" in assignment.env else find_free_ports(1, taken)[0]
        publish = LOOPBACK if self._config.is_local else _ANY_ADDRESS
        return PodPlacement(
            network=network,
            port=port,
            rendezvous_port=self._rendezvous_port(launch_spec, assignment) if on_host else 0,
            master_address=LOOPBACK if on_host else self._master_address(launch_spec, assignment),
            publish_host="" if on_host else publish,
        )

    def _master_address(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> str:
        """Where rank 0 listens: its own name for itself, its address for the others. If rank 0 has ended already, its
        name stands for the address that it had."""
        if not _is_gang(launch_spec):
            return LOOPBACK
        if assignment.rank == 0:
            return host_name_of(assignment.name)
        ref = launch_spec.ref
        masters = [pod for pod in self._registry.attempt_pods(ref.uid, ref.attempt) if pod.record.rank == 0]
        if not masters:
            return LOOPBACK
        return masters[0].network_address or masters[0].container.name.lstrip("/")

    def _rendezvous_port(self, launch_spec: LaunchSpec, assignment: PodAssignment) -> int:
        """On the network of the host: the port of the peers, else one that is free."""
        proposed = int(assignment.env.get(RENDEZVOUS_VARIABLES[0], 0))
        if not proposed or not self._config.is_local:
            return proposed
        others: set[int] = set()
        for pod in self._registry.pods.values():
            is_peer = (pod.record.workload_uid, pod.record.attempt) == (launch_spec.ref.uid, launch_spec.ref.attempt)
            if is_peer and not launch_spec.rolling_update and pod.record.rendezvous_port:
                return pod.record.rendezvous_port
            if not pod.is_finished:
                others.add(pod.record.rendezvous_port)
        return find_rendezvous_port(proposed, others)

    async def _ensure_network(self) -> str:
        """The network of pods; the engine's own is created when it is first needed. Its name is unique, because Docker
        starts no container on a network whose name another one has too: if two servers create one at once, both use the
        older one."""
        if self._config.network:
            return self._config.network
        async with self._network_lock:
            if not self._network:
                labels = {INSTALLATION_LABEL: self._installation}
                if not (found := await self._client.list_networks(labels)):
                    name = f"{network_name(self._installation)}-{secrets.token_hex(4)}"
                    created = await self._client.create_network(name, labels)
                    found = await self._client.list_networks(labels)
                    if found[0].id != created:
                        await self._client.remove_network(created)
                self._network = found[0].id
            return self._network


def _is_gang(launch_spec: LaunchSpec) -> bool:
    return not launch_spec.rolling_update and max(launch_spec.replicas, len(launch_spec.pods)) > 1


def _start_error(error: StokerError, assignment: PodAssignment) -> StokerError:
    if _NO_DRIVER in error.message:
        return StokerError(
            ErrorCode.UNSCHEDULABLE,
            f"Docker cannot give GPUs to pod {assignment.name}: it has no driver for them.",
            hint="Install the NVIDIA Container Toolkit on the Docker host, and restart dockerd.",
        )
    return StokerError(error.code, f"Pod {assignment.name} cannot be started. {error.message}", hint=error.hint)
