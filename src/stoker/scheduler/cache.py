"""A cluster as the scheduler sees it: rooms, queues, who waits and who is placed.

A `View` is made from the whole cluster once and then kept up to date by what moves. It never differs from a view that
is made anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from stoker.domain.identity import Workspace
from stoker.domain.node import Node
from stoker.domain.placement import Moved, UnderWay, free_devices, holders, missing_ranks
from stoker.domain.resources import MILLI, NONE
from stoker.domain.workload import Phase, Pod, Workload
from stoker.scheduler.change import Change
from stoker.scheduler.room import UNKNOWN
from stoker.scheduler.snapshot import NodeRoom, Placed, Queue, Snapshot, Waiting

MANY = 1000
"""States of workloads that nobody waits for any more are kept up to about so many."""


def snapshot(cluster: UnderWay, now: int) -> Snapshot:
    """The whole of it at one moment."""
    return View(cluster).snapshot(now)


class View:
    def __init__(self, cluster: UnderWay) -> None:
        self.workloads: dict[str, Workload] = {}
        self.pods: dict[str, Sequence[Pod]] = {}
        self.nodes: Mapping[str, Node] = {}
        self.waiting: dict[str, Waiting] = {}
        self._placed: dict[str, Placed] = {}
        self._rooms: dict[str, NodeRoom] = {}
        self._queues: dict[int, Queue] = {}
        self._on: dict[str, dict[str, list[Pod]]] = defaultdict(dict)
        self._states: dict[str, tuple[str, Phase]] = {}
        self._awaiting: dict[str, set[str]] = defaultdict(set)
        everything = Moved(
            uids=frozenset(cluster.workloads) | frozenset(cluster.pods),
            workloads=cluster.workloads,
            pods=cluster.pods,
            dependencies=cluster.dependencies,
            nodes=cluster.nodes,
            workspaces=cluster.workspaces,
        )
        self.update(everything, 0)

    def snapshot(self, now: int) -> Snapshot:
        return Snapshot(
            now=now,
            nodes=tuple(self._rooms.values()),
            queues=tuple(self._queues.values()),
            waiting=tuple(self.waiting.values()),
            placed=tuple(self._placed.values()),
        )

    def awaited(self, moved: Mapping[str, str]) -> set[str]:
        """Of workloads that have moved, given as uids and slugs, those names by which others wait for them."""
        names = {name for pair in moved.items() for name in pair}
        names |= {found.slug for uid in moved if (found := self.workloads.get(uid))}
        return {name for name in names if self._awaiting.get(name)}

    def on_node(self, name: str) -> list[Pod]:
        """The pods that take up room on a node."""
        return [pod for held in self._on.get(name, {}).values() for pod in held]

    def update(self, moved: Moved, now: int) -> Change:
        """Take in what has moved; gives what that changes for the scheduler."""
        nodes = self._update_nodes(moved.nodes)
        queues, lost_queues = self._update_queues(moved.workspaces)
        again = {uid for ref in moved.dependencies for uid in self._awaiting.get(ref, ())} - moved.uids
        self._states |= moved.dependencies
        if len(self._states) > 2 * len(self._awaiting) + len(moved.dependencies) + MANY:
            kept = self._awaiting.keys() | moved.dependencies.keys()
            self._states = {ref: state for ref, state in self._states.items() if ref in kept}
        touched = {name for uid in moved.uids for name in self._replace(uid, moved)}
        waiting = {uid: self._wait(uid) for uid in (*moved.uids, *again)}
        rooms, lost_rooms = self._measure(nodes | touched)
        return Change(
            now=now,
            waiting=tuple(each for each in waiting.values() if each is not None),
            not_waiting=tuple(uid for uid, each in waiting.items() if each is None),
            placed=tuple(self._placed[uid] for uid in moved.uids if uid in self._placed),
            not_placed=tuple(uid for uid in moved.uids if uid not in self._placed),
            nodes=rooms,
            lost_nodes=lost_rooms,
            queues=queues,
            lost_queues=lost_queues,
        )

    def _update_nodes(self, nodes: Mapping[str, Node] | None) -> set[str]:
        """The names of those that are not what they were."""
        if nodes is None:
            return set()
        before, self.nodes = self.nodes, nodes
        changed = {name for name, node in nodes.items() if before.get(name) is not node}
        return changed | {name for name in before if name not in nodes}

    def _update_queues(self, workspaces: Iterable[Workspace] | None) -> tuple[tuple[Queue, ...], tuple[int, ...]]:
        if workspaces is None:
            return (), ()
        before = self._queues
        self._queues = {
            each.id: Queue(each.id, each.name, each.quota, each.queue_policy, each.preemption, each.guaranteed_seconds)
            for each in workspaces
        }
        changed = tuple(queue for number, queue in self._queues.items() if before.get(number) != queue)
        return changed, tuple(number for number in before if number not in self._queues)

    def _replace(self, uid: str, moved: Moved) -> set[str]:
        """Take in one workload and its pods; gives the nodes whose room that touches."""
        names = {pod.node for pod in self.pods.pop(uid, ())}
        for name in names:
            self._on[name].pop(uid, None)
        self._forget(self.workloads.pop(uid, None))
        workload, held = moved.workloads.get(uid), moved.pods.get(uid, ())
        if workload is not None:
            self.workloads[uid] = workload
            self._expect(workload)
        if held:
            self.pods[uid] = held
        holding = holders(held)
        for pod in holding:
            self._on[pod.node].setdefault(uid, []).append(pod)
        self._placed.pop(uid, None)
        if workload is not None and holding:
            self._placed[uid] = _placed(workload, holding)
        return names | {pod.node for pod in held}

    def _forget(self, workload: Workload | None) -> None:
        if workload is not None and workload.phase.queued:
            for ref in workload.spec.dependencies:
                self._awaiting[ref].discard(workload.uid)
                if not self._awaiting[ref]:
                    del self._awaiting[ref]

    def _expect(self, workload: Workload) -> None:
        if workload.phase.queued:
            for ref in workload.spec.dependencies:
                self._awaiting[ref].add(workload.uid)

    def _wait(self, uid: str) -> Waiting | None:
        workload = self.workloads.get(uid)
        ranks = missing_ranks(workload, self.pods.get(uid, ())) if workload else ()
        self.waiting.pop(uid, None)
        if workload is None or not ranks:
            return None
        refs = workload.spec.dependencies if workload.phase.queued else ()  # what has begun waits for nobody
        states = [self._states[ref] for ref in refs if ref in self._states]
        self.waiting[uid] = _waiting(workload, len(ranks), states)
        return self.waiting[uid]

    def _measure(self, names: Iterable[str]) -> tuple[tuple[NodeRoom, ...], tuple[str, ...]]:
        """Work out the room of these nodes again."""
        changed, lost = [], []
        for name in names:
            node, before = self.nodes.get(name), self._rooms.pop(name, None)
            if node is None:
                lost += [name] if before else []
                continue
            room = self._rooms[name] = _room(node, self.on_node(name))
            if room != before:
                changed.append(room)
        return tuple(changed), tuple(lost)


def _room(node: Node, held: Sequence[Pod]) -> NodeRoom:
    used = sum((pod.resources for pod in held), NONE)
    free = free_devices(node, held)
    shared = sorted((milli, index) for index, milli in free.items() if 0 < milli < MILLI)
    return NodeRoom(
        name=node.name,
        cpu_milli=max(0, node.cpu_milli - used.cpu_milli),
        memory_bytes=max(0, node.memory_bytes - used.memory_bytes),
        whole_gpus=sum(1 for milli in free.values() if milli == MILLI),
        shared_gpus=tuple(milli for milli, _ in shared),
        shared_on=tuple(index for _, index in shared),
        total=node.capacity,
        usable=node.ready and not node.fault and not node.cordoned,
        pool=node.pool,
        model=node.devices[0].model if node.devices else "",
    )


def _waiting(workload: Workload, replicas: int, states: Sequence[tuple[str, Phase]]) -> Waiting:
    bad = next((slug for slug, phase in states if phase.ended and phase is not Phase.COMPLETED), "")
    due = [at for at in (workload.not_before, workload.spec.start_after) if at is not None]
    return Waiting(
        uid=workload.uid,
        workspace_id=workload.workspace_id,
        priority=workload.priority,
        submitted_at=workload.submitted_at,
        replicas=replicas,
        each=workload.spec.resources,
        preemptible=workload.preemptible,
        requeued=workload.requeued or not workload.phase.queued,
        specified_nodes=workload.spec.specified_nodes,
        pools=workload.spec.node_pools,
        tolerate_all=workload.spec.tolerate_all,
        not_before=max(due) if due else None,
        waits_for=tuple(sorted({slug for slug, phase in states if not phase.ended})),
        failed_dependency=bad,
    )


def _placed(workload: Workload, held: Sequence[Pod]) -> Placed:
    return Placed(
        uid=workload.uid,
        workspace_id=workload.workspace_id,
        priority=workload.priority,
        placed_at=min(pod.created_at for pod in held),
        nodes=tuple(pod.node for pod in held),
        each=held[0].resources,
        sizes=() if len({pod.resources for pod in held}) == 1 else tuple(pod.resources for pod in held),
        preemptible=workload.preemptible,
        leaving=workload.phase.leaving or workload.then is not None,
        devices=tuple(_shared_device(pod) for pod in held),
        guaranteed_until=workload.guaranteed_until if workload.preemptible else None,
    )


def _shared_device(pod: Pod) -> int:
    return pod.devices[0] if pod.devices and pod.resources.gpu_milli < MILLI else UNKNOWN
