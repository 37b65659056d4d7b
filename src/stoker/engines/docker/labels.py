"""The labels by which the engine knows its own containers, volumes and networks after any restart.

Only what carries the id of this installation is ever changed or removed.
"""

import hashlib
import re

import msgspec

from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.engines.docker.api.schema import ContainerInspect
from stoker.engines.replicas.replica import ReplicaRecord

LABEL_PREFIX = "stoker."
INSTALLATION_LABEL = "stoker.installation"
WORKLOAD_UID_LABEL = "stoker.workload-uid"
WORKLOAD_LABEL = "stoker.workload"
ATTEMPT_LABEL = "stoker.attempt"
REVISION_LABEL = "stoker.revision"
RANK_LABEL = "stoker.rank"
POD_UID_LABEL = "stoker.pod-uid"
POD_LABEL = "stoker.pod"
RECORD_LABEL = "stoker.record"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]+")
_MAX_NAME = 100
_MAX_HOST_NAME = 63


class ContainerRecord(ReplicaRecord, frozen=True, kw_only=True):
    """What a label of the container keeps of the launch spec."""

    kind: str
    node: str
    rendezvous_port: int = 0
    devices: tuple[DeviceRef, ...] = ()
    resources: Resources = Resources()


def container_labels(installation: str, record: ContainerRecord) -> dict[str, str]:
    return workload_labels(installation, record.workload_uid, record.slug) | {
        ATTEMPT_LABEL: str(record.attempt),
        REVISION_LABEL: str(record.revision),
        RANK_LABEL: str(record.rank),
        POD_UID_LABEL: record.uid,
        POD_LABEL: record.name,
        RECORD_LABEL: msgspec.json.encode(record).decode(),
    }


def workload_labels(installation: str, workload_uid: str, slug: str) -> dict[str, str]:
    return {INSTALLATION_LABEL: installation, WORKLOAD_UID_LABEL: workload_uid, WORKLOAD_LABEL: slug}


def read_record(container: ContainerInspect, installation: str) -> ContainerRecord | None:
    """The record of a container; None if this installation has not made it."""
    labels = container.labels
    if labels.get(INSTALLATION_LABEL) != installation:
        return None
    try:
        return msgspec.json.decode(labels.get(RECORD_LABEL, ""), type=ContainerRecord)
    except msgspec.MsgspecError:
        return None


def container_name(pod_name: str, pod_uid: str) -> str:
    """A name that follows from the pod alone, so that Docker itself prevents a second container of one pod."""
    suffix = hashlib.blake2s(pod_uid.encode(), digest_size=4).hexdigest()
    return f"{_clean(pod_name)[:_MAX_NAME]}-{suffix}"


def host_name_of(pod_name: str) -> str:
    return _clean(pod_name).replace("_", "-").replace(".", "-")[:_MAX_HOST_NAME].strip("-") or "pod"


def volume_name(installation: str, slug: str, rank: int | None) -> str:
    name = f"stoker-{short_id(installation)}-{_clean(slug)}"
    return name if rank is None else f"{name}-{rank}"


def network_name(installation: str) -> str:
    return f"stoker-{short_id(installation)}"


def short_id(installation: str) -> str:
    return hashlib.blake2s(installation.encode(), digest_size=4).hexdigest()


def _clean(text: str) -> str:
    """The text with the characters that Docker allows in names; the first one has to be a letter or a digit."""
    return _NOT_IN_NAMES.sub("-", text).lstrip("_.-") or "pod"
