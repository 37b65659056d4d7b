"""What an engine reports, written down: the only way a pod's state enters the store."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from stoker.controller.dispatch import allocations
from stoker.domain.clock import HOUR_MS
from stoker.domain.node import Node
from stoker.domain.workload import Pod, PodPhase
from stoker.engines.base import Changes, Everything, Observation, PodSeen
from stoker.store import gpu_spans, node_faults, nodes, pods, usage, workloads
from stoker.store.base import Transaction


def parts(report: Observation, size: int) -> Iterator[Changes]:
    """A report in parts of so many nodes or pods each."""
    gone = report.gone if isinstance(report, Changes) else ()
    yield from (Changes(nodes=report.nodes[at : at + size]) for at in range(0, len(report.nodes), size))
    yield from (Changes(pods=report.pods[at : at + size]) for at in range(0, len(report.pods), size))
    yield from (Changes(gone=gone[at : at + size]) for at in range(0, len(gone), size))


def record(transaction: Transaction, cluster_id: str, report: Changes, at: int) -> set[str]:
    """Write a report down; gives the workloads that it says something about."""
    record_nodes(transaction, cluster_id, report.nodes, at)
    touched = record_pods(transaction, cluster_id, report.pods, at)
    gone = pods.by_uid(transaction, report.gone).values()
    return touched | record_missing(transaction, cluster_id, gone, at, "it is gone from its node")


def record_rest(transaction: Transaction, cluster_id: str, report: Everything, at: int) -> set[str]:
    """What follows from a report of everything about that which is not in it; gives all that is to be looked at."""
    names = {node.name for node in report.nodes}
    lost = [node.name for node in nodes.of_cluster(transaction, cluster_id) if node.name not in names]
    if lost:
        nodes.leave(transaction, cluster_id, lost, at)
        gpu_spans.leave(transaction, cluster_id, lost, at)
    there = {pod.uid for pod in report.pods}
    held = pods.held(transaction, cluster_id)
    begun = [pod for pod in held if pod.uid not in there and pod.started_at is not None]
    touched = record_missing(transaction, cluster_id, begun, at, "it was gone when contact came back")
    touched |= {pod.workload_uid for pod in report.pods if pod.workload_uid}
    return touched | {workload.uid for workload in workloads.active(transaction, cluster_id)}


def record_nodes(transaction: Transaction, cluster_id: str, seen: Sequence[Node], at: int) -> None:
    """Write what nodes look like, and since when."""

    def write() -> None:
        nodes.put(transaction, cluster_id, seen, at)
        gpu_spans.observe(transaction, cluster_id, seen, at)

    if seen:
        node_faults.telling(transaction, cluster_id, {node.name for node in seen}, at, write)


def record_pods(transaction: Transaction, cluster_id: str, seen: Sequence[PodSeen], at: int) -> set[str]:
    """Write what changed about known pods; gives the workloads they belong to. An end is never rewritten."""
    known = pods.by_uid(transaction, [report.uid for report in seen])
    changed: dict[str, Pod] = {}
    for report in seen:
        pod = changed.get(report.uid) or known.get(report.uid)
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
            changed[after.uid] = after
    begun = (pod.started_at for pod in changed.values() if pod.devices and known[pod.uid].started_at is None)
    _close_again(transaction, cluster_id, begun, at)
    return _replace(transaction, cluster_id, changed.values(), at)


def record_missing(
    transaction: Transaction, cluster_id: str, missing: Iterable[Pod], at: int, message: str
) -> set[str]:
    """Pods that should be there and are not: lost when they ran, never begun when they did not."""
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
        if not pod.phase.ended
    ]
    return _replace(transaction, cluster_id, lost, at)


def _replace(transaction: Transaction, cluster_id: str, changed: Iterable[Pod], now: int) -> set[str]:
    """Write pods as they are now; the room of those that have ended is free, or goes to their successors."""
    every = list(changed)
    pods.replace(transaction, every)
    ended = [pod for pod in every if pod.phase.ended]
    held = pods.allocated(transaction, [pod.uid for pod in ended if pod.devices])
    pods.release(transaction, ended)
    _close_again(transaction, cluster_id, (pod.ended_at for pod in ended if pod.devices), now)
    if leaving := [pod for pod in ended if pod.uid in held]:
        _hand_over(transaction, cluster_id, leaving)
    return {pod.workload_uid for pod in every}


def _close_again(transaction: Transaction, cluster_id: str, moments: Iterable[int | None], now: int) -> None:
    """Hours are closed again from which on something of a pod with GPUs was not as it was thought."""
    late = [at for at in moments if at is not None and at // HOUR_MS < now // HOUR_MS]
    if late:
        usage.came_late(transaction, cluster_id, min(late), now)


def _hand_over(transaction: Transaction, cluster_id: str, ended: Sequence[Pod]) -> None:
    """What takes the place of a pod of an older revision holds its GPUs from now on."""
    present = pods.present(transaction, {pod.workload_uid for pod in ended})
    heirs = [
        (heir, pod.ended_at or 0)
        for pod in ended
        if (heir := _heir(pod, present.get(pod.workload_uid, ()))) is not None
    ]
    if not heirs:
        return
    placed = pods.allocated(transaction, [heir.uid for heir, _ in heirs])
    known = nodes.named(transaction, cluster_id, {heir.node for heir, _ in heirs})
    for heir, at in heirs:
        if heir.uid not in placed:  # one that was given a place of its own holds it already
            pods.allocate(transaction, cluster_id, allocations(heir, known.get(heir.node), at))


def _heir(pod: Pod, others: Iterable[Pod]) -> Pod | None:
    return next(
        (
            other
            for other in others
            if (other.attempt, other.rank) == (pod.attempt, pod.rank)
            and other.revision > pod.revision
            and not other.phase.ended
        ),
        None,
    )


def _end(report: PodSeen, at: int) -> int | None:
    """When a pod ended, by a clock that may be ahead of ours: what is reported has happened."""
    if not report.phase.ended:
        return None
    return at if report.ended_at is None else min(report.ended_at, at)
