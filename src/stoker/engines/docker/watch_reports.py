"""Builds the reports of `watch` from the registry."""

import uuid
from collections.abc import Collection

from stoker.domain.cluster.node import Node
from stoker.engines.docker.foreign import derive_uid, observed_pod, observed_workload, pod_uid_seed
from stoker.engines.docker.registry import DockerPodRegistry
from stoker.engines.model import Delta, FullSync

_CONTAINER_ID_LENGTH = 64


def build_full_sync(registry: DockerPodRegistry, cluster: uuid.UUID, node: Node) -> FullSync:
    foreign = registry.foreign.values()
    return FullSync(
        nodes=(node,),
        pods=(
            *(pod.observed() for uid, pod in registry.pods.items() if uid not in registry.rejected),
            *registry.rejected.values(),
            *(observed_pod(container, cluster, node.name) for container in foreign),
        ),
        events=tuple(registry.events.values()),
        workloads=tuple(observed_workload(container, cluster) for container in foreign),
    )


def build_delta(registry: DockerPodRegistry, cluster: uuid.UUID, node: Node, keys: Collection[str]) -> Delta:
    """Keys are uids of pods, ids of foreign containers, or those of events, which have a slash."""
    plain = [key for key in keys if key and "/" not in key]
    foreign = [registry.foreign[key] for key in plain if key in registry.foreign]
    known = registry.pods.keys() | registry.foreign.keys() | registry.rejected.keys()
    gone = [key for key in plain if key not in known]
    return Delta(
        pods=(
            *(registry.rejected[key] for key in plain if key in registry.rejected),
            *(registry.pods[key].observed() for key in plain if key in registry.pods and key not in registry.rejected),
            *(observed_pod(container, cluster, node.name) for container in foreign),
        ),
        gone=tuple(derive_uid(cluster, pod_uid_seed(key)) if _is_container(key) else key for key in gone),
        events=tuple(registry.events[key] for key in keys if key in registry.events),
        workloads=tuple(observed_workload(container, cluster) for container in foreign),
        gone_workloads=tuple(key for key in gone if _is_container(key)),
    )


def _is_container(key: str) -> bool:
    return len(key) == _CONTAINER_ID_LENGTH
