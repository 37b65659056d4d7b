"""All simulated pods, with a heap of the times at which their states change; no pod has a task."""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable

from stoker.domain.cluster.resources import MILLI
from stoker.engines.coalescing_queue import CoalescingQueue
from stoker.engines.simulated.fleet.faults import FaultSchedule, SimulatedFault
from stoker.engines.simulated.fleet.gpu_models import A100, MODELS_BY_NAME
from stoker.engines.simulated.fleet.nodes import SimulatedFleet
from stoker.engines.simulated.output.pod_log import SimulatedPodLog
from stoker.engines.simulated.pods.journal import ApplyEntry, JournalEntry, ReleaseEntry, ReviseEntry, StopEntry
from stoker.engines.simulated.pods.pod import PlannedPod, SimulatedAttempt, SimulatedPod
from stoker.engines.simulated.scenario import LoadProfile, Scenario, build_scenario
from stoker.engines.simulated.signals.sensors import COOLDOWN_MS, SimulatedAllocation


class SimulatedPodRegistry:
    def __init__(self, fleet: SimulatedFleet, faults: FaultSchedule, speed: float) -> None:
        self.pods: dict[str, SimulatedPod] = {}
        self.observers: set[CoalescingQueue] = set()
        self.log_observers: set[CoalescingQueue] = set()
        self._fleet = fleet
        self._faults = faults
        self._speed = speed
        self._by_attempt: dict[tuple[str, int], dict[str, SimulatedPod]] = defaultdict(dict)
        self._by_node: dict[str, dict[str, SimulatedPod]] = defaultdict(dict)
        self._due_heap: list[tuple[int, str]] = []
        self._log_due_heap: list[tuple[int, str]] = []
        self._logs: dict[str, SimulatedPodLog] = {}
        self._cooling: deque[SimulatedAllocation] = deque()

    def replay(self, entry: JournalEntry) -> None:
        """Replay a journal entry."""
        match entry:
            case ApplyEntry(attempt, places):
                self.add(attempt, places)
            case StopEntry(stops):
                for uid, at in stops:
                    if uid in self.pods:
                        self.pods[uid].stop(at)
            case ReleaseEntry(uids):
                for uid in uids:
                    self._remove(uid)
            case ReviseEntry(uids, revision):
                for uid in uids:
                    if uid in self.pods:
                        self.pods[uid].adopt_revision(revision)

    def journal_entries(self) -> Iterable[JournalEntry]:
        """The journal entries from which this state can be restored."""
        for pods in self._by_attempt.values():
            for pod in pods.values():
                yield ApplyEntry(pod.attempt, (pod.plan,))
        stops = tuple((uid, pod.stop_at) for uid, pod in self.pods.items() if pod.stop_at is not None)
        if stops:
            yield StopEntry(stops)

    def apply_past_faults(self, now: int) -> None:
        """After a replay: end the pods that were lost to faults meanwhile."""
        for pod in self.pods.values():
            place = self._fleet.node_index.get(pod.plan.node)
            if place is not None and not pod.is_finished(now):
                fault = self._faults.first_affecting(place, pod.plan.devices, pod.plan.created_at, now)
                if fault is not None:
                    pod.mark_lost(fault)
            self._schedule(pod, now)

    def attempt_pods(self, workload_uid: str, attempt: int) -> list[SimulatedPod]:
        """All pods of an attempt, by rank."""
        found = self._by_attempt.get((workload_uid, attempt), {}).values()
        return sorted(found, key=lambda pod: (pod.plan.rank, pod.revision))

    def add(
        self, attempt: SimulatedAttempt, places: Iterable[PlannedPod], scenario: Scenario | None = None
    ) -> list[SimulatedPod]:
        scenario = scenario or build_scenario(self._fleet.seed, attempt.scenario_input)
        made = []
        for place in places:
            rows = tuple(self._fleet.device_rows(place.node, place.devices))
            pod = SimulatedPod(attempt, place, scenario, self._speed, rows)
            self.pods[place.uid] = pod
            self._by_attempt[attempt.workload_uid, attempt.attempt][place.uid] = pod
            self._by_node[place.node][place.uid] = pod
            made.append(pod)
        return made

    def release(self, pod: SimulatedPod) -> None:
        """Release an ended pod. Its GPUs still cool down."""
        if pod.rows:
            self._cooling.append(allocation_of(pod))
        self._remove(pod.uid)
        self._notify(pod.uid)

    def notify_changed(self, pod: SimulatedPod, now: int) -> None:
        """Notify observers of a change of a pod, and schedule its next one."""
        self._schedule(pod, now)
        self._notify(pod.uid)

    def advance(self, now: int) -> None:
        """Notify observers of all pods whose states have changed by now."""
        while self._due_heap and self._due_heap[0][0] <= now:
            _, uid = heapq.heappop(self._due_heap)
            if (pod := self.pods.get(uid)) is not None:
                self.notify_changed(pod, now)
                self.notify_log(pod, now)
        while self._log_due_heap and self._log_due_heap[0][0] <= now:
            _, uid = heapq.heappop(self._log_due_heap)
            if (pod := self.pods.get(uid)) is not None:
                self.notify_log(pod, now)

    def apply_fault(self, fault: SimulatedFault, now: int) -> None:
        """End the pods that a fault affects."""
        for pod in list(self._by_node[self._fleet.names[fault.node_index]].values()):
            if not pod.is_finished(fault.from_at) and fault.affects(pod.plan.devices):
                pod.mark_lost(fault)
                self.notify_changed(pod, now)

    def next_due(self) -> int | None:
        return min((heap[0][0] for heap in (self._due_heap, self._log_due_heap) if heap), default=None)

    def notify_node(self, name: str) -> None:
        """Notify observers of a change of a node."""
        self._notify(name)

    def pod_log(self, pod: SimulatedPod) -> SimulatedPodLog:
        if pod.uid not in self._logs:
            place = self._fleet.node_index.get(pod.plan.node)
            models = self._fleet.nodes[place].devices if place is not None else ()
            self._logs[pod.uid] = SimulatedPodLog(pod, MODELS_BY_NAME.get(models[0].model, A100) if models else A100)
        return self._logs[pod.uid]

    def allocations(self, now: int) -> list[SimulatedAllocation]:
        """Which pods hold which GPUs, or did a moment ago."""
        while self._cooling and (self._cooling[0].ended_at or 0) + COOLDOWN_MS < now:
            self._cooling.popleft()
        return [allocation_of(pod) for pod in self.pods.values() if pod.has_started(now)] + list(self._cooling)

    def close(self) -> None:
        for queue in self.observers | self.log_observers:
            queue.close()

    def _schedule(self, pod: SimulatedPod, now: int) -> None:
        if (at := pod.next_change(now)) is not None:
            heapq.heappush(self._due_heap, (at, pod.uid))

    def notify_log(self, pod: SimulatedPod, now: int) -> None:
        """Notify log observers that a log has grown, if there are any."""
        if not self.log_observers or not pod.has_started(now):
            return
        for queue in self.log_observers:
            queue.put(pod.uid)
        if (at := self.pod_log(pod).next_at(now)) is not None:
            heapq.heappush(self._log_due_heap, (at, pod.uid))

    def watch_logs(self, now: int) -> None:
        """Schedule the log activity of all pods for a new observer."""
        self._log_due_heap.clear()
        for pod in self.pods.values():
            self.notify_log(pod, now)

    def _remove(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        self._logs.pop(uid, None)
        if pod is not None:
            key = (pod.attempt.workload_uid, pod.attempt.attempt)
            self._by_attempt[key].pop(uid, None)
            if not self._by_attempt[key]:
                del self._by_attempt[key]
            self._by_node[pod.plan.node].pop(uid, None)

    def _notify(self, name: str) -> None:
        for queue in self.observers:
            queue.put(name)


def allocation_of(pod: SimulatedPod) -> SimulatedAllocation:
    """The load of a pod on its GPUs, from its start to its end."""
    end = pod.termination()
    return SimulatedAllocation(
        pod_uid=pod.uid,
        rows=pod.rows,
        begun_at=pod.plan.begins_at,
        ended_at=end.at if end is not None else None,
        load=pod.load,
        cpu_milli=pod.attempt.cpu_milli,
        memory_bytes=pod.attempt.memory_bytes,
        milli=min(MILLI, pod.attempt.gpu_milli),
        is_inference=pod.scenario.profile is LoadProfile.INFERENCE,
    )
