"""What an engine is asked to run for a workload: the order, with everything each pod is told in its environment."""

import zlib
from collections.abc import Iterable, Mapping, Sequence

from stoker.domain.node import Node
from stoker.domain.workload import Pod, Workload
from stoker.engines.base import Order, PodOrder
from stoker.engines.environment import pod_env

GRACE_SECONDS = 30.0
FIRST_PORT = 20_000
PORTS = 10_000


def order_of(workload: Workload, pods: Sequence[Pod], nodes: Mapping[str, Node]) -> Order:
    """The pods of the present attempt and revision, as an engine runs them."""
    first = nodes.get(pods[0].node)
    master_address = first.address if first else ""
    return order(workload, [_pod_order(workload, pod, nodes.get(pod.node), master_address) for pod in pods])


def order(workload: Workload, pods: Iterable[PodOrder]) -> Order:
    """What is to run, with these pods."""
    spec = workload.spec
    return Order(
        workload_uid=workload.uid,
        slug=workload.slug,
        namespace=workload.namespace,
        kind=workload.kind,
        attempt=workload.attempt,
        revision=workload.revision,
        image=spec.image,
        entry_point=spec.entry_point,
        resources=spec.resources,
        pods=tuple(pods),
        labels=spec.labels,
        annotations=spec.annotations,
        service=spec.service,
        restart=not workload.kind.ends,
        rolling=workload.kind.rolls,
        grace_seconds=GRACE_SECONDS,
        workspace_id=workload.workspace_id,
    )


def meeting_port(workload: Workload) -> int:
    """Where the ranks of an attempt meet: the same for all of them, another one for the next attempt."""
    return FIRST_PORT + zlib.crc32(f"{workload.uid}/{workload.attempt}".encode()) % PORTS


def _pod_order(workload: Workload, pod: Pod, node: Node | None, master_address: str) -> PodOrder:
    models = {device.index: device.model for device in node.devices} if node else {}
    told = pod_env(
        workload,
        pod,
        master_address=master_address,
        master_port=meeting_port(workload),
        gpu_model=models.get(pod.devices[0], "") if pod.devices else "",
    )
    return PodOrder(
        uid=pod.uid, name=pod.name, rank=pod.rank, node=pod.node, devices=pod.devices, env=told.env, port=pod.port
    )
