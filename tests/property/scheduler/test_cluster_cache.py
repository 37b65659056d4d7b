"""A cache updated by deltas equals one built from scratch, and so do their plans."""

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.scheduler.test_cluster_cache import machine, pod, under_way, workload

from stoker.domain.access.identity import Quota
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.placement import ClusterDelta, ClusterState
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.scheduler import Planner, plan
from stoker.scheduler.cache import ClusterCache
from stoker.scheduler.model import Snapshot

SIZES = (Resources(0, 500, 1), Resources(300, 500, 1), Resources(MILLI, 500, 1), Resources(2 * MILLI, 500, 1))
LIVE = (Phase.PENDING, Phase.RESUMING, Phase.INITIALIZING, Phase.RUNNING, Phase.UPDATING, Phase.TERMINATING)
ENDED = (Phase.COMPLETED, Phase.FAILED, Phase.STOPPED)


class RandomHistory:
    """A cluster to which things happen; it remembers what moved since it was last asked."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.workloads: dict[str, Workload] = {}
        self.pods: dict[str, list[Pod]] = {}
        self.nodes = {f"node-{number}": machine(f"node-{number}", 4) for number in range(3)}
        self.quota = Quota(gpu_milli=6 * MILLI)
        self.guaranteed_seconds = 0
        self.moved: dict[str, str] = {}
        self.nodes_moved = self.quota_moved = False
        self.now = 1_000

    def step(self) -> None:
        """Something happens."""
        self.now += self.dice.choice((0, 1, 2, -1))
        match self.dice.randrange(8):
            case 0 | 1 | 2:
                self._submit()
            case 3 | 4:
                self._move()
            case 5:
                self._change_pods()
            case 6:
                self._change_nodes()
            case _:
                self.quota = Quota(gpu_milli=self.dice.choice((2, 6, 12)) * MILLI)
                self.guaranteed_seconds = self.dice.choice((0, 1))
                self.quota_moved = True

    def _submit(self) -> None:
        uid = f"w{len(self.workloads)}"
        others = [name for each in self.workloads.values() for name in (each.uid, each.slug)]
        spec = Spec(
            resources=self.dice.choice(SIZES),
            replicas=self.dice.choice((1, 1, 2)),
            dependencies=tuple(self.dice.sample(others, min(len(others), self.dice.choice((0, 0, 1, 2))))),
            start_after=self.dice.choice((None, None, self.now + 2)),
        )
        kind = self.dice.choice((Kind.JOB, Kind.DEPLOYMENT))
        made = workload(uid, kind, slug=f"slug-{uid}", spec=spec, preemptible=self.dice.random() < 0.5)
        self._put(structs.replace(made, priority=self.dice.choice((80, 125)), submitted_at=self.now))

    def _move(self) -> None:
        """Another phase for one of them, with the pods that it then has."""
        if not self.workloads:
            return
        before = self.dice.choice(list(self.workloads.values()))
        phase = self.dice.choice(LIVE + ENDED)
        then = Phase.PENDING if phase is Phase.TERMINATING else None
        until = self.dice.choice((None, self.now, self.now + 2, self.now + 5))
        version = before.version + 1
        self._put(
            structs.replace(before, phase=phase, next_phase=then, version=version, attempt=1, guaranteed_until=until)
        )
        self.pods.pop(before.uid, None)
        if not phase.is_finished and not phase.is_pending:
            self._give_pods(self.workloads[before.uid])

    def _give_pods(self, owner: Workload) -> None:
        made = []
        for rank in range(owner.spec.replicas):
            size = self.dice.choice(SIZES)
            devices = tuple(self.dice.sample(range(4), -(-size.gpu_milli // MILLI)))
            node = self.dice.choice(["gone", *self.nodes])
            made.append(pod(owner.uid, rank, node, size, devices, self.dice.choice((1, 1, 2))))
        self.pods[owner.uid] = made

    def _change_pods(self) -> None:
        if not self.pods:
            return
        uid = self.dice.choice(list(self.pods))
        self._give_pods(self.workloads[uid])
        if self.dice.random() < 0.5:
            self.pods[uid].pop()
        self.moved[uid] = self.workloads[uid].slug

    def _change_nodes(self) -> None:
        name = f"node-{self.dice.randrange(5)}"
        self.nodes = dict(self.nodes)
        if name in self.nodes and self.dice.random() < 0.4:
            del self.nodes[name]
        else:
            made = machine(name, self.dice.choice((2, 4)))
            self.nodes[name] = structs.replace(made, cordoned=self.dice.random() < 0.3)
        self.nodes_moved = True

    def _put(self, changed: Workload) -> None:
        self.workloads[changed.uid] = changed
        self.moved[changed.uid] = changed.slug

    def whole(self) -> ClusterState:
        live = [each for each in self.workloads.values() if not each.phase.is_finished]
        made = under_way(live, [each for held in self.pods.values() for each in held], self.quota)
        refs = {ref for each in live if each.phase.is_pending for ref in each.spec.dependencies}
        spaces = tuple(structs.replace(each, guaranteed_seconds=self.guaranteed_seconds) for each in made.workspaces)
        states = {ref: self._state(ref) for ref in refs}
        return structs.replace(made, nodes=self.nodes, workspaces=spaces, dependencies=states)

    def part(self, view: ClusterCache) -> ClusterDelta:
        """What moved since the last time, as the store would read it."""
        moved, self.moved = self.moved, {}
        awaited = view.awaited_dependencies(moved)
        whole = self.whole()
        live = {uid: whole.workloads[uid] for uid in moved if uid in whole.workloads}
        refs = awaited | {ref for each in live.values() if each.phase.is_pending for ref in each.spec.dependencies}
        part = ClusterDelta(
            changed_uids=frozenset(moved),
            workloads=live,
            pods={uid: self.pods[uid] for uid in moved if uid in self.pods},
            dependencies={ref: self._state(ref) for ref in refs},
            nodes=self.nodes if self.nodes_moved else None,
            workspaces=whole.workspaces if self.quota_moved else None,
        )
        self.nodes_moved = self.quota_moved = False
        return part

    def _state(self, ref: str) -> tuple[str, Phase]:
        found = next((each for each in self.workloads.values() if ref in {each.uid, each.slug}), None)
        return (found.slug, found.phase) if found else (ref, Phase.FAILED)


def in_order(snapshot: Snapshot) -> Snapshot:
    return Snapshot(
        snapshot.now,
        tuple(sorted(snapshot.nodes, key=lambda each: each.name)),
        tuple(sorted(snapshot.queues, key=lambda each: each.workspace_id)),
        tuple(sorted(snapshot.pending, key=lambda each: each.uid)),
        tuple(sorted(snapshot.admitted, key=lambda each: each.uid)),
    )


@given(st.integers(0, 2**32 - 1))
def test_a_view_and_its_plans_follow_any_history(seed: int) -> None:
    history = RandomHistory(seed)
    view = ClusterCache(history.whole())
    planner = Planner(view.snapshot(history.now))
    for _ in range(12):
        for _ in range(history.dice.randrange(4)):
            history.step()
        made = planner.replan(view.update(history.part(view), history.now))
        anew = ClusterCache(history.whole()).snapshot(history.now)
        assert in_order(view.snapshot(history.now)) == in_order(anew)
        assert made == plan(anew)
