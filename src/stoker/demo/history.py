"""Simulates the history of the demo without waiting.

Tenants submit, gangs start or wait, pods follow the scenarios of the simulated engine, nodes fail. Every change of a
workload goes through `lifecycle.transition`, as in a real installation, so the rows are those of a real history.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from stoker.controller.reconcile.actions import termination_message
from stoker.demo.demand import SUBMIT_INTERVAL_MS, should_submit, wanted_gpus
from stoker.demo.packing import GpuSlot, NodePacker
from stoker.demo.records import HistoricalWorkload, to_launch_spec, to_pod_row
from stoker.demo.templates import draw_workload, lifetime_ms
from stoker.demo.tenants import TENANT_BY_WORKSPACE, DemoTenants
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.names import new_uuid4
from stoker.domain.workload.events import (
    Dispatched,
    PodsFinished,
    PodsLost,
    PodsNotReady,
    PodsReady,
    PodsTerminated,
    StopRequested,
)
from stoker.domain.workload.lifecycle import submit_transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.engines.simulated.fleet.faults import FaultSchedule, SimulatedFault
from stoker.engines.simulated.fleet.nodes import LARGE_NODE_GPUS, SimulatedFleet
from stoker.engines.simulated.pods.pod import SimulatedPod
from stoker.engines.simulated.pods.rollout import build_attempt, plan_pods
from stoker.engines.simulated.scenario import build_scenario
from stoker.engines.simulated.seeded_random import seeded_rng, weighted_choice
from stoker.services.workloads.admission import SLUG_ALPHABET, SLUG_SUFFIX_LENGTH

SUCCESS_MESSAGE = "every pod exited with code 0"


class ExternalAllocation(Struct, frozen=True):
    """Capacity that a workload of an earlier segment holds, until a time or without a known end."""

    slot: GpuSlot
    resources: Resources
    workspace: str
    until: int | None


class HistorySimulation:
    def __init__(
        self,
        tenants: DemoTenants,
        fleet: SimulatedFleet,
        faults: FaultSchedule,
        occupied: Iterable[ExternalAllocation] = (),
        speed: float = 1.0,
    ) -> None:
        self.jobs: list[HistoricalWorkload] = []
        self._tenants = tenants
        self._fleet = fleet
        self._faults = faults
        self._speed = speed
        self._packer = NodePacker(fleet.nodes, _reserved_nodes(fleet))
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._count = 0
        self._queues: dict[str, list[HistoricalWorkload]] = defaultdict(list)
        self._used_gpus: dict[str, int] = defaultdict(int)
        self._pods_by_node: dict[str, dict[str, tuple[HistoricalWorkload, SimulatedPod]]] = defaultdict(dict)
        self._under_replicated: dict[str, HistoricalWorkload] = {}
        self._external = list(occupied)

    def run(self, start: int, end: int) -> list[HistoricalWorkload]:
        """All workloads submitted after `start`, in their state at `end`."""
        self._random = seeded_rng(self._fleet.seed, "past", start)
        self._start, self._end = start, end
        for allocation in self._external:
            self._allocate_external(allocation)
        for fault in self._faults.active_at(start):
            self._mark_down(fault)
        for fault in self._faults.starting_between(start, end):
            self._schedule(fault.from_at, lambda at, f=fault: self._on_fault(f, at))
        for name in self._tenants.workspaces:
            self._schedule(
                start + 1 + self._random.randrange(SUBMIT_INTERVAL_MS),
                lambda at, n=name: self._consider_submission(n, at),
            )
        while self._events and self._events[0][0] <= end:
            at, _, event = heapq.heappop(self._events)
            event(at)
        return self.jobs

    def _schedule(self, at: int, event: Callable[[int], None]) -> None:
        if at <= self._end:
            self._count += 1
            heapq.heappush(self._events, (at, self._count, event))

    def _consider_submission(self, name: str, at: int) -> None:
        """Let a tenant compare its requests with its demand, and submit if it wants more."""
        workspace, chance = self._tenants.workspaces[name], self._random
        pause = round(SUBMIT_INTERVAL_MS / self._speed * chance.uniform(0.6, 1.4))
        self._schedule(at + pause, lambda later: self._consider_submission(name, later))
        demand = self._used_gpus[name] + sum(job.gpus for job in self._queues[name])
        if should_submit(chance, wanted_gpus(workspace, self._fleet.gpu_count, at), demand):
            job = self._submit(name, at)
            self._queues[name].append(job)
            self._queues[name].sort(key=_queue_order)
            self._dispatch_queue(name, at)

    def _submit(self, name: str, at: int) -> HistoricalWorkload:
        workspace, chance = self._tenants.workspaces[name], self._random
        quota = workspace.quota.gpu_milli
        most = LARGE_NODE_GPUS * 2 if quota is None else quota // MILLI
        person = chance.choice(self._tenants.users[name])
        new = draw_workload(
            chance, weighted_choice(chance, TENANT_BY_WORKSPACE[name].templates), name, person.name, most
        )
        tail = "".join(chance.choice(SLUG_ALPHABET) for _ in range(SLUG_SUFFIX_LENGTH))
        workload = Workload(
            uid=new_uuid4(chance.randbytes),
            slug=f"{new.name}-{tail}",
            name=new.name,
            description=new.description,
            kind=new.kind,
            cluster_id=self._tenants.cluster.id,
            workspace_id=workspace.id,
            namespace=workspace.namespace,
            user_id=person.id,
            user_name=person.name,
            origin_api=new.origin_api,
            spec=new.spec,
            priority=new.priority,
            preemptible=new.preemptible,
            max_retry=new.max_retry,
            submitted_at=at,
            phase_at=at,
        )
        job = HistoricalWorkload(submit_transition(workload), name)
        self.jobs.append(job)
        return job

    def _dispatch_queue(self, name: str, at: int) -> None:
        """Start pending workloads in order; nothing starts before a pending workload of higher priority."""
        least = 0
        for job in list(self._queues[name]):
            workload = job.workload
            if workload.priority < least or (workload.not_before or 0) > at:
                continue
            slots = self._find_slots(job, workload.spec.replicas)
            if slots is None:
                least = workload.priority
                continue
            self._queues[name].remove(job)
            job.apply(Dispatched(at))
            self._place_pods(job, range(workload.spec.replicas), slots, at)

    def _find_slots(self, job: HistoricalWorkload, replicas: int) -> list[GpuSlot] | None:
        """Slots for this many of its pods, within the quota unless the workload may borrow."""
        each, quota = job.workload.spec.resources, self._tenants.workspaces[job.workspace].quota.gpu_milli
        wanted = self._used_gpus[job.workspace] * MILLI + each.gpu_milli * replicas
        if quota is not None and wanted > quota and not job.workload.preemptible:
            return None
        return self._packer.find_slots(each, replicas)

    def _place_pods(self, job: HistoricalWorkload, ranks: Iterable[int], slots: Sequence[GpuSlot], at: int) -> None:
        """Assign slots to ranks, and schedule when the pods are ready and when they end."""
        workload = job.workload
        each = workload.spec.resources
        self._packer.allocate(slots, each)
        self._used_gpus[job.workspace] += len(slots) * each.gpu_milli // MILLI
        order = to_launch_spec(workload, ranks, slots, self._random)
        attempt = build_attempt(order)
        scenario = build_scenario(self._fleet.seed, attempt.scenario_input)
        for place in plan_pods(order, scenario, (), at, self._speed):
            rows = tuple(self._fleet.device_rows(place.node, place.devices))
            pod = SimulatedPod(attempt, place, scenario, self._speed, rows)
            job.pods.append(pod)
            job.live_pods.append(pod)
            self._pods_by_node[place.node][pod.uid] = (job, pod)
            if (end := pod.termination()) is not None:
                self._schedule(end.at, lambda later, p=pod: self._on_pod_ended(job, p, later))
        number = workload.attempt
        up_at = max(pod.plan.begins_at for pod in job.live_pods)
        self._schedule(up_at, lambda later: self._mark_ready(job, number, later))
        if not workload.runs_to_completion and workload.started_at is None:
            self._schedule(
                up_at + round(lifetime_ms(workload.uid, workload.submitted_kind) / self._speed),
                lambda t: self._stop_workload(job, t),
            )

    def _mark_ready(self, job: HistoricalWorkload, attempt: int, at: int) -> None:
        if job.workload.attempt == attempt and len(job.live_pods) == job.workload.spec.replicas:
            job.apply(PodsReady(at))

    def _on_pod_ended(self, job: HistoricalWorkload, pod: SimulatedPod, at: int) -> None:
        """A pod has ended: by itself, because it was asked to stop, or with its node."""
        end = pod.termination()
        if end is None or end.at != at or pod not in job.live_pods:
            return
        self._release_pod(job, pod)
        workload = job.workload
        if workload.next_phase is not None or workload.phase.is_terminating:
            if not job.live_pods:
                job.apply(PodsTerminated(at))
                self._requeue(job, at)
        elif end.phase is PodPhase.SUCCEEDED:
            if not job.live_pods:
                job.apply(PodsFinished(at, True, SUCCESS_MESSAGE))
        elif end.phase is PodPhase.LOST and workload.uses_rolling_update:
            up = len(job.live_pods)
            job.apply(PodsNotReady(at, f"{up} of {workload.spec.replicas} pods are up"))
            self._under_replicated[workload.uid] = job
        else:
            words, left = termination_message(to_pod_row(pod, at)), bool(job.live_pods)
            lost = end.phase is PodPhase.LOST
            job.apply(PodsLost(at, words, left) if lost else PodsFinished(at, False, words, left))
            self._terminate_pods(job, at)
            self._requeue(job, at)
        self._on_capacity_freed(at)

    def _stop_workload(self, job: HistoricalWorkload, at: int) -> None:
        if job.apply(StopRequested(at, job.workload.user_name)):
            self._under_replicated.pop(job.workload.uid, None)
            if job in self._queues[job.workspace]:
                self._queues[job.workspace].remove(job)
            self._terminate_pods(job, at)

    def _terminate_pods(self, job: HistoricalWorkload, at: int) -> None:
        for pod in job.live_pods:
            pod.stop(at)
            end = pod.termination()
            if end is not None:
                self._schedule(end.at, lambda later, p=pod: self._on_pod_ended(job, p, later))

    def _requeue(self, job: HistoricalWorkload, at: int) -> None:
        workload = job.workload
        if workload.phase is not Phase.PENDING:
            return
        queue = self._queues[job.workspace]
        queue.append(job)
        queue.sort(key=_queue_order)
        self._schedule(max(at, workload.not_before or 0), lambda later: self._dispatch_queue(job.workspace, later))

    def _on_fault(self, fault: SimulatedFault, at: int) -> None:
        self._mark_down(fault)
        for job, pod in list(self._pods_by_node[self._fleet.names[fault.node_index]].values()):
            if pod in job.live_pods and fault.affects(pod.plan.devices):
                pod.mark_lost(fault)
                self._on_pod_ended(job, pod, at)

    def _mark_down(self, fault: SimulatedFault) -> None:
        name = self._fleet.names[fault.node_index]
        self._packer.mark_down(name)
        self._schedule(fault.to_at, lambda at: self._on_repaired(name, at))

    def _on_repaired(self, name: str, at: int) -> None:
        self._packer.mark_up(name)
        self._on_capacity_freed(at)

    def _on_capacity_freed(self, at: int) -> None:
        """Capacity was freed: give it to services with missing pods first, then to pending workloads."""
        for uid, job in list(self._under_replicated.items()):
            present = {pod.plan.rank for pod in job.live_pods}
            missing = [rank for rank in range(job.workload.spec.replicas) if rank not in present]
            slots = self._find_slots(job, len(missing))
            if slots is not None:
                del self._under_replicated[uid]
                self._place_pods(job, missing, slots, at)
        for name, queue in self._queues.items():
            if queue:
                self._dispatch_queue(name, at)

    def _release_pod(self, job: HistoricalWorkload, pod: SimulatedPod) -> None:
        job.live_pods.remove(pod)
        self._pods_by_node[pod.plan.node].pop(pod.uid, None)
        each = job.workload.spec.resources
        self._packer.release((pod.plan.node, pod.plan.devices), each)
        self._used_gpus[job.workspace] -= each.gpu_milli // MILLI

    def _allocate_external(self, allocation: ExternalAllocation) -> None:
        """Allocate capacity of an earlier segment; its workload is not simulated."""
        self._packer.allocate([allocation.slot], allocation.resources)
        self._used_gpus[allocation.workspace] += allocation.resources.gpu_milli // MILLI
        if allocation.until is not None:
            self._schedule(allocation.until, lambda at: self._release_external(allocation, at))

    def _release_external(self, allocation: ExternalAllocation, at: int) -> None:
        self._packer.release(allocation.slot, allocation.resources)
        self._used_gpus[allocation.workspace] -= allocation.resources.gpu_milli // MILLI
        self._on_capacity_freed(at)


def _queue_order(job: HistoricalWorkload) -> tuple[bool, int, int, str]:
    workload = job.workload
    return (not workload.requeued, -workload.priority, workload.submitted_at, workload.uid)


def _reserved_nodes(fleet: SimulatedFleet) -> frozenset[str]:
    """Half of the large nodes, and at least two."""
    large = [node.name for node in fleet.nodes if len(node.devices) == LARGE_NODE_GPUS]
    return frozenset(large[min(len(large) // 2, max(0, len(large) - 2)) :])
