"""Builds launch specs: what an engine runs for a workload, with the environment of each pod."""

import zlib
from collections.abc import Iterable, Mapping, Sequence

from stoker.domain.cluster.node import DeviceRef, Node
from stoker.domain.workload.model import DEFAULT_GRACE_SECONDS, Workload
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import main_container_name
from stoker.engines.model import (
    AdmissionHints,
    Constraints,
    ContainerSpec,
    LaunchSpec,
    PodAssignment,
    Rendezvous,
    WorkloadRef,
)
from stoker.engines.pod_env import RENDEZVOUS_PORTS, build_pod_env


def workload_ref(workload: Workload) -> WorkloadRef:
    """The current attempt and revision of a workload."""
    return WorkloadRef(
        uid=workload.uid,
        slug=workload.slug,
        namespace=workload.namespace,
        attempt=workload.attempt,
        revision=workload.revision,
        engine_ref=workload.engine_ref,
    )


def build_launch_spec(workload: Workload, pods: Sequence[Pod], nodes: Mapping[str, Node]) -> LaunchSpec:
    """The launch spec of the current attempt and revision. Ended pods are never included, because an engine that has
    released them would run them again. The master address stays that of the first pod."""
    first = nodes.get(pods[0].node)
    master_address = first.address if first else ""
    alive = [pod for pod in pods if not pod.phase.is_finished]
    return launch_spec_with_pods(
        workload,
        [_pod_assignment(workload, pod, nodes.get(pod.node), master_address) for pod in alive],
        master_address,
    )


def launch_spec_with_pods(workload: Workload, pods: Iterable[PodAssignment], master_address: str = "") -> LaunchSpec:
    """The launch spec with these pods."""
    spec = workload.spec
    rolling = workload.uses_rolling_update
    return LaunchSpec(
        ref=workload_ref(workload),
        kind=workload.kind,
        replicas=spec.replicas,
        containers=(
            ContainerSpec(
                name=main_container_name(workload.kind),
                image=spec.image,
                entry_point=spec.entry_point,
                resources=spec.resources,
                env=spec.env,
            ),
        ),
        pods=tuple(pods),
        gang=not rolling,
        labels=spec.labels,
        annotations=spec.annotations,
        service=spec.service,
        readiness=spec.readiness,
        restart_on_exit=not workload.runs_to_completion,
        rolling_update=rolling,
        grace_seconds=DEFAULT_GRACE_SECONDS,
        workspace_id=workload.workspace_id,
        constraints=Constraints(spec.specified_nodes, spec.node_pools, spec.tolerate_all),
        admission=AdmissionHints(
            priority=workload.priority,
            preemptible=workload.preemptible,
            time_limit_seconds=workload.timeout_seconds,
            not_before=spec.start_after,
            depends_on=spec.dependencies,
            max_retries=workload.max_retry,
        ),
        rendezvous=Rendezvous(rendezvous_port(workload), 1 if rolling else spec.replicas, master_address),
    )


def rendezvous_port(workload: Workload) -> int:
    """The port where the ranks of an attempt meet: the same for all of them, another one for the next attempt. An
    engine whose pods share the ports of a node chooses another one if it is in use."""
    return RENDEZVOUS_PORTS[zlib.crc32(f"{workload.uid}/{workload.attempt}".encode()) % len(RENDEZVOUS_PORTS)]


def _pod_assignment(workload: Workload, pod: Pod, node: Node | None, master_address: str) -> PodAssignment:
    pod_env = build_pod_env(
        workload,
        pod,
        master_address=master_address,
        master_port=rendezvous_port(workload),
        devices=[device for device in node.devices if device.index in pod.devices] if node else (),
    )
    return PodAssignment(
        uid=pod.uid,
        name=pod.name,
        rank=pod.rank,
        node=pod.node,
        devices=_device_refs(pod, node),
        env=pod_env.env,
        port=pod.port,
    )


def _device_refs(pod: Pod, node: Node | None) -> tuple[DeviceRef, ...]:
    uuids = {device.index: device.uuid for device in node.devices} if node else {}
    return tuple(DeviceRef(index, uuids.get(index, "")) for index in pod.devices)
