"""Stores what engines report. This is the only way in which the state of a pod enters the store."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from stoker.controller.reconcile.delegated import record_delegated_workloads, record_missing_delegated_workloads
from stoker.controller.reconcile.foreign import (
    adopt_pods,
    record_foreign_workloads,
    record_missing_foreign_workloads,
)
from stoker.controller.scheduling.dispatch import build_allocations
from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.node import Node
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.pod import Pod
from stoker.engines.model import Delta, FullSync, ObservedPod, SyncReport
from stoker.store.cluster import gpu_availability, node_events, nodes
from stoker.store.db.base import Transaction
from stoker.store.usage import closed_hours
from stoker.store.workloads import allocations, foreign, pods, rows


def batches(report: SyncReport, size: int) -> Iterator[Delta]:
    """Split a report into deltas of at most `size` nodes, workloads or pods. Workloads come before their pods."""
    gone = report.gone if isinstance(report, Delta) else ()
    yield from (Delta(nodes=report.nodes[at : at + size]) for at in range(0, len(report.nodes), size))
    yield from (Delta(workloads=report.workloads[at : at + size]) for at in range(0, len(report.workloads), size))
    yield from (Delta(pods=report.pods[at : at + size]) for at in range(0, len(report.pods), size))
    yield from (Delta(gone=gone[at : at + size]) for at in range(0, len(gone), size))
    if isinstance(report, Delta) and report.gone_workloads:
        yield Delta(gone_workloads=report.gone_workloads)


def record_delta(
    transaction: Transaction, cluster_id: str, report: Delta, at: int
) -> tuple[set[str], list[ObservedPod]]:
    """Store a delta. Returns the workloads whose pods it reports or whose GPUs were renumbered, and the pods that run
    although the store does not know them or has recorded their end."""
    changed = record_nodes(transaction, cluster_id, report.nodes, at)
    changed |= record_foreign_workloads(transaction, cluster_id, report.workloads, at)
    changed |= record_delegated_workloads(transaction, cluster_id, report.workloads, at)
    known = pods.by_uid(transaction, [pod.uid for pod in report.pods])
    known |= adopt_pods(transaction, cluster_id, report.pods, known, at)
    changed |= record_pods(transaction, cluster_id, report.pods, at, known)
    gone = pods.by_uid(transaction, report.gone).values()
    changed |= record_missing_pods(transaction, cluster_id, gone, at, "it is gone from its node")
    changed |= record_missing_foreign_workloads(transaction, cluster_id, report.gone_workloads, at)
    return changed, [pod for pod in report.pods if _is_orphan(pod, known.get(pod.uid))]


def reconcile_full_sync(transaction: Transaction, cluster_id: str, report: FullSync, at: int) -> set[str]:
    """Store what follows from nodes and pods that a full sync does not list. Returns all workloads that have to be
    synced."""
    names = {node.name for node in report.nodes}
    lost = [node.name for node in nodes.of_cluster(transaction, cluster_id) if node.name not in names]
    if lost:
        nodes.mark_gone(transaction, cluster_id, lost, at)
        gpu_availability.close_node_intervals(transaction, cluster_id, lost, at)
    reported = {pod.uid for pod in report.pods}
    unreleased = pods.unreleased(transaction, cluster_id)
    started = [pod for pod in unreleased if pod.uid not in reported and pod.started_at is not None]
    changed = record_missing_pods(transaction, cluster_id, started, at, "it was gone when contact came back")
    refs = {workload.engine_ref for workload in report.workloads}
    missing = [ref for ref in foreign.unfinished(transaction, cluster_id) if ref not in refs]
    changed |= record_missing_foreign_workloads(transaction, cluster_id, missing, at)
    changed |= {pod.workload_uid for pod in report.pods if pod.workload_uid}
    unfinished = rows.unfinished_of_cluster(transaction, cluster_id)
    kept = {workload.workload_uid for workload in report.workloads}
    record_missing_delegated_workloads(transaction, unfinished, kept, at)
    return changed | {workload.uid for workload in unfinished}


def record_nodes(transaction: Transaction, cluster_id: str, observed: Sequence[Node], at: int) -> set[str]:
    """Store the state of nodes and the availability of their GPUs. Returns the workloads whose GPUs were renumbered."""
    renumbered: set[str] = set()

    def write() -> None:
        nodes.upsert(transaction, cluster_id, observed, at)
        placed = gpu_availability.sync_intervals(transaction, cluster_id, observed, at)
        renumbered.update(allocations.follow_gpus(transaction, cluster_id, placed))

    if observed:
        node_events.write_with_events(transaction, cluster_id, {node.name for node in observed}, at, write)
    return renumbered


def record_pods(
    transaction: Transaction,
    cluster_id: str,
    observed: Sequence[ObservedPod],
    at: int,
    known: Mapping[str, Pod] | None = None,
) -> set[str]:
    """Store the changes of known pods, and return their workloads. A recorded end is never changed."""
    if known is None:
        known = pods.by_uid(transaction, [report.uid for report in observed])
    changed: dict[str, Pod] = {}
    for report in observed:
        pod = changed.get(report.uid) or known.get(report.uid)
        if pod is None or pod.phase.is_finished:
            continue
        after = structs.replace(
            pod,
            phase=report.phase,
            ready=report.ready and report.phase is PodPhase.RUNNING,
            node=report.node or pod.node,
            exit_code=report.exit_code,
            signal=report.signal,
            message=report.message,
            restarts=report.restarts,
            port=report.port or pod.port,
            engine_uid=report.engine_uid or pod.engine_uid,
            started_at=report.started_at if report.started_at is not None else pod.started_at,
            ended_at=_end_time(report, at),
        )
        if after != pod:
            changed[after.uid] = after
    started = (pod.started_at for pod in changed.values() if pod.devices and known[pod.uid].started_at is None)
    _reopen_usage_hours(transaction, cluster_id, started, at)
    return _write_pods(transaction, cluster_id, changed.values(), at)


def record_missing_pods(
    transaction: Transaction, cluster_id: str, missing: Iterable[Pod], at: int, message: str
) -> set[str]:
    """Record pods that the engine does not have: as lost if they were running, else as never started."""
    present = pods.by_uid(transaction, [pod.uid for pod in missing])
    lost = [
        structs.replace(
            pod,
            phase=PodPhase.LOST,
            ready=False,
            message=message if pod.started_at is not None else pod.message or message,
            ended_at=at,
        )
        for pod in present.values()
        if not pod.phase.is_finished
    ]
    return _write_pods(transaction, cluster_id, lost, at)


def _write_pods(transaction: Transaction, cluster_id: str, changed: Iterable[Pod], now: int) -> set[str]:
    """Store pods. The GPUs of ended ones are released, or transferred to their replacements."""
    every = list(changed)
    pods.update(transaction, every)
    ended = [pod for pod in every if pod.phase.is_finished]
    unreleased = allocations.pods_with_allocation(transaction, [pod.uid for pod in ended if pod.devices])
    allocations.release(transaction, ended)
    _reopen_usage_hours(transaction, cluster_id, (pod.ended_at for pod in ended if pod.devices), now)
    if leaving := [pod for pod in ended if pod.uid in unreleased]:
        _transfer_allocations(transaction, cluster_id, leaving)
    return {pod.workload_uid for pod in every}


def _reopen_usage_hours(transaction: Transaction, cluster_id: str, moments: Iterable[int | None], now: int) -> None:
    """Reopen the usage hours from the earliest correction of a pod with GPUs on."""
    late = [at for at in moments if at is not None and at // HOUR_MS < now // HOUR_MS]
    if late:
        closed_hours.mark_due_again(transaction, cluster_id, min(late), now)


def _transfer_allocations(transaction: Transaction, cluster_id: str, ended: Sequence[Pod]) -> None:
    """Transfer the GPUs of ended pods to the pods of a newer revision that replace them."""
    present = pods.of_current_attempt(transaction, {pod.workload_uid for pod in ended})
    heirs = [
        (heir, pod.ended_at or 0)
        for pod in ended
        if (heir := _replacement_of(pod, present.get(pod.workload_uid, ()))) is not None
    ]
    if not heirs:
        return
    placed = allocations.pods_with_allocation(transaction, [heir.uid for heir, _ in heirs])
    known = nodes.by_name(transaction, cluster_id, {heir.node for heir, _ in heirs})
    for heir, at in heirs:
        if heir.uid not in placed:  # a replacement that was scheduled holds an allocation already
            allocations.allocate(transaction, cluster_id, build_allocations(heir, known.get(heir.node), at))


def _replacement_of(pod: Pod, others: Iterable[Pod]) -> Pod | None:
    return next(
        (
            other
            for other in others
            if (other.attempt, other.rank) == (pod.attempt, pod.rank)
            and other.revision > pod.revision
            and not other.phase.is_finished
        ),
        None,
    )


def _is_orphan(report: ObservedPod, known: Pod | None) -> bool:
    """Whether a pod that Stoker launched runs although the store does not expect it."""
    return bool(report.workload_uid) and not report.phase.is_finished and (known is None or known.phase.is_finished)


def _end_time(report: ObservedPod, at: int) -> int | None:
    """The time of the end, limited to now: the clock of the node may be ahead."""
    if not report.phase.is_finished:
        return None
    return at if report.ended_at is None else min(report.ended_at, at)
