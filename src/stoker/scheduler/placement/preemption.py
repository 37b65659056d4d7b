"""Chooses the workloads to preempt so that an in-quota workload can start.

Victims are preemptible: workloads of other workspaces that are over quota and, if the workspace of the preemptor allows
it, its own workloads of lower priority. The lowest priority goes first, then the newest, then the smallest; candidates
that turn out not to be needed are reprieved. Capacity of already terminating workloads is used before new preemptions.

Preemption cannot loop: a victim of another workspace was over quota, so it restarts only on idle capacity and after all
in-quota workloads; a victim of the same workspace has a lower priority.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge

from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.cycle.pending_queue import EquivalenceClass
from stoker.scheduler.cycle.state import CycleState, Horizon
from stoker.scheduler.model import AdmittedWorkload, PendingWorkload
from stoker.scheduler.placement.dry_run import PreemptionDryRun
from stoker.scheduler.placement.packing import find_placement
from stoker.scheduler.quota.admitted import PreemptionCandidate, PreemptionCandidates
from stoker.scheduler.quota.usage import QuotaUsage, is_borrowed

PREEMPTION_KIND = "victims"
ASSUMED_PODS_PER_NODE = 4
"""A rough estimate that only picks the cheaper of two equivalent searches."""


def reserve_or_preempt(state: CycleState, workload: PendingWorkload, equivalence_class: EquivalenceClass) -> bool:
    """Reserve capacity of terminating workloads, and preempt others if that is not enough."""
    usage = state.usage_by_queue[workload.workspace_id]
    reserved = state.reserved_nodes(workload.uid)
    if reserved and usage.fits_after_termination(equivalence_class.total_request):
        state.reserve_nodes(workload, reserved)
        return True
    state.kept_reservations.pop(workload.uid, None)
    if usage.fits_after_termination(equivalence_class.total_request) and (
        state.future_idle is not state.idle or usage.used_after_termination != usage.used
    ):
        nodes = find_placement(state, Horizon.FUTURE_IDLE, workload, equivalence_class)
        if nodes is not None:
            state.reserve_nodes(workload, nodes)
            return True
    where = (
        workload.workspace_id,
        equivalence_class.priority,
        equivalence_class.node_pools,
        equivalence_class.tolerate_all,
    )
    has_specified_nodes = bool(equivalence_class.specified_nodes)
    if not has_specified_nodes and state.unschedulable.covers(PREEMPTION_KIND, where, equivalence_class.request_vector):
        return False
    victims = find_victims(state, workload, equivalence_class)
    if victims is None:
        if not has_specified_nodes:
            state.unschedulable.add(PREEMPTION_KIND, where, equivalence_class.request_vector)
        return False
    for victim in victims:
        state.preempt(victim, workload.uid)
    state.reserve_nodes(workload, find_placement(state, Horizon.FUTURE_IDLE, workload, equivalence_class) or ())
    return True


def find_victims(
    state: CycleState, workload: PendingWorkload, equivalence_class: EquivalenceClass
) -> list[AdmittedWorkload] | None:
    """The victims in the first pool where preemption helps; None if it helps nowhere."""
    own_candidates, reclaimable_in_queue = state.in_queue_candidates(workload.workspace_id, equivalence_class.priority)
    other_candidates = state.reclaim_candidates(workload.workspace_id)
    if not (own_candidates or other_candidates) or not state.usage_by_queue[
        workload.workspace_id
    ].fits_after_termination(equivalence_class.total_request, reclaimable_in_queue):
        return None
    if find_placement(state, Horizon.RECLAIMABLE, workload, equivalence_class) is None:
        return None
    required_nodes = state.required_nodes(workload)
    for pool in ("",) if required_nodes else equivalence_class.node_pools:
        dry_run = PreemptionDryRun(state, equivalence_class, pool, required_nodes)
        victims = choose_victims(
            state,
            workload,
            equivalence_class,
            dry_run,
            merge(own_candidates, *_on_helpful_nodes(state, dry_run, other_candidates)),
        )
        if victims is not None:
            return victims
    return None


def _on_helpful_nodes(
    state: CycleState, dry_run: PreemptionDryRun, candidates_by_queue: Mapping[int, PreemptionCandidates]
) -> Iterable[PreemptionCandidates]:
    """The candidates, restricted to nodes where preemption helps if those are few."""
    helpful = dry_run.helpful_nodes(sum(map(len, candidates_by_queue.values())) // ASSUMED_PODS_PER_NODE)
    if helpful is None:
        return candidates_by_queue.values()
    found = {
        candidate
        for name in helpful
        for candidate in state.reclaimable.candidates_on(name)
        if candidate[1].workspace_id in candidates_by_queue
        and not candidate[1].is_terminating
        and candidate[1].uid not in state.preemptor_by_victim
    }
    return [sorted(found)]


def choose_victims(
    state: CycleState,
    workload: PendingWorkload,
    equivalence_class: EquivalenceClass,
    dry_run: PreemptionDryRun,
    candidates: Iterable[PreemptionCandidate],
) -> list[AdmittedWorkload] | None:
    """A minimal list of victims, in order; None if all candidates together are not enough."""
    own_workspace_id, usage = workload.workspace_id, state.usage_by_queue[workload.workspace_id]
    excess: dict[int, Resources] = {}
    chosen: list[PreemptionCandidate] = []
    freed, within_quota = NO_RESOURCES, usage.fits_after_termination(equivalence_class.total_request)
    for candidate in candidates:
        if within_quota and dry_run.is_satisfied:
            break
        _, admitted, allocated = candidate
        workspace_id = admitted.workspace_id
        if workspace_id == own_workspace_id:
            if admitted.uid != workload.uid and (dry_run.evict(admitted) or not within_quota):
                chosen.append(candidate)
                freed += allocated
                within_quota = within_quota or usage.fits_after_termination(equivalence_class.total_request, freed)
            continue
        over = excess.get(workspace_id)
        if over is None:
            over = excess[workspace_id] = state.usage_by_queue[workspace_id].over_quota()
        if is_borrowed(allocated, over) and dry_run.evict(admitted):
            chosen.append(candidate)
            excess[workspace_id] = over - allocated
    return (
        reprieve_unneeded(chosen, dry_run, usage, equivalence_class, own_workspace_id)
        if within_quota and dry_run.is_satisfied
        else None
    )


def reprieve_unneeded(
    chosen: Sequence[PreemptionCandidate],
    dry_run: PreemptionDryRun,
    usage: QuotaUsage | None,
    equivalence_class: EquivalenceClass,
    own_workspace_id: int,
) -> list[AdmittedWorkload]:
    """Reprieve candidates that are not needed, in reverse order. Without `usage`, no quota is checked."""
    freed = sum(
        (allocated for _, admitted, allocated in chosen if admitted.workspace_id == own_workspace_id), NO_RESOURCES
    )
    victims: list[AdmittedWorkload] = []
    for _, admitted, allocated in reversed(chosen):
        dry_run.reprieve(admitted)
        spared = freed - allocated if admitted.workspace_id == own_workspace_id else freed
        if dry_run.is_satisfied and (
            usage is None or usage.fits_after_termination(equivalence_class.total_request, spared)
        ):
            freed = spared
        else:
            dry_run.evict(admitted)
            victims.append(admitted)
    return victims[::-1]
