"""The place in the queue that lists show is the one in which the scheduler serves it, on both databases."""

import itertools
import secrets
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.clock import ManualClock
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine
from tests.integration.controller.harness import CLUSTER, ControllerHarness, workspace

from stoker.controller.scheduling.loop import SchedulingLoop
from stoker.domain.access.identity import Cluster, Quota
from stoker.domain.workload.lifecycle import submit_transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Kind, Spec
from stoker.scheduler import plan
from stoker.scheduler.cache import build_snapshot
from stoker.store.cluster import clusters
from stoker.store.cluster.state import read_state
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import transitions, workload_list

NOW = 1_000_000

waiting = st.fixed_dictionaries(
    {
        "priority": st.sampled_from((0, 80, 125, 150)),
        "submitted_at": st.integers(1, 3),
        "preemptible": st.booleans(),
        "requeued": st.booleans(),
        "phase": st.sampled_from((Phase.PENDING, Phase.PENDING, Phase.RESUMING, Phase.UPDATING)),
        "reserved_nodes": st.sampled_from(((), (), (), ("node-1",))),
        "not_before": st.sampled_from((None, None, NOW + 5)),
        "start_after": st.sampled_from((None, None, NOW + 9)),
    }
)


def _workload(cluster_id: str, workspace_id: int, number: int, start_after: int | None, **fields: Any) -> Workload:
    kind = Kind.DEPLOYMENT if fields["phase"] is Phase.UPDATING else Kind.JOB
    made = Workload(
        uid=f"{cluster_id}-{number}",
        slug=f"{cluster_id}-job-{number}",
        name="job",
        kind=kind,
        cluster_id=cluster_id,
        workspace_id=workspace_id,
        namespace="default",
        user_id="1",
        user_name="li.wei",
        origin_api="management",
        spec=Spec(start_after=start_after),
        submitted_at=0,
        phase_at=0,
    )
    return structs.replace(made, **fields)


def test_a_place_in_a_list_is_the_place_in_which_it_is_served(store: Store, loop_run: LoopRun) -> None:
    harness = ControllerHarness(store, FakeEngine([]))
    loop_run(harness.found())
    numbers = itertools.count(2)

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(st.lists(waiting, min_size=1, max_size=8), st.booleans())
    def check(asked: list[dict[str, Any]], preemption: bool) -> None:
        number = next(numbers)
        cluster_id = f"{CLUSTER}-{number}"
        space = structs.replace(workspace(number, Quota()), cluster_id=cluster_id, preemption=preemption)
        made = [_workload(cluster_id, number, each, **fields) for each, fields in enumerate(asked)]

        def found(transaction: Transaction) -> None:
            clusters.add(transaction, Cluster(cluster_id, cluster_id, "local", "", 1))
            workspaces.add(transaction, space)
            for each in made:
                transitions.add(transaction, submit_transition(structs.replace(each, reserved_nodes=())))
                if each.reserved_nodes:
                    transaction.execute(
                        "UPDATE workload SET reserved_nodes = 'node-1' WHERE uid = :uid", {"uid": each.uid}
                    )

        loop_run(store.write(found))

        def compare(transaction: Transaction) -> None:
            cluster = read_state(transaction, cluster_id)
            waits = plan(build_snapshot(cluster, NOW)).pending
            queued = {uid for uid, each in cluster.workloads.items() if each.phase.is_pending}
            shown = workload_list.queue_positions(transaction, number, cluster.workloads)
            assert shown == {uid: waits[uid].position for uid in queued}
            for priority in (0, 80, 125, 150):
                new = _workload(cluster_id, number, 99, None, phase=Phase.PENDING, priority=priority, submitted_at=NOW)
                more = structs.replace(cluster, workloads={**cluster.workloads, new.uid: new})
                order = plan(build_snapshot(more, NOW)).pending[new.uid].position
                assert workload_list.count_ahead(transaction, number, priority) == order - 1

        loop_run(SchedulingLoop(store, cluster_id, ManualClock(NOW), secrets.token_bytes).run_cycle())
        loop_run(store.read(compare))

    check()
