"""Kubernetes manifests, as far as they are supported.

Manifests are decoded strictly: a field that Stoker does not support, such as a volume, is an unknown field. Fields that
a cluster adds by itself, or that have no effect here, are accepted and ignored.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from stoker.api.compat.management.schemas import EnvName, EnvValue
from stoker.domain.workload.spec import Kind
from stoker.wire.base import RequestBody

ReplicaCount = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[int, Meta(ge=0, le=315_360_000)]
Retries = Annotated[int, Meta(ge=0, le=50)]
StringMap = dict[str, str]


class ObjectMeta(RequestBody, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    labels: StringMap = {}
    annotations: StringMap = {}
    creation_timestamp: Any = None


class EnvVar(RequestBody, frozen=True, kw_only=True):
    name: EnvName
    value: EnvValue = ""


class ContainerResources(RequestBody, frozen=True, kw_only=True):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class ContainerPort(RequestBody, frozen=True, kw_only=True):
    container_port: Annotated[int, Meta(ge=1, le=65535)]
    name: str = ""
    protocol: Literal["TCP"] = "TCP"


class Container(RequestBody, frozen=True, kw_only=True):
    image: str
    name: str = "main"
    command: list[str] = []
    args: list[str] = []
    env: list[EnvVar] = []
    resources: ContainerResources = ContainerResources()
    ports: Annotated[list[ContainerPort], Meta(max_length=1)] = []
    image_pull_policy: Any = None
    termination_message_path: Any = None
    termination_message_policy: Any = None


class PodSpec(RequestBody, frozen=True, kw_only=True):
    containers: Annotated[list[Container], Meta(min_length=1, max_length=1)]
    restart_policy: Any = None
    scheduler_name: Any = None
    priority_class_name: Any = None
    dns_policy: Any = None
    termination_grace_period_seconds: Any = None


class PodTemplate(RequestBody, frozen=True, kw_only=True):
    spec: PodSpec
    metadata: ObjectMeta = ObjectMeta()


class ReplicatedSpec(RequestBody, frozen=True, kw_only=True):
    template: PodTemplate
    replicas: ReplicaCount = 1
    selector: Any = None
    strategy: Any = None
    update_strategy: Any = None
    service_name: Any = None
    revision_history_limit: Any = None
    progress_deadline_seconds: Any = None


class JobSpec(RequestBody, frozen=True, kw_only=True):
    template: PodTemplate
    parallelism: ReplicaCount = 1
    completions: ReplicaCount | None = None
    backoff_limit: Retries = 0
    ttl_seconds_after_finished: Seconds = 60
    active_deadline_seconds: Seconds = 0


class ReplicaSpec(RequestBody, frozen=True, kw_only=True):
    template: PodTemplate
    replicas: ReplicaCount = 1
    restart_policy: Any = None


class ReplicaSpecs(RequestBody, frozen=True, kw_only=True, rename="pascal"):
    master: ReplicaSpec
    worker: ReplicaSpec | None = None


class RunPolicy(RequestBody, frozen=True, kw_only=True):
    backoff_limit: Retries = 0
    ttl_seconds_after_finished: Seconds = 60
    active_deadline_seconds: Seconds = 0
    clean_pod_policy: Any = None


class PyTorchJobSpec(RequestBody, frozen=True, kw_only=True):
    pytorch_replica_specs: ReplicaSpecs
    run_policy: RunPolicy = RunPolicy()
    nproc_per_node: Any = None


class NotebookSpec(RequestBody, frozen=True, kw_only=True):
    template: PodTemplate


class Manifest(RequestBody, frozen=True, kw_only=True, tag_field="kind"):
    metadata: ObjectMeta = ObjectMeta()
    status: Any = None


class Deployment(Manifest, frozen=True, kw_only=True, tag="Deployment"):
    api_version: Literal["apps/v1"]
    spec: ReplicatedSpec


class StatefulSet(Manifest, frozen=True, kw_only=True, tag="StatefulSet"):
    api_version: Literal["apps/v1"]
    spec: ReplicatedSpec


class Job(Manifest, frozen=True, kw_only=True, tag="Job"):
    api_version: Literal["batch/v1"]
    spec: JobSpec


class PyTorchJob(Manifest, frozen=True, kw_only=True, tag="PyTorchJob"):
    api_version: Literal["kubeflow.org/v1"]
    spec: PyTorchJobSpec


class Notebook(Manifest, frozen=True, kw_only=True, tag="Notebook"):
    api_version: Literal["kubeflow.org/v1"]
    spec: NotebookSpec


AnyManifest = Deployment | StatefulSet | Job | PyTorchJob | Notebook
KIND_BY_MANIFEST: dict[type[Manifest], Kind] = {
    Deployment: Kind.DEPLOYMENT,
    StatefulSet: Kind.STATEFUL_SET,
    Job: Kind.JOB,
    PyTorchJob: Kind.PYTORCH_JOB,
    Notebook: Kind.AUTHORING,
}
GROUP_AND_NAME_BY_KIND = {
    Kind.DEPLOYMENT: ("apps", "Deployment"),
    Kind.STATEFUL_SET: ("apps", "StatefulSet"),
    Kind.JOB: ("batch", "Job"),
    Kind.PYTORCH_JOB: ("kubeflow.org", "PyTorchJob"),
    Kind.AUTHORING: ("kubeflow.org", "Notebook"),
}
