"""Submissions of Run:ai's clients, translated to what the services accept.

A field that would have no effect here is rejected rather than ignored.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs
from msgspec.structs import fields as fields_of

from stoker.api.compat.runai.enums import (
    DEFAULT_PRIORITY,
    DEPRECATED_PRIORITIES,
    MIN_NON_PREEMPTIBLE_PRIORITY,
    ORIGIN,
    PRIORITIES,
)
from stoker.api.compat.runai.workloads.submission_view import to_submission_spec
from stoker.api.compat.runai.workloads.submit_schemas import (
    UNSUPPORTED_FIELDS,
    UNSUPPORTED_MESSAGE,
    AnySpec,
    AutoScaling,
    BatchSpec,
    Compute,
    DistributedSpec,
    EnvironmentVariable,
    InferenceSpec,
    LabelBody,
    PortBody,
    TrainingSpec,
    WorkloadSpec,
    WorkspaceSpec,
)
from stoker.domain.cluster.node import DEFAULT_POOL
from stoker.domain.cluster.quantity import format_milli, parse_bytes, parse_milli
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.errors import bad_request
from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import CATEGORY_BY_KIND, Kind, Service, Spec
from stoker.services.workloads.spec_diff import diff_specs
from stoker.services.workloads.validation import CreateWorkloadInput, UpdateWorkloadInput

DEFAULT_CPU = "100m"
DEFAULT_MEMORY = "100M"
IMMUTABLE_FIELDS = ("labels", "annotations", "node_pools", "serving_port", "ports", "category", "preemptibility")
"""Fields of an inference that cannot be changed."""


def to_new_workload(name: str, workspace: str, spec: AnySpec) -> CreateWorkloadInput:
    """A submission as the input of the workload service."""
    kind = _kind_of_spec(spec)
    _reject_unsupported(spec, UNSUPPORTED_FIELDS, "spec")
    if spec.category and spec.category.casefold() != CATEGORY_BY_KIND[kind].casefold():
        raise bad_request("spec.category", f"a workload of this type is of the category {CATEGORY_BY_KIND[kind]}.")
    priority = resolve_priority(spec.priority_class, kind)
    batch = spec if isinstance(spec, BatchSpec) else None
    return CreateWorkloadInput(
        name=name,
        kind=kind,
        workspace=workspace,
        spec=_to_spec(spec),
        priority=priority,
        preemptible=spec.preemptibility == "preemptible"
        if spec.preemptibility
        else priority < MIN_NON_PREEMPTIBLE_PRIORITY,
        max_retry=(batch.backoff_limit or 0) if batch else 0,
        origin_api=ORIGIN,
    )


def to_inference_edit(workload: Workload, patch: InferenceSpec) -> UpdateWorkloadInput:
    """The update of an inference; fields that are left out stay."""
    _reject_unsupported(patch, (*UNSUPPORTED_FIELDS, *IMMUTABLE_FIELDS), "spec")
    before = to_submission_spec(workload)
    changes = {name: value for name in patch.__struct_fields__ if (value := getattr(patch, name)) is not None}
    if (compute := patch.compute) is not None:
        amounts = {name: value for name in compute.__struct_fields__ if (value := getattr(compute, name)) is not None}
        changes["compute"] = structs.replace(before.compute or Compute(), **amounts)
    edit = diff_specs(workload.spec, _to_spec(structs.replace(before, **changes)))
    if patch.priority_class is None:
        return edit
    return structs.replace(edit, priority=resolve_priority(patch.priority_class, workload.submitted_kind))


def _kind_of_spec(spec: AnySpec) -> Kind:
    match spec:
        case WorkspaceSpec():
            return Kind.AUTHORING
        case TrainingSpec():
            return Kind.JOB
        case DistributedSpec():
            return Kind.PYTORCH_JOB
        case InferenceSpec():
            return Kind.DEPLOYMENT


def _to_spec(spec: AnySpec) -> Spec:
    compute = spec.compute or Compute()
    cpu = _quantity_text(compute.cpu_core_limit or compute.cpu_core_request) or DEFAULT_CPU
    memory = compute.cpu_memory_limit or compute.cpu_memory_request or DEFAULT_MEMORY
    gpu_milli = _requested_gpu_milli(compute)
    if spec.args and not spec.command:
        raise bad_request("spec.command", "it is required with args: there is no image with a command of its own.")
    batch = spec if isinstance(spec, BatchSpec) else BatchSpec()
    ttl = batch.auto_deletion_time_after_completion_seconds
    return Spec(
        image=spec.image or "",
        entry_point=" ".join(filter(None, (spec.command, spec.args))),
        resources=Resources(
            gpu_milli=gpu_milli,
            cpu_milli=parse_milli(cpu, "spec.compute.cpuCoreRequest"),
            memory_bytes=_require_positive(parse_bytes(memory, "spec.compute.cpuMemoryRequest")),
        ),
        replicas=_requested_replicas(spec),
        env=_environment(spec.environment_variables or ()),
        labels=_to_map(spec.labels or ()),
        annotations=_to_map(spec.annotations or ()),
        service=_to_service(spec),
        node_pools=tuple(dict.fromkeys(spec.node_pools or ())) or (DEFAULT_POOL,),
        ttl_seconds=60 if ttl is None else ttl,
        shown_cpu=cpu,
        shown_gpu=format_milli(gpu_milli),
        shown_memory=memory,
        shown_arguments=spec.args or "",
    )


def _reject_unsupported(body: Struct, names: Iterable[str], path: str) -> None:
    """Reject fields that would have no effect."""
    wire = {field.name: field.encode_name for field in fields_of(type(body))}
    for name in names:
        if name in wire and getattr(body, name):
            raise bad_request(f"{path}.{wire[name]}", UNSUPPORTED_MESSAGE)


def resolve_priority(name: str | None, kind: Kind, field: str = "spec.priorityClass") -> int:
    """The number of a priority class; that of the workload's category if none is given."""
    name = name or DEFAULT_PRIORITY[CATEGORY_BY_KIND[kind]]
    known = PRIORITIES | DEPRECATED_PRIORITIES
    if name not in known:
        raise bad_request(field, f'there is no "{name}". Use {", ".join(PRIORITIES)}.')
    return known[name]


def _requested_gpu_milli(compute: Compute) -> int:
    path = "spec.compute"
    _reject_unsupported(compute, ("gpu_memory_request", "gpu_memory_limit", "extended_resources", "mig_profile"), path)
    if compute.gpu_request_type in {"memory", "migProfile"}:
        raise bad_request(f"{path}.gpuRequestType", "GPUs can be requested by number or portion only. Use portion.")
    portion = compute.gpu_portion_request if compute.gpu_portion_request is not None else compute.gpu_portion_limit
    if portion is None:
        return (compute.gpu_devices_request or 0) * MILLI
    devices = 1 if compute.gpu_devices_request is None else compute.gpu_devices_request
    if devices > 1 and portion != 1:
        raise bad_request(f"{path}.gpuPortionRequest", "a portion applies to one GPU. Use gpuDevicesRequest 1.")
    return devices * parse_milli(_quantity_text(portion) or "0", f"{path}.gpuPortionRequest")


def _requested_replicas(spec: AnySpec) -> int:
    match spec:
        case TrainingSpec():
            pods = spec.parallelism or 1
            if spec.completions not in {None, pods}:
                raise bad_request("spec.completions", f"every pod runs once. Use {pods}, the value of parallelism.")
            return pods
        case DistributedSpec():
            if spec.distributed_framework not in {None, "PyTorch"}:
                raise bad_request("spec.distributedFramework", "only PyTorch is supported. Use PyTorch.")
            workers = spec.num_workers or 1
            for name, replicas in (("minReplicas", spec.min_replicas), ("maxReplicas", spec.max_replicas)):
                if replicas not in {None, workers}:
                    raise bad_request(f"spec.{name}", f"it must equal numWorkers. Use {workers}.")
            return workers + 1
        case InferenceSpec():
            return _fixed_replicas(spec.autoscaling or AutoScaling())
        case _:
            return 1


def _fixed_replicas(scaling: AutoScaling) -> int:
    """The number of replicas; there is no autoscaling, so all bounds must be equal."""
    replicas = scaling.min_replicas if scaling.min_replicas is not None else scaling.initial_replicas
    replicas = replicas if replicas is not None else scaling.max_replicas or 1
    if replicas == 0:
        raise bad_request("spec.autoscaling.minReplicas", "scaling to zero is not supported. Use 1 or more.")
    for name, other in (("maxReplicas", scaling.max_replicas), ("initialReplicas", scaling.initial_replicas)):
        if other not in {None, replicas}:
            raise bad_request(f"spec.autoscaling.{name}", f"autoscaling is not supported. Use {replicas}.")
    return replicas


def _environment(variables: Iterable[EnvironmentVariable | None]) -> dict[str, str]:
    env: dict[str, str] = {}
    for variable in variables:
        if variable is None or variable.exclude:
            continue
        path = f"spec.environmentVariables.{variable.name}"
        _reject_unsupported(variable, ("secret", "config_map", "pod_field_ref", "user_credential"), path)
        env[variable.name] = variable.value or ""
    return env


def _to_map(labels: Iterable[LabelBody | None]) -> dict[str, str]:
    return {label.name: label.value or "" for label in labels if label is not None and not label.exclude}


def _to_service(spec: WorkloadSpec) -> Service | None:
    if isinstance(spec, InferenceSpec) and spec.serving_port is not None:
        _reject_unsupported(
            spec.serving_port, ("authorization_type", "authorized_users", "authorized_groups"), "spec.servingPort"
        )
        port = spec.serving_port.container
        return Service(port=port, target_port=port)
    ports: Sequence[PortBody] = [port for port in spec.ports or () if port is not None and not port.exclude]
    if not ports:
        return None
    if len(ports) > 1:
        raise bad_request("spec.ports", f"a workload can have one port, but {len(ports)} are given.")
    [port] = ports
    if port.service_type == "LoadBalancer":
        raise bad_request("spec.ports", "LoadBalancer is not supported. Use ClusterIP or NodePort.")
    return Service(
        port=port.container,
        target_port=port.container,
        node_port=(port.external or 0) if port.service_type == "NodePort" else 0,
        service_type=port.service_type or "ClusterIP",
    )


def _quantity_text(amount: float | None) -> str:
    """A number as the text of a quantity; empty for none."""
    if not amount:
        return ""
    return str(int(amount)) if float(amount).is_integer() else repr(float(amount))


def _require_positive(amount: int) -> int:
    if amount <= 0:
        raise bad_request("spec.compute.cpuMemoryRequest", "it must be more than 0.")
    return amount
