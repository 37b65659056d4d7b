"""The past of the demo, lived through in an instant.

Teams submit, gangs find room or wait, pods run the stories that the engine would have told of them, nodes break. Every
change of a workload goes through the same `lifecycle.transition` as a real one, so the rows are those of a real past.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from stoker.controller.judge import why
from stoker.domain.events import Placed, PodsEnded, PodsGone, PodsLost, PodsShort, PodsUp, StopAsked
from stoker.domain.lifecycle import created
from stoker.domain.names import new_uuid
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Phase, PodPhase, Workload
from stoker.engines.simulated.dice import choice, dice
from stoker.engines.simulated.faults import Fault, Faults
from stoker.engines.simulated.machine import LARGE_GPUS, Machines
from stoker.engines.simulated.pods import Pod
from stoker.engines.simulated.rollout import attempt_of, places_of
from stoker.engines.simulated.story import story
from stoker.server.demo.catalogue import drawn, kept_ms
from stoker.server.demo.lives import Job, order_of, row_of
from stoker.server.demo.pace import STEP_MS, submits, wish
from stoker.server.demo.people import BY_WORKSPACE, World
from stoker.server.demo.rooms import Rooms, Seat
from stoker.services.acceptance import SLUG_LETTERS, SLUG_TAIL

ALL_DONE = "every pod exited with code 0"


class Occupied(Struct, frozen=True):
    """Room that somebody else holds, until then or with no end in sight."""

    seat: Seat
    resources: Resources
    workspace: str
    until: int | None


class Past:
    def __init__(
        self, world: World, machines: Machines, faults: Faults, occupied: Iterable[Occupied] = (), speed: float = 1.0
    ) -> None:
        self.jobs: list[Job] = []
        self._world = world
        self._machines = machines
        self._faults = faults
        self._speed = speed
        self._rooms = Rooms(machines.nodes, _spared(machines))
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._count = 0
        self._queues: dict[str, list[Job]] = defaultdict(list)
        self._used: dict[str, int] = defaultdict(int)
        self._on: dict[str, dict[str, tuple[Job, Pod]]] = defaultdict(dict)
        self._short: dict[str, Job] = {}
        self._occupied = list(occupied)

    def live(self, start: int, end: int) -> list[Job]:
        """Everything that was submitted after `start`, as it stands at `end`."""
        self._chance = dice(self._machines.seed, "past", start)
        self._start, self._end = start, end
        for there in self._occupied:
            self._occupy(there)
        for fault in self._faults.at(start):
            self._broken(fault)
        for fault in self._faults.between(start, end):
            self._at(fault.from_at, lambda at, f=fault: self._break(f, at))
        for name in self._world.workspaces:
            self._at(start + 1 + self._chance.randrange(STEP_MS), lambda at, n=name: self._think(n, at))
        while self._events and self._events[0][0] <= end:
            at, _, event = heapq.heappop(self._events)
            event(at)
        return self.jobs

    def _at(self, at: int, event: Callable[[int], None]) -> None:
        if at <= self._end:
            self._count += 1
            heapq.heappush(self._events, (at, self._count, event))

    def _think(self, name: str, at: int) -> None:
        """A team looks at what it has, and may want more."""
        workspace, chance = self._world.workspaces[name], self._chance
        pause = round(STEP_MS / self._speed * chance.uniform(0.6, 1.4))
        self._at(at + pause, lambda later: self._think(name, later))
        demand = self._used[name] + sum(job.gpus for job in self._queues[name])
        if submits(chance, wish(workspace, self._machines.gpus, at), demand):
            job = self._submitted(name, at)
            self._queues[name].append(job)
            self._queues[name].sort(key=_turn)
            self._serve(name, at)

    def _submitted(self, name: str, at: int) -> Job:
        workspace, chance = self._world.workspaces[name], self._chance
        quota = workspace.quota.gpu_milli
        most = LARGE_GPUS * 2 if quota is None else quota // MILLI
        person = chance.choice(self._world.people[name])
        new = drawn(chance, choice(chance, BY_WORKSPACE[name].works), name, person.name, most)
        tail = "".join(chance.choice(SLUG_LETTERS) for _ in range(SLUG_TAIL))
        workload = Workload(
            uid=new_uuid(chance.randbytes),
            slug=f"{new.name}-{tail}",
            name=new.name,
            description=new.description,
            kind=new.kind,
            cluster_id=self._world.cluster.id,
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
        job = Job(created(workload), name)
        self.jobs.append(job)
        return job

    def _serve(self, name: str, at: int) -> None:
        """Start what can start, nothing past a higher priority that cannot."""
        least = 0
        for job in list(self._queues[name]):
            workload = job.workload
            if workload.priority < least or (workload.not_before or 0) > at:
                continue
            seats = self._found(job, workload.spec.replicas)
            if seats is None:
                least = workload.priority
                continue
            self._queues[name].remove(job)
            job.go_through(Placed(at))
            self._seat(job, range(workload.spec.replicas), seats, at)

    def _found(self, job: Job, replicas: int) -> list[Seat] | None:
        """Room for so many of its pods, inside the quota unless it may borrow."""
        each, quota = job.workload.spec.resources, self._world.workspaces[job.workspace].quota.gpu_milli
        wanted = self._used[job.workspace] * MILLI + each.gpu_milli * replicas
        if quota is not None and wanted > quota and not job.workload.preemptible:
            return None
        return self._rooms.seats(each, replicas)

    def _seat(self, job: Job, ranks: Iterable[int], seats: Sequence[Seat], at: int) -> None:
        """Give ranks their places, and see when they will be up and when they will end."""
        workload = job.workload
        each = workload.spec.resources
        self._rooms.take(seats, each)
        self._used[job.workspace] += len(seats) * each.gpu_milli // MILLI
        order = order_of(workload, ranks, seats, self._chance)
        attempt = attempt_of(order)
        told = story(self._machines.seed, attempt.subject)
        for place in places_of(order, told, (), at, self._speed):
            rows = tuple(self._machines.rows(place.node, place.devices))
            pod = Pod(attempt, place, told, self._speed, rows)
            job.pods.append(pod)
            job.alive.append(pod)
            self._on[place.node][pod.uid] = (job, pod)
            if (end := pod.end()) is not None:
                self._at(end.at, lambda later, p=pod: self._ended(job, p, later))
        number = workload.attempt
        up_at = max(pod.place.begins_at for pod in job.alive)
        self._at(up_at, lambda later: self._up(job, number, later))
        if not workload.kind.ends and workload.started_at is None:
            self._at(up_at + round(kept_ms(workload.uid, workload.kind) / self._speed), lambda t: self._stop(job, t))

    def _up(self, job: Job, attempt: int, at: int) -> None:
        if job.workload.attempt == attempt and len(job.alive) == job.workload.spec.replicas:
            job.go_through(PodsUp(at))

    def _ended(self, job: Job, pod: Pod, at: int) -> None:
        """A pod has ended: by itself, because it was asked to, or with its node."""
        end = pod.end()
        if end is None or end.at != at or pod not in job.alive:
            return
        self._leave(job, pod)
        workload = job.workload
        if workload.then is not None or workload.phase.leaving:
            if not job.alive:
                job.go_through(PodsGone(at))
                self._queue_again(job, at)
        elif end.phase is PodPhase.SUCCEEDED:
            if not job.alive:
                job.go_through(PodsEnded(at, True, ALL_DONE))
        elif end.phase is PodPhase.LOST and workload.kind.rolls:
            up = len(job.alive)
            job.go_through(PodsShort(at, f"{up} of {workload.spec.replicas} pods are up"))
            self._short[workload.uid] = job
        else:
            words, left = why(row_of(pod, at)), bool(job.alive)
            lost = end.phase is PodPhase.LOST
            job.go_through(PodsLost(at, words, left) if lost else PodsEnded(at, False, words, left))
            self._ask_to_end(job, at)
            self._queue_again(job, at)
        self._freed(at)

    def _stop(self, job: Job, at: int) -> None:
        if job.go_through(StopAsked(at, job.workload.user_name)):
            self._short.pop(job.workload.uid, None)
            if job in self._queues[job.workspace]:
                self._queues[job.workspace].remove(job)
            self._ask_to_end(job, at)

    def _ask_to_end(self, job: Job, at: int) -> None:
        for pod in job.alive:
            pod.stop(at)
            end = pod.end()
            if end is not None:
                self._at(end.at, lambda later, p=pod: self._ended(job, p, later))

    def _queue_again(self, job: Job, at: int) -> None:
        workload = job.workload
        if workload.phase is not Phase.PENDING:
            return
        queue = self._queues[job.workspace]
        queue.append(job)
        queue.sort(key=_turn)
        self._at(max(at, workload.not_before or 0), lambda later: self._serve(job.workspace, later))

    def _break(self, fault: Fault, at: int) -> None:
        self._broken(fault)
        for job, pod in list(self._on[self._machines.names[fault.place]].values()):
            if pod in job.alive and fault.hits(pod.place.devices):
                pod.lose(fault)
                self._ended(job, pod, at)

    def _broken(self, fault: Fault) -> None:
        name = self._machines.names[fault.place]
        self._rooms.break_down(name)
        self._at(fault.to_at, lambda at: self._mended(name, at))

    def _mended(self, name: str, at: int) -> None:
        self._rooms.mend(name)
        self._freed(at)

    def _freed(self, at: int) -> None:
        """Room has come free: first for services that are short of pods, then for those who wait."""
        for uid, job in list(self._short.items()):
            there = {pod.place.rank for pod in job.alive}
            missing = [rank for rank in range(job.workload.spec.replicas) if rank not in there]
            seats = self._found(job, len(missing))
            if seats is not None:
                del self._short[uid]
                self._seat(job, missing, seats, at)
        for name, queue in self._queues.items():
            if queue:
                self._serve(name, at)

    def _leave(self, job: Job, pod: Pod) -> None:
        job.alive.remove(pod)
        self._on[pod.place.node].pop(pod.uid, None)
        each = job.workload.spec.resources
        self._rooms.give((pod.place.node, pod.place.devices), each)
        self._used[job.workspace] -= each.gpu_milli // MILLI

    def _occupy(self, there: Occupied) -> None:
        """Something that was there before: it only takes up room."""
        self._rooms.take([there.seat], there.resources)
        self._used[there.workspace] += there.resources.gpu_milli // MILLI
        if there.until is not None:
            self._at(there.until, lambda at: self._vacate(there, at))

    def _vacate(self, there: Occupied, at: int) -> None:
        self._rooms.give(there.seat, there.resources)
        self._used[there.workspace] -= there.resources.gpu_milli // MILLI
        self._freed(at)


def _turn(job: Job) -> tuple[bool, int, int, str]:
    workload = job.workload
    return (not workload.requeued, -workload.priority, workload.submitted_at, workload.uid)


def _spared(machines: Machines) -> frozenset[str]:
    """Half of the large nodes, and never fewer than two."""
    large = [node.name for node in machines.nodes if len(node.devices) == LARGE_GPUS]
    return frozenset(large[min(len(large) // 2, max(0, len(large) - 2)) :])
