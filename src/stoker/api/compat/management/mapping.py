"""Between `safe`'s shapes and the services' words."""

from msgspec import UNSET

from stoker.api.safe.shapes import (
    ConditionView,
    CreateWorkload,
    Detail,
    KindView,
    ListItem,
    PatchWorkload,
    PodView,
    ResourceView,
)
from stoker.api.safe.words import (
    PHASES,
    POD_PHASES,
    PRIORITIES,
    duration,
    moment,
    priority_of,
    script_of,
)
from stoker.api.times import optional_instant
from stoker.domain.errors import bad_request
from stoker.domain.lifecycle import ran_ms
from stoker.domain.quantity import bytes_of, milli
from stoker.domain.resources import Resources
from stoker.domain.workload import CLI_AGENT, FROM_CLI, Condition, Pod, Service, Spec, Workload
from stoker.services import workloads as service
from stoker.services.submission import NewWorkload, WorkloadEdit

API = "safe"


def new_workload(body: CreateWorkload, agent: str = "") -> NewWorkload:
    """A create as it was sent, in our words; `agent` is the program that sent it."""
    resource = body.resource
    spec = Spec(
        image=body.image,
        entry_point=script_of(body.entry_point, "entryPoint"),
        resources=Resources(
            gpu_milli=milli(resource.gpu, "resource.gpu"),
            cpu_milli=_positive(milli(resource.cpu, "resource.cpu"), "resource.cpu"),
            memory_bytes=_positive(bytes_of(resource.memory, "resource.memory"), "resource.memory"),
        ),
        replicas=resource.replica,
        env=body.env,
        specified_nodes=body.specified_nodes,
        labels=body.customer_labels,
        annotations=body.annotations,
        service=_service(body),
        dependencies=body.dependencies,
        start_after=optional_instant(body.start_after, "startAfter"),
        tolerate_all=body.is_tolerate_all,
        supervised=body.is_supervised,
        ttl_seconds=body.ttl_seconds_after_finished,
        shown_cpu=resource.cpu,
        shown_gpu=resource.gpu,
        shown_memory=resource.memory,
    )
    return NewWorkload(
        name=body.display_name,
        kind=body.group_version_kind.kind,
        spec=spec,
        workspace=body.workspace_id,
        description=body.description,
        priority=PRIORITIES[body.priority],
        preemptible=body.preemptible,
        timeout_seconds=body.timeout,
        max_retry=body.max_retry,
        origin_api=FROM_CLI if agent.startswith(f"{CLI_AGENT}/") else API,
    )


def edit_of(body: PatchWorkload) -> WorkloadEdit:
    """A PATCH as it was sent, in our words."""
    return WorkloadEdit(
        description=body.description,
        priority=UNSET if body.priority is UNSET else PRIORITIES[body.priority],
        preemptible=body.preemptible,
        timeout_seconds=body.timeout,
        max_retry=body.max_retry,
        image=body.image,
        entry_point=UNSET if body.entry_point is UNSET else script_of(body.entry_point, "entryPoint"),
        env=body.env,
        cpu=UNSET if body.cpu is UNSET else (_positive(milli(body.cpu, "cpu"), "cpu"), body.cpu),
        gpu=UNSET if body.gpu is UNSET else (milli(body.gpu, "gpu"), body.gpu),
        memory=UNSET if body.memory is UNSET else (_positive(bytes_of(body.memory, "memory"), "memory"), body.memory),
        replicas=body.replica,
        specified_nodes=body.specified_nodes,
    )


def list_item(row: service.Row, now: int) -> ListItem:
    workload = row.entry.workload
    return ListItem(
        workload_id=workload.slug,
        display_name=workload.name,
        description=workload.description,
        workspace_id=row.entry.workspace,
        cluster_id=row.entry.cluster,
        user_id=workload.user_id,
        user_name=workload.user_name,
        phase=PHASES[workload.phase],
        priority=priority_of(workload.priority),
        resource=_resource(workload.spec),
        group_version_kind=KindView(workload.kind, "v1"),
        creation_time=moment(workload.submitted_at),
        start_time=moment(workload.started_at),
        end_time=moment(workload.ended_at),
        runtime=duration(ran_ms(workload, now)),
        scheduler_order=row.place,
        dispatch_count=workload.attempt,
        is_tolerate_all=workload.spec.tolerate_all,
        timeout=workload.timeout_seconds,
        seconds_until_timeout=_until_timeout(workload, now),
        message=_message(workload),
    )


def detail(found: service.Detail, now: int) -> Detail:
    workload = found.entry.workload
    spec = workload.spec
    attempts = _by_attempt([pod for pod in found.pods if not _taken_away(workload, pod)])
    shown = attempts[-1] if attempts else []
    return Detail(
        workload_id=workload.slug,
        display_name=workload.name,
        description=workload.description,
        workspace_id=found.entry.workspace,
        cluster_id=found.entry.cluster,
        user_id=workload.user_id,
        user_name=workload.user_name,
        phase=PHASES[workload.phase],
        priority=priority_of(workload.priority),
        image=spec.image,
        entry_point=spec.entry_point,
        resource=_resource(spec),
        is_supervised=spec.supervised,
        max_retry=workload.max_retry,
        timeout=workload.timeout_seconds,
        ttl_seconds_after_finished=spec.ttl_seconds,
        group_version_kind=KindView(workload.kind, "v1"),
        creation_time=moment(workload.submitted_at),
        start_time=moment(workload.started_at),
        end_time=moment(workload.ended_at),
        runtime=duration(ran_ms(workload, now)),
        seconds_until_timeout=_until_timeout(workload, now),
        scheduler_order=found.place,
        dispatch_count=workload.attempt,
        is_tolerate_all=spec.tolerate_all,
        preemptible=workload.preemptible,
        guaranteed_until=moment(workload.guaranteed_until),
        message=_message(workload),
        env=dict(spec.env),
        conditions=[_condition(condition) for condition in found.conditions],
        pods=[PodView(pod.name, POD_PHASES[pod.phase], pod.node) for pod in shown],
        nodes=[[pod.node for pod in attempt] for attempt in attempts],
        ranks=[[str(pod.rank) for pod in attempt] for attempt in attempts],
        customer_labels=dict(spec.labels),
        annotations=dict(spec.annotations),
        specified_nodes=spec.specified_nodes,
        dependencies=spec.dependencies,
    )


def _taken_away(workload: Workload, pod: Pod) -> bool:
    """Whether it has gone because fewer replicas were asked for."""
    return workload.kind.rolls and pod.phase.ended and pod.rank >= workload.spec.replicas


def _by_attempt(pods: list[Pod]) -> list[list[Pod]]:
    """The pods of each dispatch by rank; of a pod that was replaced, the newest."""
    attempts: dict[int, dict[int, Pod]] = {}
    for pod in pods:
        attempts.setdefault(pod.attempt, {})[pod.rank] = pod
    return [[ranks[rank] for rank in sorted(ranks)] for _, ranks in sorted(attempts.items())]


def _condition(condition: Condition) -> ConditionView:
    return ConditionView(condition.type, "True", moment(condition.at), condition.reason, condition.message)


def _resource(spec: Spec) -> ResourceView:
    return ResourceView(spec.shown_cpu, spec.shown_gpu or "0", spec.shown_memory, spec.replicas)


def _message(workload: Workload) -> str:
    return (workload.waiting or workload.message) if workload.phase.queued else workload.message


def _until_timeout(workload: Workload, now: int) -> int:
    if not workload.timeout_seconds or workload.phase.ended:
        return 0
    if workload.started_at is None:
        return -1
    return max(0, workload.timeout_seconds - ran_ms(workload, now) // 1000)


def _service(body: CreateWorkload) -> Service | None:
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


def _positive(amount: int, field: str) -> int:
    if amount <= 0:
        raise bad_request(field, "it must be more than 0.")
    return amount
