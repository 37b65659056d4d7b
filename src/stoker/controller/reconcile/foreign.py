"""Stores foreign workloads: what others run on a cluster, with its pods and the GPUs that they hold.

They are never changed by Stoker. GPU time is charged once: a pod on a GPU that others hold already gets only what is
left of it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import structs

from stoker.controller.scheduling.dispatch import build_allocations
from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.resources import MILLI
from stoker.domain.names import to_slug
from stoker.domain.workload.engine_status import OBSERVED, ORIGIN_FOREIGN, EngineStatus, follow_engine
from stoker.domain.workload.model import Workload
from stoker.domain.workload.ownership import OwnedObject
from stoker.domain.workload.phase import Condition, ConditionType, EnginePhase, Phase
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import MAX_LABELS, Spec
from stoker.engines.model import ObservedPod, ObservedWorkload
from stoker.store.cluster import gpu_availability, nodes
from stoker.store.db.base import Transaction
from stoker.store.identity import workspaces
from stoker.store.usage import closed_hours
from stoker.store.workloads import allocations, foreign, pods, rows, transitions


def record_foreign_workloads(
    transaction: Transaction, cluster_id: str, observed: Iterable[ObservedWorkload], at: int
) -> set[str]:
    """Store reported foreign workloads. Returns the uids of those that are new or changed."""
    reports = [report for report in observed if not report.workload_uid]
    known = foreign.unfinished_by_ref(transaction, cluster_id, {report.engine_ref for report in reports})
    changed: set[str] = set()
    for report in reports:
        workload = known.get(report.engine_ref)
        if workload is not None and workload.uid != report.uid:  # it ended and runs again
            changed |= record_missing_foreign_workloads(transaction, cluster_id, [report.engine_ref], at)
            workload = None
        status = _status(report)
        if workload is None:
            workload = _create(transaction, cluster_id, report, status, at)
            if workload is None:
                continue
            known[report.engine_ref] = workload
            changed.add(workload.uid)
        elif (change := follow_engine(workload, status, at)) is not None:
            transitions.apply(transaction, workload, change)
            if change.workload.spec != workload.spec:
                foreign.replace_labels(transaction, change.workload)
            changed.add(workload.uid)
        objects = [_object(each, workload) for each in report.owners]
        if objects != foreign.objects_of(transaction, workload.uid):
            foreign.replace_objects(transaction, workload.uid, objects)
    return changed


def record_missing_foreign_workloads(
    transaction: Transaction, cluster_id: str, refs: Collection[str], at: int
) -> set[str]:
    """Record foreign workloads that the engine no longer has as ended. Returns their uids."""
    missing = foreign.unfinished_by_ref(transaction, cluster_id, refs)
    for workload in missing.values():
        status = EngineStatus(EnginePhase.GONE)
        if (change := follow_engine(workload, status, at)) is not None:
            transitions.apply(transaction, workload, change)
    return {workload.uid for workload in missing.values()}


def adopt_pods(
    transaction: Transaction, cluster_id: str, observed: Sequence[ObservedPod], known: Mapping[str, Pod], at: int
) -> dict[str, Pod]:
    """Create the pods of foreign and delegated workloads that the store does not have, with their GPUs. Returns them by
    uid, as pending pods: their report is recorded afterwards."""
    new = [report for report in observed if report.uid not in known and not report.phase.is_finished]
    by_ref = foreign.unfinished_by_ref(transaction, cluster_id, {pod.owner_ref for pod in new if not pod.workload_uid})
    by_uid = rows.by_uid(transaction, {pod.workload_uid for pod in new if pod.workload_uid})
    known_nodes = nodes.by_name(transaction, cluster_id, {report.node for report in new})
    ranks = Counter(
        {
            each.uid: len(pods.of_attempt(transaction, each.uid, each.attempt))
            for each in (*by_ref.values(), *by_uid.values())
        }
    )
    adopted: dict[str, Pod] = {}
    for report in new:
        owner = by_uid.get(report.workload_uid) if report.workload_uid else by_ref.get(report.owner_ref)
        if owner is None or owner.engine_phase is None or owner.attempt != report.attempt:
            continue
        pod = _build_pod(report, owner, ranks[owner.uid], known_nodes.get(report.node), at)
        ranks[owner.uid] += 1
        pods.add(transaction, cluster_id, [pod])
        _allocate(transaction, cluster_id, pod, known_nodes.get(report.node), at)
        adopted[pod.uid] = pod
    return adopted


def _create(
    transaction: Transaction, cluster_id: str, report: ObservedWorkload, status: EngineStatus, at: int
) -> Workload | None:
    """A new row; None if it is known and has ended."""
    if rows.find(transaction, report.uid) is not None:
        return None
    submitted_at = min(report.created_at, at)
    workspace = workspaces.find_by_namespace(transaction, cluster_id, report.namespace)
    workload = Workload(
        uid=report.uid,
        slug=to_slug(report.name, report.uid),
        name=report.name,
        kind=report.kind,
        cluster_id=cluster_id,
        workspace_id=workspace.id if workspace else 0,
        namespace=report.namespace,
        user_id="",
        user_name=report.user,
        origin_api=ORIGIN_FOREIGN,
        spec=status.spec or Spec(),
        priority=report.priority or 0,
        managed=False,
        engine_ref=report.engine_ref,
        api_version=report.api_version,
        attempt=1,
        engine_phase=EnginePhase.QUEUED,
        phase=Phase.SUBMITTED,
        submitted_at=submitted_at,
        phase_at=submitted_at,
    )
    condition = Condition(ConditionType.QUEUED, OBSERVED, "it was found on the cluster", at)
    transitions.add(transaction, Transition(workload, (condition,)))
    if (change := follow_engine(workload, status, at)) is not None:
        transitions.apply(transaction, workload, change)
        return change.workload
    return workload


def _status(report: ObservedWorkload) -> EngineStatus:
    spec = Spec(
        image=report.image,
        resources=report.resources,
        replicas=max(1, report.replicas),
        labels=dict(sorted(report.labels.items())[:MAX_LABELS]),
        annotations=dict(sorted(report.annotations.items())[:MAX_LABELS]),
    )
    return EngineStatus(report.phase, report.reason, report.message, spec, report.started_at, report.ended_at)


def _object(owned: OwnedObject, workload: Workload) -> OwnedObject:
    return OwnedObject(owned.uid, owned.kind, owned.name, owned.namespace, owned.owner_uid or workload.uid)


def _build_pod(report: ObservedPod, owner: Workload, rank: int, node: Node | None, at: int) -> Pod:
    created_at = min(report.created_at if report.created_at is not None else at, at)
    return Pod(
        uid=report.uid,
        engine_uid=report.engine_uid,
        owner_uid=report.owner_uid,
        workload_uid=owner.uid,
        name=report.name,
        attempt=owner.attempt,
        revision=report.revision,
        rank=rank if report.rank is None else report.rank,
        node=report.node,
        resources=report.resources,
        devices=device_indexes(report, node),
        created_at=created_at,
    )


def device_indexes(report: ObservedPod, node: Node | None) -> tuple[int, ...]:
    """Where the reported GPUs sit now. A GPU that the node does not have is left out."""
    by_uuid = {device.uuid: device.index for device in node.devices if device.uuid} if node else {}
    found = [by_uuid.get(device.uuid, device.index) for device in report.devices or ()]
    return tuple(sorted({index for index in found if index is not None}))


def _allocate(transaction: Transaction, cluster_id: str, pod: Pod, node: Node | None, at: int) -> None:
    """Open the allocations of a foreign pod, limited to what is free on each GPU. They begin with the pod, or when the
    cluster was first observed."""
    if not pod.devices:
        return
    observed_since = gpu_availability.first_gpu_at(transaction, cluster_id)
    from_at = max(pod.created_at, at if observed_since is None else min(observed_since, at))
    used = allocations.allocated_milli_by_device(transaction, cluster_id, pod.node)
    opened = [
        structs.replace(allocation, gpu_milli=min(allocation.gpu_milli, free))
        for allocation in build_allocations(pod, node, from_at)
        if (free := MILLI - used.get(allocation.device, 0)) > 0
    ]
    allocations.allocate(transaction, cluster_id, opened)
    if from_at // HOUR_MS < at // HOUR_MS:
        closed_hours.mark_due_again(transaction, cluster_id, from_at, at)
