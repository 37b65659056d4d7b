"""What an engine reports, written down: the only way a pod's state enters the store."""

from collections.abc import Iterable

from msgspec import structs

from stoker.controller.dispatch import allocations
from stoker.domain.usage import HOUR_MS
from stoker.domain.workload import Pod, PodPhase, Workload
from stoker.engines.base import Everything, Observation, PodSeen
from stoker.store import gpu_spans, nodes, pods, usage, workloads
from stoker.store.base import Transaction


def record_nodes(transaction: Transaction, cluster_id: str, report: Observation, at: int) -> None:
    """Write what nodes look like, and since when; one that is not in a full report has gone."""
    nodes.put(transaction, cluster_id, report.nodes, at)
    gpu_spans.observe(transaction, cluster_id, report.nodes, at)
    if isinstance(report, Everything):
        there = {node.name for node in report.nodes}
        gone = [node.name for node in nodes.of_cluster(transaction, cluster_id) if node.name not in there]
        nodes.leave(transaction, cluster_id, gone, at)
        gpu_spans.leave(transaction, cluster_id, gone, at)


def record_pods(transaction: Transaction, seen: Iterable[PodSeen], at: int) -> set[str]:
    """Write what changed about known pods; gives the workloads they belong to. An end is never rewritten."""
    touched = set()
    for report in seen:
        pod = pods.get(transaction, report.uid)
        if pod is None or pod.phase.ended:
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
            started_at=report.started_at if report.started_at is not None else pod.started_at,
            ended_at=_end(report, at),
        )
        if after != pod:
            pods.replace(transaction, after)
            if after.phase.ended:
                release(transaction, after, after.ended_at or at, at)
            touched.add(pod.workload_uid)
    return touched


def record_missing(transaction: Transaction, missing: Iterable[Pod], at: int, message: str) -> set[str]:
    """Pods that should be there and are not: lost when they ran, never begun when they did not."""
    touched = set()
    for pod in missing:
        lost = structs.replace(pod, phase=PodPhase.LOST, ready=False, message=message, ended_at=at)
        pods.replace(transaction, lost)
        release(transaction, lost, at, at)
        touched.add(pod.workload_uid)
    return touched


def release(transaction: Transaction, pod: Pod, at: int, now: int) -> None:
    """Its room is free, or belongs from then on to the pod that takes its place."""
    workload = workloads.find(transaction, pod.workload_uid) if pod.devices else None
    if workload and at // HOUR_MS < now // HOUR_MS:
        usage.came_late(transaction, workload.cluster_id, at, now)
    held = _holders(transaction, workload) if workload else set()
    pods.release(transaction, pod.uid, at)
    if workload is None or pod.uid not in held:
        return
    for successor in pods.of_attempt(transaction, pod.workload_uid, pod.attempt):
        if successor.rank == pod.rank and successor.revision > pod.revision and not successor.phase.ended:
            if successor.uid not in held:  # one that was given a place of its own holds it already
                known = nodes.named(transaction, workload.cluster_id, {successor.node})
                taken_over = allocations(successor, known.get(successor.node), at)
                pods.allocate(transaction, workload.cluster_id, taken_over)
            return


def _holders(transaction: Transaction, workload: Workload) -> set[str]:
    """The pods of a workload that hold GPUs now."""
    return {each.pod_uid for each in pods.allocations_of(transaction, workload.uid)}


def _end(report: PodSeen, at: int) -> int | None:
    if not report.phase.ended:
        return None
    return report.ended_at if report.ended_at is not None else at
