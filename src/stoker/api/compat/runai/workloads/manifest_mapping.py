"""Between Kubernetes manifests and the services' words."""

import base64
import binascii
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml

from stoker.api.bodies import BodyDecoder
from stoker.api.runai.manifest_shapes import (
    AnyManifest,
    Container,
    ContainerPort,
    ContainerResources,
    Deployment,
    EnvVar,
    Job,
    JobSpec,
    KeptUpSpec,
    Notebook,
    NotebookSpec,
    ObjectMeta,
    PodSpec,
    PodTemplate,
    PyTorchJob,
    PyTorchJobSpec,
    ReplicaSpec,
    ReplicaSpecs,
    RunPolicy,
    StatefulSet,
)
from stoker.api.runai.submissions import DEFAULT_CPU, DEFAULT_MEMORY
from stoker.domain.errors import StokerError, bad_request
from stoker.domain.quantity import bytes_of, milli, show_milli
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Service, Spec, Workload

GPUS = ("nvidia.com/gpu", "amd.com/gpu")
FRACTION = "gpu-fraction"
"""The annotation of Run:ai that asks for a part of one GPU."""
DEEPEST = 64
MOST_PARTS = 10_000
_decode = BodyDecoder(AnyManifest)


def read_manifest(given: dict[str, Any] | None, encoded: str | None) -> AnyManifest:
    """A manifest that came as JSON, or as YAML in Base64; one of them."""
    if (given is None) == (encoded is None):
        raise bad_request("manifest", "send the manifest here, or in manifestBase64Encoded; one of them.")
    if encoded is not None:
        given = _from_yaml(encoded)
    try:
        return _decode(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise bad_request("manifestBase64Encoded", f"it holds more than plain data: {error}.") from None
    except StokerError as error:
        words = error.message.removeprefix("body: ")
        raise StokerError(error.code, f"manifest.{words}", hint=error.hint, field=f"manifest.{error.field}") from error


def _from_yaml(encoded: str) -> dict[str, Any]:
    field = "manifestBase64Encoded"
    try:
        text = base64.b64decode(encoded, validate=True).decode()
        if (reason := _unsafe(text)) is not None:
            raise bad_request(field, reason)
        found = _Loader(text).get_single_data()
    except (binascii.Error, UnicodeDecodeError):
        raise bad_request(field, "it is not Base64 of UTF-8 text.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(field, f"it is not YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(found, dict):
        raise bad_request(field, "it holds no manifest. Send one object with apiVersion and kind.")
    return found


class _Loader(yaml.CSafeLoader):
    """Numbers with colons are text, as for Kubernetes: a long one of base 60 takes minutes to work out."""

    def number(self, node: yaml.ScalarNode) -> int | float | str:
        if ":" in node.value:
            return node.value
        return self.construct_yaml_int(node) if node.tag.endswith(":int") else self.construct_yaml_float(node)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.number)


def _unsafe(text: str) -> str | None:
    """Why it is not loaded: a few lines with aliases can make any amount, and deep nesting ends the process."""
    depth = 0
    for parts, event in enumerate(yaml.parse(text, yaml.CSafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            return "aliases are not taken here. Write out what they stand for."
        if getattr(event, "tag", None):
            return "tags are not taken here. Leave out what begins with an exclamation mark."
        if parts > MOST_PARTS:
            return f"it has more than {MOST_PARTS:,} parts."
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            return f"it is nested more than {DEEPEST} deep."
    return None


def template_of(manifest: AnyManifest) -> tuple[PodTemplate, int]:
    """What a pod is made of, and how many there are."""
    match manifest:
        case Deployment() | StatefulSet():
            return manifest.spec.template, manifest.spec.replicas
        case Job():
            if manifest.spec.completions not in {None, manifest.spec.parallelism}:
                raise bad_request("manifest.spec.completions", "every pod runs once. Use as many as parallelism says.")
            return manifest.spec.template, manifest.spec.parallelism
        case PyTorchJob():
            return _gang(manifest.spec.pytorch_replica_specs)
        case Notebook():
            return manifest.spec.template, 1


def _gang(specs: ReplicaSpecs) -> tuple[PodTemplate, int]:
    path = "manifest.spec.pytorchReplicaSpecs"
    if specs.master.replicas != 1:
        raise bad_request(f"{path}.Master.replicas", "there is one master. Use 1.")
    if specs.worker is None:
        return specs.master.template, 1
    if specs.worker.template.spec != specs.master.template.spec:
        raise bad_request(f"{path}.Worker.template", "master and workers are alike here. Use the same template.")
    return specs.master.template, 1 + specs.worker.replicas


def spec_of_manifest(manifest: AnyManifest) -> Spec:
    """A manifest in our words."""
    template, replicas = template_of(manifest)
    [container] = template.spec.containers
    cpu, memory, gpu_milli = _resources(container.resources, template.metadata.annotations)
    port = container.ports[0].container_port if container.ports else 0
    ends = manifest.spec.run_policy if isinstance(manifest, PyTorchJob) else manifest.spec
    return Spec(
        image=container.image,
        entry_point=shlex.join([*container.command, *container.args]),
        resources=Resources(gpu_milli, milli(cpu, "cpu"), bytes_of(memory, "memory")),
        replicas=replicas,
        env={each.name: each.value for each in container.env},
        labels=manifest.metadata.labels,
        annotations=manifest.metadata.annotations | template.metadata.annotations,
        service=Service(port, port) if port else None,
        ttl_seconds=ends.ttl_seconds_after_finished if isinstance(ends, RunPolicy | JobSpec) else 60,
        shown_cpu=cpu,
        shown_gpu=show_milli(gpu_milli),
        shown_memory=memory,
    )


def _resources(asked: ContainerResources, annotations: Mapping[str, str]) -> tuple[str, str, int]:
    amounts = {name: str(amount) for name, amount in {**asked.requests, **asked.limits}.items()}
    cpu, memory = amounts.pop("cpu", DEFAULT_CPU), amounts.pop("memory", DEFAULT_MEMORY)
    gpus = [amounts.pop(name) for name in GPUS if name in amounts]
    path = "manifest.spec.template.spec.containers[0].resources"
    if amounts or len(gpus) > 1:
        raise bad_request(f"{path}.{next(iter(amounts), GPUS[1])}", "there is nothing like it here. Leave it out.")
    part = _part(annotations[FRACTION], gpus) if FRACTION in annotations else 0
    return cpu, memory, part or milli(next(iter(gpus), "0"), f"{path}.{GPUS[0]}")


def _part(text: str, gpus: Sequence[str]) -> int:
    field = f"manifest.spec.template.metadata.annotations.{FRACTION}"
    part = milli(text, field)
    if not 0 < part < MILLI or gpus:
        raise bad_request(field, "it is a part of one GPU, and no GPU beside it. Use a number between 0 and 1, as 0.5.")
    return part


def manifest_of(workload: Workload) -> dict[str, Any]:
    """A workload as a manifest: the one that would make it again."""
    made = _wrapped(workload, _template(workload.spec))
    shown: dict[str, Any] = _without_nothing(msgspec.to_builtins(made))
    return shown


def _template(spec: Spec) -> PodTemplate:
    amounts: dict[str, str | int | float] = {
        "cpu": spec.shown_cpu or DEFAULT_CPU,
        "memory": spec.shown_memory or DEFAULT_MEMORY,
    }
    noted = {name: value for name, value in spec.annotations.items() if name != FRACTION}
    gpus, part = divmod(spec.resources.gpu_milli, MILLI)
    if part:
        noted[FRACTION] = str(spec.resources.gpu_milli / MILLI)
    elif gpus:
        amounts[GPUS[0]] = gpus
    container = Container(
        image=spec.image,
        command=shlex.split(spec.entry_point) if _is_plain(spec.entry_point) else ["sh", "-c", spec.entry_point],
        env=[EnvVar(name=name, value=value) for name, value in spec.env.items()],
        resources=ContainerResources(limits=amounts),
        ports=[ContainerPort(container_port=spec.service.target_port)] if spec.service else [],
    )
    return PodTemplate(spec=PodSpec(containers=[container]), metadata=ObjectMeta(annotations=noted))


def _wrapped(workload: Workload, template: PodTemplate) -> AnyManifest:
    spec = workload.spec
    meta = ObjectMeta(name=workload.name, namespace=workload.namespace, labels=dict(spec.labels))
    ends = RunPolicy(
        backoff_limit=workload.max_retry,
        ttl_seconds_after_finished=spec.ttl_seconds,
        active_deadline_seconds=workload.timeout_seconds,
    )
    match workload.kind:
        case Kind.DEPLOYMENT:
            kept = KeptUpSpec(template=template, replicas=spec.replicas)
            return Deployment(api_version="apps/v1", metadata=meta, spec=kept)
        case Kind.STATEFUL_SET:
            kept = KeptUpSpec(template=template, replicas=spec.replicas)
            return StatefulSet(api_version="apps/v1", metadata=meta, spec=kept)
        case Kind.JOB:
            job = JobSpec(
                template=template,
                parallelism=spec.replicas,
                backoff_limit=ends.backoff_limit,
                ttl_seconds_after_finished=ends.ttl_seconds_after_finished,
                active_deadline_seconds=ends.active_deadline_seconds,
            )
            return Job(api_version="batch/v1", metadata=meta, spec=job)
        case Kind.PYTORCH_JOB:
            worker = ReplicaSpec(template=template, replicas=spec.replicas - 1) if spec.replicas > 1 else None
            gang = ReplicaSpecs(master=ReplicaSpec(template=template), worker=worker)
            spec_of_gang = PyTorchJobSpec(pytorch_replica_specs=gang, run_policy=ends)
            return PyTorchJob(api_version="kubeflow.org/v1", metadata=meta, spec=spec_of_gang)
        case Kind.AUTHORING:
            return Notebook(api_version="kubeflow.org/v1", metadata=meta, spec=NotebookSpec(template=template))


def _is_plain(script: str) -> bool:
    """Whether a script is one command, with nothing that a shell would have to understand."""
    try:
        return shlex.join(shlex.split(script)) == script
    except ValueError:
        return False


def _without_nothing(value: Any) -> Any:
    """Without what is empty, as manifests are written."""
    if isinstance(value, dict):
        found = {name: _without_nothing(each) for name, each in value.items()}
        return {name: each for name, each in found.items() if each not in (None, "", [], {})}
    return [_without_nothing(each) for each in value] if isinstance(value, list) else value
