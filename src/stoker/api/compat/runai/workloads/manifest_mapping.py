"""Mapping of Kubernetes manifests to service inputs, and of workloads to manifests."""

import base64
import binascii
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml

from stoker.api.compat.runai.workloads.manifest_schemas import (
    AnyManifest,
    Container,
    ContainerPort,
    ContainerResources,
    Deployment,
    EnvVar,
    Job,
    JobSpec,
    Notebook,
    NotebookSpec,
    ObjectMeta,
    PodSpec,
    PodTemplate,
    PyTorchJob,
    PyTorchJobSpec,
    ReplicaSpec,
    ReplicaSpecs,
    ReplicatedSpec,
    RunPolicy,
    StatefulSet,
)
from stoker.api.compat.runai.workloads.submit_mapping import DEFAULT_CPU, DEFAULT_MEMORY
from stoker.api.http.bodies import BodyDecoder
from stoker.domain.cluster.quantity import format_milli, parse_bytes, parse_milli
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.errors import StokerError, bad_request
from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import Kind, Service, Spec

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
GPU_FRACTION_ANNOTATION = "gpu-fraction"
"""The Run:ai annotation that requests a fraction of one GPU."""
MAX_YAML_DEPTH = 64
MAX_YAML_EVENTS = 10_000
TOO_DEEP_MESSAGE = "it is nested too deeply."
PLAIN_DATA_MESSAGE = "it holds more than plain data. Use texts, numbers, true, false, null, lists and objects."
_decode_manifest = BodyDecoder(AnyManifest)


def parse_manifest(given: dict[str, Any] | None, encoded: str | None) -> AnyManifest:
    """The manifest, sent either as JSON or as Base64-encoded YAML."""
    if (given is None) == (encoded is None):
        raise bad_request("manifest", "send the manifest here, or in manifestBase64Encoded; one of them.")
    if encoded is not None:
        given = _parse_yaml(encoded)
    try:
        return _decode_manifest(msgspec.json.encode(given))
    except RecursionError:
        raise bad_request("manifestBase64Encoded", TOO_DEEP_MESSAGE) from None
    except (TypeError, ValueError):
        raise bad_request("manifestBase64Encoded", PLAIN_DATA_MESSAGE) from None
    except StokerError as error:
        words = error.message.removeprefix("body: ")
        raise StokerError(error.code, f"manifest.{words}", hint=error.hint, field=f"manifest.{error.field}") from error


def _parse_yaml(encoded: str) -> dict[str, Any]:
    field = "manifestBase64Encoded"
    try:
        text = base64.b64decode(encoded, validate=True).decode()
        if (reason := _unsafe_reason(text)) is not None:
            raise bad_request(field, reason)
        found = _ManifestLoader(text).get_single_data()
    except (binascii.Error, UnicodeDecodeError):
        raise bad_request(field, "it is not Base64 of UTF-8 text.") from None
    except RecursionError:
        raise bad_request(field, TOO_DEEP_MESSAGE) from None
    except yaml.YAMLError as error:
        raise bad_request(field, f"it is not YAML: {str(error).splitlines()[0]}.") from None
    except ValueError:
        raise bad_request(field, PLAIN_DATA_MESSAGE) from None
    if not isinstance(found, dict):
        raise bad_request(field, "it holds no manifest. Send one object with apiVersion and kind.")
    return found


class _ManifestLoader(yaml.CSafeLoader):
    """Numbers with colons are text, as in Kubernetes: parsing a long base-60 number takes minutes."""

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        if ":" in node.value:
            return node.value
        return self.construct_yaml_int(node) if node.tag.endswith(":int") else self.construct_yaml_float(node)


for _kind in ("int", "float"):
    _ManifestLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _ManifestLoader.construct_number)


def _unsafe_reason(text: str) -> str | None:
    """Why a document is rejected: aliases can expand to any size, and deep nesting crashes the process."""
    depth = 0
    for parts, event in enumerate(yaml.parse(text, yaml.CSafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            return "aliases are not taken here. Write out what they stand for."
        if getattr(event, "tag", None):
            return "tags are not taken here. Leave out what begins with an exclamation mark."
        if parts > MAX_YAML_EVENTS:
            return f"it has more than {MAX_YAML_EVENTS:,} parts."
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_YAML_DEPTH:
            return f"it is nested more than {MAX_YAML_DEPTH} deep."
    return None


def pod_template_and_count(manifest: AnyManifest) -> tuple[PodTemplate, int]:
    """The pod template and the number of pods."""
    match manifest:
        case Deployment() | StatefulSet():
            return manifest.spec.template, manifest.spec.replicas
        case Job():
            if manifest.spec.completions not in {None, manifest.spec.parallelism}:
                raise bad_request("manifest.spec.completions", "every pod runs once. Use as many as parallelism says.")
            return manifest.spec.template, manifest.spec.parallelism
        case PyTorchJob():
            return _gang_template(manifest.spec.pytorch_replica_specs)
        case Notebook():
            return manifest.spec.template, 1


def _gang_template(specs: ReplicaSpecs) -> tuple[PodTemplate, int]:
    path = "manifest.spec.pytorchReplicaSpecs"
    if specs.master.replicas != 1:
        raise bad_request(f"{path}.Master.replicas", "there is one master. Use 1.")
    if specs.worker is None:
        return specs.master.template, 1
    if specs.worker.template.spec != specs.master.template.spec:
        raise bad_request(f"{path}.Worker.template", "master and workers are alike here. Use the same template.")
    return specs.master.template, 1 + specs.worker.replicas


def to_spec(manifest: AnyManifest) -> Spec:
    """The spec of a manifest."""
    template, replicas = pod_template_and_count(manifest)
    [container] = template.spec.containers
    cpu, memory, gpu_milli = _requested_resources(container.resources, template.metadata.annotations)
    port = container.ports[0].container_port if container.ports else 0
    ends = manifest.spec.run_policy if isinstance(manifest, PyTorchJob) else manifest.spec
    return Spec(
        image=container.image,
        entry_point=shlex.join([*container.command, *container.args]),
        resources=Resources(gpu_milli, parse_milli(cpu, "cpu"), parse_bytes(memory, "memory")),
        replicas=replicas,
        env={each.name: each.value for each in container.env},
        labels=manifest.metadata.labels,
        annotations=manifest.metadata.annotations | template.metadata.annotations,
        service=Service(port, port) if port else None,
        ttl_seconds=ends.ttl_seconds_after_finished if isinstance(ends, RunPolicy | JobSpec) else 60,
        shown_cpu=cpu,
        shown_gpu=format_milli(gpu_milli),
        shown_memory=memory,
    )


def _requested_resources(asked: ContainerResources, annotations: Mapping[str, str]) -> tuple[str, str, int]:
    amounts = {name: str(amount) for name, amount in {**asked.requests, **asked.limits}.items()}
    cpu, memory = amounts.pop("cpu", DEFAULT_CPU), amounts.pop("memory", DEFAULT_MEMORY)
    gpus = [amounts.pop(name) for name in GPU_RESOURCES if name in amounts]
    path = "manifest.spec.template.spec.containers[0].resources"
    if amounts or len(gpus) > 1:
        raise bad_request(
            f"{path}.{next(iter(amounts), GPU_RESOURCES[1])}", "there is nothing like it here. Leave it out."
        )
    part = _gpu_fraction(annotations[GPU_FRACTION_ANNOTATION], gpus) if GPU_FRACTION_ANNOTATION in annotations else 0
    return cpu, memory, part or parse_milli(next(iter(gpus), "0"), f"{path}.{GPU_RESOURCES[0]}")


def _gpu_fraction(text: str, gpus: Sequence[str]) -> int:
    field = f"manifest.spec.template.metadata.annotations.{GPU_FRACTION_ANNOTATION}"
    part = parse_milli(text, field)
    if not 0 < part < MILLI or gpus:
        raise bad_request(field, "it is a part of one GPU, and no GPU beside it. Use a number between 0 and 1, as 0.5.")
    return part


def to_manifest(workload: Workload) -> dict[str, Any]:
    """The manifest that would create the workload again."""
    made = _build_manifest(workload, _to_pod_template(workload.spec))
    shown: dict[str, Any] = _strip_empty(msgspec.to_builtins(made))
    return shown


def _to_pod_template(spec: Spec) -> PodTemplate:
    amounts: dict[str, str | int | float] = {
        "cpu": spec.shown_cpu or DEFAULT_CPU,
        "memory": spec.shown_memory or DEFAULT_MEMORY,
    }
    noted = {name: value for name, value in spec.annotations.items() if name != GPU_FRACTION_ANNOTATION}
    gpus, part = divmod(spec.resources.gpu_milli, MILLI)
    if part:
        noted[GPU_FRACTION_ANNOTATION] = str(spec.resources.gpu_milli / MILLI)
    elif gpus:
        amounts[GPU_RESOURCES[0]] = gpus
    container = Container(
        image=spec.image,
        command=shlex.split(spec.entry_point)
        if _is_plain_command(spec.entry_point)
        else ["sh", "-c", spec.entry_point],
        env=[EnvVar(name=name, value=value) for name, value in spec.env.items()],
        resources=ContainerResources(limits=amounts),
        ports=[ContainerPort(container_port=spec.service.target_port)] if spec.service else [],
    )
    return PodTemplate(spec=PodSpec(containers=[container]), metadata=ObjectMeta(annotations=noted))


def _build_manifest(workload: Workload, template: PodTemplate) -> AnyManifest:
    spec = workload.spec
    meta = ObjectMeta(name=workload.name, namespace=workload.namespace, labels=dict(spec.labels))
    ends = RunPolicy(
        backoff_limit=workload.max_retry,
        ttl_seconds_after_finished=spec.ttl_seconds,
        active_deadline_seconds=workload.timeout_seconds,
    )
    match workload.submitted_kind:
        case Kind.DEPLOYMENT:
            kept = ReplicatedSpec(template=template, replicas=spec.replicas)
            return Deployment(api_version="apps/v1", metadata=meta, spec=kept)
        case Kind.STATEFUL_SET:
            kept = ReplicatedSpec(template=template, replicas=spec.replicas)
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


def _is_plain_command(script: str) -> bool:
    """Whether a script is a single command without shell syntax."""
    try:
        return shlex.join(shlex.split(script)) == script
    except ValueError:
        return False


def _strip_empty(value: Any) -> Any:
    """Without empty fields, as manifests are usually written."""
    if isinstance(value, dict):
        found = {name: _strip_empty(each) for name, each in value.items()}
        return {name: each for name, each in found.items() if each not in (None, "", [], {})}
    return [_strip_empty(each) for each in value] if isinstance(value, list) else value
