"""Between the submissions of Run:ai's clients and the services' words."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET, Struct, structs
from msgspec.structs import fields as fields_of

from stoker.api.runai.specs import (
    REFUSED,
    SERVED_AS_NOTHING,
    AnySpec,
    AutoScaling,
    BatchSpec,
    Compute,
    DistributedSpec,
    InferenceSpec,
    Label,
    PortBody,
    ServingPort,
    TrainingSpec,
    Variable,
    WorkloadSpec,
    WorkspaceSpec,
)
from stoker.api.runai.words import (
    API,
    DEFAULT_PRIORITY,
    NOT_PREEMPTED,
    OLD_PRIORITIES,
    PRIORITIES,
    number,
    priority_class,
)
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.node import DEFAULT_POOL
from stoker.domain.quantity import bytes_of, milli, show_bytes, show_milli
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import CATEGORY, Kind, Service, Spec, Workload
from stoker.services.submission import NewWorkload, WorkloadEdit

DEFAULT_CPU = "100m"
DEFAULT_MEMORY = "100M"
LASTING = ("labels", "annotations", "node_pools", "serving_port", "ports", "category", "preemptibility")
"""What an inference keeps as it was submitted."""
OUR_FIELDS = {
    "displayName": "name",
    "env": "spec.environmentVariables",
    "resource.gpu": "spec.compute.gpuDevicesRequest",
}


def new_workload(name: str, workspace: str, spec: AnySpec) -> NewWorkload:
    """A submission in our words."""
    kind = _kind(spec)
    _refuse(spec, REFUSED, "spec")
    if spec.category and spec.category.casefold() != CATEGORY[kind].casefold():
        raise bad_request("spec.category", f"a workload of this type is of the category {CATEGORY[kind]}.")
    priority = priority_of(spec.priority_class, kind)
    batch = spec if isinstance(spec, BatchSpec) else None
    return NewWorkload(
        name=name,
        kind=kind,
        workspace=workspace,
        spec=_spec(spec),
        priority=priority,
        preemptible=spec.preemptibility == "preemptible" if spec.preemptibility else priority < NOT_PREEMPTED,
        max_retry=(batch.backoff_limit or 0) if batch else 0,
        origin_api=API,
    )


def in_our_words(error: StokerError) -> StokerError:
    """An error of a service, with the field as it is called here."""
    if error.field == "entryPoint":
        why = "it is required: this cluster runs scripts, and no image brings a command of its own."
        return bad_request("spec.command", why)
    if (field := OUR_FIELDS.get(error.field)) is None:
        return error
    message = error.message.removeprefix(f"{error.field}: ")
    return StokerError(error.code, f"{field}: {message}", hint=error.hint, field=field)


def spec_of(workload: Workload) -> AnySpec:
    """What a workload was submitted with, as far as it is kept."""
    spec = workload.spec
    command, arguments = spec.command_and_arguments
    given: dict[str, Any] = {
        "image": spec.image or None,
        "command": command or None,
        "args": arguments or None,
        "compute": _compute(spec),
        "environment_variables": [Variable(name=name, value=value) for name, value in spec.env.items()] or None,
        "labels": [Label(name=name, value=value) for name, value in spec.labels.items()] or None,
        "annotations": [Label(name=name, value=value) for name, value in spec.annotations.items()] or None,
        "node_pools": list(spec.node_pools),
        "priority_class": priority_class(workload.priority),
        "preemptibility": "preemptible" if workload.preemptible else "non-preemptible",
        "category": str(workload.category),
    }
    port = spec.service
    if workload.kind.rolls:
        serving = ServingPort(container=port.target_port) if port else None
        scaling = AutoScaling(min_replicas=spec.replicas, max_replicas=spec.replicas)
        return InferenceSpec(**given, autoscaling=scaling, serving_port=serving)
    ended: dict[str, Any] = {
        "backoff_limit": workload.max_retry,
        "auto_deletion_time_after_completion_seconds": spec.ttl_seconds,
        "ports": [_port(port)] if port else None,
    }
    match workload.kind:
        case Kind.AUTHORING:
            return WorkspaceSpec(**given, **ended)
        case Kind.PYTORCH_JOB:
            workers = spec.replicas - 1 or None
            return DistributedSpec(**given, **ended, distributed_framework="PyTorch", num_workers=workers)
        case _:
            return TrainingSpec(**given, **ended, parallelism=spec.replicas, completions=spec.replicas)


def changed_inference(workload: Workload, asked: InferenceSpec) -> WorkloadEdit:
    """What of an inference is to be different; what is left out stays."""
    _refuse(asked, (*REFUSED, *LASTING), "spec")
    before = spec_of(workload)
    given = {name: value for name in asked.__struct_fields__ if (value := getattr(asked, name)) is not None}
    if asked.compute is not None:
        amounts = asked.compute
        sent = {name: value for name in amounts.__struct_fields__ if (value := getattr(amounts, name)) is not None}
        given["compute"] = structs.replace(before.compute or Compute(), **sent)
    edit = difference(workload.spec, _spec(structs.replace(before, **given)))
    if asked.priority_class is None:
        return edit
    return structs.replace(edit, priority=priority_of(asked.priority_class, workload.kind))


def difference(before: Spec, after: Spec) -> WorkloadEdit:
    """What has to change for what runs to become another; labels, ports and pools stay."""
    asked, held = after.resources, before.resources
    taken = {name: None for name in before.env if name not in after.env}
    return WorkloadEdit(
        image=UNSET if after.image == before.image else after.image,
        entry_point=UNSET if after.entry_point == before.entry_point else after.entry_point,
        env=UNSET if after.env == before.env else {**taken, **after.env},
        cpu=UNSET if asked.cpu_milli == held.cpu_milli else (asked.cpu_milli, after.shown_cpu),
        gpu=UNSET if asked.gpu_milli == held.gpu_milli else (asked.gpu_milli, after.shown_gpu),
        memory=UNSET if asked.memory_bytes == held.memory_bytes else (asked.memory_bytes, after.shown_memory),
        replicas=UNSET if after.replicas == before.replicas else after.replicas,
    )


def _kind(spec: AnySpec) -> Kind:
    match spec:
        case WorkspaceSpec():
            return Kind.AUTHORING
        case TrainingSpec():
            return Kind.JOB
        case DistributedSpec():
            return Kind.PYTORCH_JOB
        case InferenceSpec():
            return Kind.DEPLOYMENT


def _spec(spec: AnySpec) -> Spec:
    compute = spec.compute or Compute()
    cpu = _text(compute.cpu_core_limit or compute.cpu_core_request) or DEFAULT_CPU
    memory = compute.cpu_memory_limit or compute.cpu_memory_request or DEFAULT_MEMORY
    gpu_milli = _gpu_milli(compute)
    if spec.args and not spec.command:
        raise bad_request("spec.command", "it is required with args: there is no image whose own command they go to.")
    batch = spec if isinstance(spec, BatchSpec) else BatchSpec()
    ttl = batch.auto_deletion_time_after_completion_seconds
    return Spec(
        image=spec.image or "",
        entry_point=" ".join(filter(None, (spec.command, spec.args))),
        resources=Resources(
            gpu_milli=gpu_milli,
            cpu_milli=milli(cpu, "spec.compute.cpuCoreRequest"),
            memory_bytes=_more_than_nothing(bytes_of(memory, "spec.compute.cpuMemoryRequest")),
        ),
        replicas=_replicas(spec),
        env=_variables(spec.environment_variables or ()),
        labels=_pairs(spec.labels or ()),
        annotations=_pairs(spec.annotations or ()),
        service=_service(spec),
        node_pools=tuple(dict.fromkeys(spec.node_pools or ())) or (DEFAULT_POOL,),
        ttl_seconds=60 if ttl is None else ttl,
        shown_cpu=cpu,
        shown_gpu=show_milli(gpu_milli),
        shown_memory=memory,
        shown_arguments=spec.args or "",
    )


def _refuse(given: Struct, names: Iterable[str], path: str) -> None:
    """Name what would have no effect, rather than to run something else than was asked for."""
    wire = {field.name: field.encode_name for field in fields_of(type(given))}
    for name in names:
        if name in wire and getattr(given, name):
            raise bad_request(f"{path}.{wire[name]}", SERVED_AS_NOTHING)


def priority_of(asked: str | None, kind: Kind, field: str = "spec.priorityClass") -> int:
    """The number of a priority, or of the one that such a workload has when nobody says."""
    name = asked or DEFAULT_PRIORITY[CATEGORY[kind]]
    known = PRIORITIES | OLD_PRIORITIES
    if name not in known:
        raise bad_request(field, f'there is no "{name}". Use {", ".join(PRIORITIES)}.')
    return known[name]


def _gpu_milli(compute: Compute) -> int:
    path = "spec.compute"
    _refuse(compute, ("gpu_memory_request", "gpu_memory_limit", "extended_resources", "mig_profile"), path)
    if compute.gpu_request_type in {"memory", "migProfile"}:
        raise bad_request(f"{path}.gpuRequestType", "GPUs are asked for by number or portion. Use portion.")
    portion = compute.gpu_portion_request if compute.gpu_portion_request is not None else compute.gpu_portion_limit
    if portion is None:
        return (compute.gpu_devices_request or 0) * MILLI
    devices = 1 if compute.gpu_devices_request is None else compute.gpu_devices_request
    if devices > 1 and portion != 1:
        raise bad_request(f"{path}.gpuPortionRequest", "a part of a GPU is a part of one. Use gpuDevicesRequest 1.")
    return devices * milli(_text(portion) or "0", f"{path}.gpuPortionRequest")


def _replicas(spec: AnySpec) -> int:
    match spec:
        case TrainingSpec():
            pods = spec.parallelism or 1
            if spec.completions not in {None, pods}:
                raise bad_request("spec.completions", f"every pod runs once. Use {pods}, as parallelism says.")
            return pods
        case DistributedSpec():
            if spec.distributed_framework not in {None, "PyTorch"}:
                raise bad_request("spec.distributedFramework", "PyTorch is what there is here. Use PyTorch.")
            workers = spec.num_workers or 1
            for name, asked in (("minReplicas", spec.min_replicas), ("maxReplicas", spec.max_replicas)):
                if asked not in {None, workers}:
                    raise bad_request(f"spec.{name}", f"all workers run, or none. Use {workers}, as numWorkers says.")
            return workers + 1
        case InferenceSpec():
            return _kept_up(spec.autoscaling or AutoScaling())
        case _:
            return 1


def _kept_up(asked: AutoScaling) -> int:
    """How many replicas; their number does not follow the load here."""
    replicas = asked.min_replicas if asked.min_replicas is not None else asked.initial_replicas
    replicas = replicas if replicas is not None else asked.max_replicas or 1
    if replicas == 0:
        raise bad_request("spec.autoscaling.minReplicas", "nothing is scaled to zero here. Use 1 or more.")
    for name, other in (("maxReplicas", asked.max_replicas), ("initialReplicas", asked.initial_replicas)):
        if other not in {None, replicas}:
            raise bad_request(f"spec.autoscaling.{name}", f"the number of replicas is fixed here. Use {replicas}.")
    return replicas


def _variables(given: Iterable[Variable | None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        if each is None or each.exclude:
            continue
        path = f"spec.environmentVariables.{each.name}"
        _refuse(each, ("secret", "config_map", "pod_field_ref", "user_credential"), path)
        found[each.name] = each.value or ""
    return found


def _pairs(given: Iterable[Label | None]) -> dict[str, str]:
    return {each.name: each.value or "" for each in given if each is not None and not each.exclude}


def _service(spec: WorkloadSpec) -> Service | None:
    if isinstance(spec, InferenceSpec) and spec.serving_port is not None:
        _refuse(spec.serving_port, ("authorization_type", "authorized_users", "authorized_groups"), "spec.servingPort")
        port = spec.serving_port.container
        return Service(port=port, target_port=port)
    ports: Sequence[PortBody] = [port for port in spec.ports or () if port is not None and not port.exclude]
    if not ports:
        return None
    if len(ports) > 1:
        raise bad_request("spec.ports", f"a workload has one port here, and {len(ports)} are given.")
    [port] = ports
    if port.service_type == "LoadBalancer":
        raise bad_request("spec.ports", "there is no load balancer here. Use ClusterIP or NodePort.")
    return Service(
        port=port.container,
        target_port=port.container,
        node_port=(port.external or 0) if port.service_type == "NodePort" else 0,
        service_type=port.service_type or "ClusterIP",
    )


def _port(kept: Service) -> PortBody:
    service_type = "NodePort" if kept.service_type == "NodePort" else "ClusterIP"
    return PortBody(container=kept.target_port, external=kept.node_port or None, service_type=service_type)


def _compute(spec: Spec) -> Compute:
    kept = spec.resources
    part = 0 < kept.gpu_milli < MILLI
    return Compute(
        cpu_core_request=number(kept.cpu_milli),
        cpu_memory_request=spec.shown_memory or show_bytes(kept.memory_bytes),
        gpu_devices_request=1 if part else kept.gpu_milli // MILLI,
        gpu_request_type="portion" if part else None,
        gpu_portion_request=number(kept.gpu_milli) if part else None,
    )


def _text(amount: float | None) -> str:
    """A number as a quantity."""
    if not amount:
        return ""
    return str(int(amount)) if float(amount).is_integer() else repr(float(amount))


def _more_than_nothing(amount: int) -> int:
    if amount <= 0:
        raise StokerError(ErrorCode.BAD_REQUEST, "spec.compute.cpuMemoryRequest: it must be more than 0.")
    return amount
