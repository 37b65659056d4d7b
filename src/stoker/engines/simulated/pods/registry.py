"""All simulated pods, and when something about them changes next: a heap of due times, no task for any pod."""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable

from stoker.domain.resources import MILLI
from stoker.engines.feed import Mailbox
from stoker.engines.simulated.devices import A100, BY_NAME
from stoker.engines.simulated.faults import Fault, Faults
from stoker.engines.simulated.journal import Applied, Entry, Forgotten, Stopped
from stoker.engines.simulated.logs import PodLog
from stoker.engines.simulated.machine import Machines
from stoker.engines.simulated.pods import Attempt, Place, Pod
from stoker.engines.simulated.readings import COOLING_MS, Held
from stoker.engines.simulated.story import Doing, Story, story


class Roster:
    def __init__(self, machines: Machines, faults: Faults, speed: float) -> None:
        self.pods: dict[str, Pod] = {}
        self.observers: set[Mailbox] = set()
        self.log_readers: set[Mailbox] = set()
        self._machines = machines
        self._faults = faults
        self._speed = speed
        self._of: dict[tuple[str, int], dict[str, Pod]] = defaultdict(dict)
        self._on: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._due: list[tuple[int, str]] = []
        self._speaks: list[tuple[int, str]] = []
        self._logs: dict[str, PodLog] = {}
        self._cooling: deque[Held] = deque()

    def replay(self, entry: Entry) -> None:
        """Do again what was written down."""
        match entry:
            case Applied(attempt, places):
                self.add(attempt, places)
            case Stopped(stops):
                for uid, at in stops:
                    if uid in self.pods:
                        self.pods[uid].stop(at)
            case Forgotten(uids):
                for uid in uids:
                    self._remove(uid)

    def entries(self) -> Iterable[Entry]:
        """What has to be written down to know all this again."""
        for pods in self._of.values():
            for pod in pods.values():
                yield Applied(pod.attempt, (pod.place,))
        stops = tuple((uid, pod.stop_at) for uid, pod in self.pods.items() if pod.stop_at is not None)
        if stops:
            yield Stopped(stops)

    def settle(self, now: int) -> None:
        """After a replay: what broke meanwhile has taken its pods with it."""
        for pod in self.pods.values():
            place = self._machines.place.get(pod.place.node)
            if place is not None and not pod.ended(now):
                fault = self._faults.first(place, pod.place.devices, pod.place.created_at, now)
                if fault is not None:
                    pod.lose(fault)
            self._plan(pod, now)

    def of(self, workload_uid: str, attempt: int) -> list[Pod]:
        """All pods of an attempt, in the order of their ranks."""
        found = self._of.get((workload_uid, attempt), {}).values()
        return sorted(found, key=lambda pod: (pod.place.rank, pod.attempt.revision))

    def add(self, attempt: Attempt, places: Iterable[Place], told: Story | None = None) -> list[Pod]:
        told = told or story(self._machines.seed, attempt.subject)
        made = []
        for place in places:
            rows = tuple(self._machines.rows(place.node, place.devices))
            pod = Pod(attempt, place, told, self._speed, rows)
            self.pods[place.uid] = pod
            self._of[attempt.workload_uid, attempt.attempt][place.uid] = pod
            self._on[place.node][place.uid] = pod
            made.append(pod)
        return made

    def drop(self, pod: Pod) -> None:
        """Let go of a pod that has ended; its GPUs are still warm."""
        if pod.rows:
            self._cooling.append(held_by(pod))
        self._remove(pod.uid)
        self._tell(pod.uid)

    def changed(self, pod: Pod, now: int) -> None:
        """Something was done to it: tell everyone who listens, and when to look again."""
        self._plan(pod, now)
        self._tell(pod.uid)

    def advance(self, now: int) -> None:
        """Tell of every pod to which something has happened by now."""
        while self._due and self._due[0][0] <= now:
            _, uid = heapq.heappop(self._due)
            if (pod := self.pods.get(uid)) is not None:
                self.changed(pod, now)
                self._spoke(pod, now)
        while self._speaks and self._speaks[0][0] <= now:
            _, uid = heapq.heappop(self._speaks)
            if (pod := self.pods.get(uid)) is not None:
                self._spoke(pod, now)

    def hit(self, fault: Fault, now: int) -> None:
        """Take the pods that a fault takes."""
        for pod in list(self._on[self._machines.names[fault.place]].values()):
            if not pod.ended(fault.from_at) and fault.hits(pod.place.devices):
                pod.lose(fault)
                self.changed(pod, now)

    def next_due(self) -> int | None:
        return min((heap[0][0] for heap in (self._due, self._speaks) if heap), default=None)

    def tell(self, name: str) -> None:
        """There is news about a node."""
        self._tell(name)

    def log(self, pod: Pod) -> PodLog:
        if pod.uid not in self._logs:
            place = self._machines.place.get(pod.place.node)
            models = self._machines.nodes[place].devices if place is not None else ()
            self._logs[pod.uid] = PodLog(pod, BY_NAME.get(models[0].model, A100) if models else A100)
        return self._logs[pod.uid]

    def held(self, now: int) -> list[Held]:
        """Who holds which GPUs, and who held them until a moment ago."""
        while self._cooling and (self._cooling[0].ended_at or 0) + COOLING_MS < now:
            self._cooling.popleft()
        return [held_by(pod) for pod in self.pods.values() if pod.begun(now)] + list(self._cooling)

    def close(self) -> None:
        for mailbox in self.observers | self.log_readers:
            mailbox.close()

    def _plan(self, pod: Pod, now: int) -> None:
        if (at := pod.due(now)) is not None:
            heapq.heappush(self._due, (at, pod.uid))

    def _spoke(self, pod: Pod, now: int) -> None:
        """Its log has grown, if anybody reads it."""
        if not self.log_readers or not pod.begun(now):
            return
        for mailbox in self.log_readers:
            mailbox.put(pod.uid)
        if (at := self.log(pod).next_at(now)) is not None:
            heapq.heappush(self._speaks, (at, pod.uid))

    def speak(self, now: int) -> None:
        """Somebody has begun to read: look after every log."""
        self._speaks.clear()
        for pod in self.pods.values():
            self._spoke(pod, now)

    def _remove(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        self._logs.pop(uid, None)
        if pod is not None:
            key = (pod.attempt.workload_uid, pod.attempt.attempt)
            self._of[key].pop(uid, None)
            if not self._of[key]:
                del self._of[key]
            self._on[pod.place.node].pop(uid, None)

    def _tell(self, name: str) -> None:
        for mailbox in self.observers:
            mailbox.put(name)


def held_by(pod: Pod) -> Held:
    """What a pod does to its GPUs, from its beginning to its end."""
    end = pod.end()
    return Held(
        pod_uid=pod.uid,
        rows=pod.rows,
        begun_at=pod.place.begins_at,
        ended_at=end.at if end is not None else None,
        load=pod.load,
        cpu_milli=pod.attempt.cpu_milli,
        memory_bytes=pod.attempt.memory_bytes,
        milli=min(MILLI, pod.attempt.gpu_milli),
        serves=pod.story.doing is Doing.INFERENCE,
    )
