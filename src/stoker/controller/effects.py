"""What an engine is asked to run for a workload: the order, with everything each pod is told in its environment."""

from collections.abc import Sequence

from stoker.domain.workload import Kind, Pod, Workload
from stoker.engines.base import Order, PodOrder
from stoker.engines.environment import PodPlace, pod_env

GRACE_SECONDS = 30.0


def order_of(workload: Workload, workspace: str, pods: Sequence[Pod], addresses: dict[str, str]) -> Order:
    """The pods of the present attempt and revision, as an engine runs them."""
    spec = workload.spec
    master = addresses.get(pods[0].node, "") if pods else ""
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
        pods=tuple(
            PodOrder(
                uid=pod.uid,
                name=pod.name,
                rank=pod.rank,
                node=pod.node,
                devices=pod.devices,
                env=pod_env(
                    PodPlace(
                        workload_id=workload.slug,
                        kind=workload.kind,
                        workspace=workspace,
                        pod_name=pod.name,
                        node_name=pod.node,
                        rank=pod.rank,
                        world_size=spec.replicas,
                        master_address=master,
                        master_port=0,
                        devices=pod.devices,
                        port=pod.port,
                    ),
                    spec.env,
                ).variables,
                port=pod.port,
            )
            for pod in pods
        ),
        labels=spec.labels,
        service=spec.service,
        restart=not workload.kind.ends,
        rolling=workload.kind.rolls,
        grace_seconds=GRACE_SECONDS,
    )


def main_container(kind: Kind) -> str:
    """What the container that does the work is called."""
    return "pytorch" if kind in {Kind.PYTORCH_JOB, Kind.AUTHORING} else "main"
