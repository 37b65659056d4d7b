"""Workloads as the submissions of Run:ai's clients, which clients read back and edit."""

from typing import Any

from stoker.api.compat.runai.enums import priority_class, to_number
from stoker.api.compat.runai.workloads.submit_schemas import (
    AnySpec,
    AutoScaling,
    Compute,
    DistributedSpec,
    EnvironmentVariable,
    InferenceSpec,
    LabelBody,
    PortBody,
    ServingPort,
    TrainingSpec,
    WorkspaceSpec,
)
from stoker.domain.cluster.quantity import format_bytes
from stoker.domain.cluster.resources import MILLI
from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import Kind, Service, Spec


def to_submission_spec(workload: Workload) -> AnySpec:
    """The submission of a workload, as far as it is stored."""
    spec = workload.spec
    command, arguments = spec.command_and_arguments
    common: dict[str, Any] = {
        "image": spec.image or None,
        "command": command or None,
        "args": arguments or None,
        "compute": _to_compute(spec),
        "environment_variables": [EnvironmentVariable(name=name, value=value) for name, value in spec.env.items()]
        or None,
        "labels": [LabelBody(name=name, value=value) for name, value in spec.labels.items()] or None,
        "annotations": [LabelBody(name=name, value=value) for name, value in spec.annotations.items()] or None,
        "node_pools": list(spec.node_pools),
        "priority_class": priority_class(workload.priority),
        "preemptibility": "preemptible" if workload.preemptible else "non-preemptible",
        "category": str(workload.category),
    }
    port = spec.service
    if workload.uses_rolling_update:
        serving = ServingPort(container=port.target_port) if port else None
        scaling = AutoScaling(min_replicas=spec.replicas, max_replicas=spec.replicas)
        return InferenceSpec(**common, autoscaling=scaling, serving_port=serving)
    batch: dict[str, Any] = {
        "backoff_limit": workload.max_retry,
        "auto_deletion_time_after_completion_seconds": spec.ttl_seconds,
        "ports": [_to_port_body(port)] if port else None,
    }
    match workload.submitted_kind:
        case Kind.AUTHORING:
            return WorkspaceSpec(**common, **batch)
        case Kind.PYTORCH_JOB:
            workers = spec.replicas - 1 or None
            return DistributedSpec(**common, **batch, distributed_framework="PyTorch", num_workers=workers)
        case _:
            return TrainingSpec(**common, **batch, parallelism=spec.replicas, completions=spec.replicas)


def _to_port_body(service: Service) -> PortBody:
    service_type = "NodePort" if service.service_type == "NodePort" else "ClusterIP"
    return PortBody(container=service.target_port, external=service.node_port or None, service_type=service_type)


def _to_compute(spec: Spec) -> Compute:
    requested = spec.resources
    is_portion = 0 < requested.gpu_milli < MILLI
    return Compute(
        cpu_core_request=to_number(requested.cpu_milli),
        cpu_memory_request=spec.shown_memory or format_bytes(requested.memory_bytes),
        gpu_devices_request=1 if is_portion else requested.gpu_milli // MILLI,
        gpu_request_type="portion" if is_portion else None,
        gpu_portion_request=to_number(requested.gpu_milli) if is_portion else None,
    )
