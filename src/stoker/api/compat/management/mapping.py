"""Mapping of requests to service inputs, and of workloads to responses, of the management family."""

from msgspec import UNSET

from stoker.api.compat.management.enums import (
    PHASE_NAMES,
    POD_PHASE_NAMES,
    PRIORITY_LEVELS,
    decode_script,
    format_duration,
    priority_level,
    rfc3339_or_empty,
)
from stoker.api.compat.management.schemas import CreateWorkload, PatchWorkload, ReadinessBody
from stoker.api.http.params import parse_optional_instant
from stoker.domain.cluster.quantity import parse_bytes, parse_milli
from stoker.domain.cluster.resources import Resources
from stoker.domain.errors import bad_request
from stoker.domain.workload.durations import total_running_ms
from stoker.domain.workload.model import CLI_USER_AGENT, ORIGIN_CLI, Workload
from stoker.domain.workload.phase import Condition
from stoker.domain.workload.placement import current_pods_by_rank
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import ReadinessSpec, Service, Spec
from stoker.services.workloads.queries import DescribedWorkload, WorkloadListRow
from stoker.services.workloads.validation import CreateWorkloadInput, UpdateWorkloadInput
from stoker.wire.management import (
    ConditionView,
    KindView,
    PodView,
    ReadinessView,
    ResourceView,
    WorkloadDetailView,
    WorkloadSummaryView,
)

ORIGIN = "management"


def to_new_workload(body: CreateWorkload, agent: str = "") -> CreateWorkloadInput:
    """A create request as the input of the workload service."""
    resource = body.resource
    spec = Spec(
        image=body.image,
        entry_point=decode_script(body.entry_point, "entryPoint"),
        resources=Resources(
            gpu_milli=parse_milli(resource.gpu, "resource.gpu"),
            cpu_milli=_require_positive(parse_milli(resource.cpu, "resource.cpu"), "resource.cpu"),
            memory_bytes=_require_positive(parse_bytes(resource.memory, "resource.memory"), "resource.memory"),
        ),
        replicas=resource.replica,
        env=body.env,
        specified_nodes=body.specified_nodes,
        labels=body.customer_labels,
        annotations=body.annotations,
        service=_to_service(body),
        readiness=_to_readiness(body.readiness),
        dependencies=body.dependencies,
        start_after=parse_optional_instant(body.start_after, "startAfter"),
        tolerate_all=body.is_tolerate_all,
        supervised=body.is_supervised,
        ttl_seconds=body.ttl_seconds_after_finished,
        shown_cpu=resource.cpu,
        shown_gpu=resource.gpu,
        shown_memory=resource.memory,
    )
    return CreateWorkloadInput(
        name=body.display_name,
        kind=body.group_version_kind.kind,
        spec=spec,
        workspace=body.workspace_id,
        description=body.description,
        priority=PRIORITY_LEVELS[body.priority],
        preemptible=body.preemptible,
        timeout_seconds=body.timeout,
        max_retry=body.max_retry,
        origin_api=ORIGIN_CLI if _is_own_cli(agent) else ORIGIN,
        image_chosen=_is_own_cli(agent),
    )


def _is_own_cli(agent: str) -> bool:
    """Whether Stoker's own command line sent the request."""
    return agent.startswith(f"{CLI_USER_AGENT}/")


def to_edit(body: PatchWorkload, agent: str = "") -> UpdateWorkloadInput:
    """A PATCH request as the input of the workload service."""
    return UpdateWorkloadInput(
        description=body.description,
        priority=UNSET if body.priority is UNSET else PRIORITY_LEVELS[body.priority],
        preemptible=body.preemptible,
        timeout_seconds=body.timeout,
        max_retry=body.max_retry,
        image=body.image,
        entry_point=UNSET if body.entry_point is UNSET else decode_script(body.entry_point, "entryPoint"),
        env=body.env,
        cpu=UNSET if body.cpu is UNSET else (_require_positive(parse_milli(body.cpu, "cpu"), "cpu"), body.cpu),
        gpu=UNSET if body.gpu is UNSET else (parse_milli(body.gpu, "gpu"), body.gpu),
        memory=UNSET
        if body.memory is UNSET
        else (_require_positive(parse_bytes(body.memory, "memory"), "memory"), body.memory),
        replicas=body.replica,
        specified_nodes=body.specified_nodes,
        readiness=UNSET if body.readiness is UNSET else _to_readiness(body.readiness),
        image_chosen=_is_own_cli(agent),
    )


def to_summary_view(row: WorkloadListRow, now: int) -> WorkloadSummaryView:
    workload = row.entry.workload
    return WorkloadSummaryView(
        workload_id=workload.slug,
        display_name=workload.name,
        description=workload.description,
        workspace_id=row.entry.workspace,
        cluster_id=row.entry.cluster,
        user_id=workload.user_id,
        user_name=workload.user_name,
        phase=PHASE_NAMES[workload.phase],
        priority=priority_level(workload.priority),
        resource=_to_resource_view(workload.spec),
        group_version_kind=KindView(workload.kind, "v1"),
        creation_time=rfc3339_or_empty(workload.submitted_at),
        start_time=rfc3339_or_empty(workload.started_at),
        end_time=rfc3339_or_empty(workload.ended_at),
        runtime=format_duration(total_running_ms(workload, now)),
        scheduler_order=row.queue_position,
        dispatch_count=workload.attempt,
        is_tolerate_all=workload.spec.tolerate_all,
        timeout=workload.timeout_seconds,
        seconds_until_timeout=_seconds_until_timeout(workload, now),
        message=row.status.message,
    )


def to_detail_view(found: DescribedWorkload, now: int) -> WorkloadDetailView:
    workload = found.entry.workload
    spec = workload.spec
    attempts = _group_by_attempt([pod for pod in found.pods if not _is_scaled_down(workload, pod)])
    shown = attempts[-1] if attempts else []
    return WorkloadDetailView(
        workload_id=workload.slug,
        display_name=workload.name,
        description=workload.description,
        workspace_id=found.entry.workspace,
        cluster_id=found.entry.cluster,
        user_id=workload.user_id,
        user_name=workload.user_name,
        phase=PHASE_NAMES[workload.phase],
        priority=priority_level(workload.priority),
        image=spec.image,
        entry_point=spec.entry_point,
        resource=_to_resource_view(spec),
        is_supervised=spec.supervised,
        max_retry=workload.max_retry,
        timeout=workload.timeout_seconds,
        ttl_seconds_after_finished=spec.ttl_seconds,
        group_version_kind=KindView(workload.kind, "v1"),
        creation_time=rfc3339_or_empty(workload.submitted_at),
        start_time=rfc3339_or_empty(workload.started_at),
        end_time=rfc3339_or_empty(workload.ended_at),
        runtime=format_duration(total_running_ms(workload, now)),
        seconds_until_timeout=_seconds_until_timeout(workload, now),
        scheduler_order=found.queue_position,
        dispatch_count=workload.attempt,
        is_tolerate_all=spec.tolerate_all,
        preemptible=workload.preemptible,
        guaranteed_until=rfc3339_or_empty(workload.guaranteed_until),
        readiness=ReadinessView(asked.path, asked.timeout_seconds) if (asked := spec.readiness) else UNSET,
        message=found.status.message,
        env=dict(spec.env),
        conditions=tuple(_to_condition_view(condition) for condition in found.conditions),
        pods=tuple(PodView(pod.name, POD_PHASE_NAMES[pod.phase], pod.node) for pod in shown),
        nodes=tuple(tuple(pod.node for pod in attempt) for attempt in attempts),
        ranks=tuple(tuple(str(pod.rank) for pod in attempt) for attempt in attempts),
        customer_labels=dict(spec.labels),
        annotations=dict(spec.annotations),
        specified_nodes=spec.specified_nodes,
        dependencies=spec.dependencies,
    )


def _is_scaled_down(workload: Workload, pod: Pod) -> bool:
    """Whether the pod was removed by a reduction of the replicas."""
    return workload.uses_rolling_update and pod.phase.is_finished and pod.rank >= workload.spec.replicas


def _group_by_attempt(pods: list[Pod]) -> list[list[Pod]]:
    """The pods of each dispatch by rank; during a replacement, the current pod of a rank."""
    attempts: dict[int, list[Pod]] = {}
    for pod in pods:
        attempts.setdefault(pod.attempt, []).append(pod)
    return [current_pods_by_rank(attempts[number]) for number in sorted(attempts)]


def _to_condition_view(condition: Condition) -> ConditionView:
    return ConditionView(condition.type, "True", rfc3339_or_empty(condition.at), condition.reason, condition.message)


def _to_resource_view(spec: Spec) -> ResourceView:
    return ResourceView(spec.shown_cpu, spec.shown_gpu or "0", spec.shown_memory, spec.replicas)


def _seconds_until_timeout(workload: Workload, now: int) -> int:
    if not workload.timeout_seconds or workload.phase.is_finished:
        return 0
    if workload.started_at is None:
        return -1
    return max(0, workload.timeout_seconds - total_running_ms(workload, now) // 1000)


def _to_service(body: CreateWorkload) -> Service | None:
    asked = body.service
    if asked is None:
        return None
    return Service(
        port=asked.port,
        target_port=asked.target_port or asked.port,
        protocol=asked.protocol,
        node_port=asked.node_port or 0,
        service_type=asked.service_type,
    )


def _to_readiness(body: ReadinessBody | None) -> ReadinessSpec | None:
    return ReadinessSpec(body.path, body.timeout) if body else None


def _require_positive(amount: int, field: str) -> int:
    if amount <= 0:
        raise bad_request(field, "it must be more than 0.")
    return amount
