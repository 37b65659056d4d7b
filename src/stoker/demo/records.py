"""A workload of the demo's history: its transitions and pods during the simulation, and the rows written at its end."""

import random
from collections.abc import Iterable, Sequence

from stoker.controller.reconcile.launch import launch_spec_with_pods
from stoker.controller.scheduling.dispatch import build_allocations, pod_name
from stoker.demo.packing import GpuSlot
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.names import new_uuid4
from stoker.domain.workload.events import LifecycleEvent
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.pod import Pod as PodRow
from stoker.engines.model import LaunchSpec, PodAssignment
from stoker.engines.simulated.fleet.nodes import SimulatedFleet
from stoker.engines.simulated.pods.pod import SimulatedPod
from stoker.store.workloads.backfill import BackfilledAllocation, WorkloadHistory


class HistoricalWorkload:
    """A workload of the history with all its transitions, all its pods, and those that are alive."""

    def __init__(self, change: Transition, workspace: str) -> None:
        self.workspace = workspace
        self.transitions = [change]
        self.pods: list[SimulatedPod] = []
        self.live_pods: list[SimulatedPod] = []

    @property
    def workload(self) -> Workload:
        return self.transitions[-1].workload

    @property
    def gpus(self) -> int:
        return self.workload.spec.total_resources.gpu_milli // MILLI

    def apply(self, event: LifecycleEvent) -> bool:
        change = transition(self.workload, event)
        if change is not None:
            self.transitions.append(change)
        return change is not None


def to_workload_history(job: HistoricalWorkload, fleet: SimulatedFleet, now: int) -> WorkloadHistory:
    """The workload as the store writes it."""
    rows = [to_pod_row(pod, now) for pod in job.pods]
    nodes = {row.node: fleet.nodes[fleet.node_index[row.node]] for row in rows}
    held = [
        BackfilledAllocation(allocation, row.ended_at)
        for row in rows
        for allocation in build_allocations(row, nodes[row.node], row.created_at)
    ]
    return WorkloadHistory(job.transitions, rows, held)


def to_pod_row(pod: SimulatedPod, now: int) -> PodRow:
    seen, place, attempt = pod.observed(now), pod.plan, pod.attempt
    return PodRow(
        uid=place.uid,
        workload_uid=attempt.workload_uid,
        name=place.name,
        attempt=attempt.attempt,
        revision=attempt.revision,
        rank=place.rank,
        node=place.node,
        resources=Resources(attempt.gpu_milli, attempt.cpu_milli, attempt.memory_bytes),
        devices=place.devices,
        phase=seen.phase,
        ready=seen.ready and seen.phase is PodPhase.RUNNING,
        exit_code=seen.exit_code,
        signal=seen.signal,
        message=seen.message,
        restarts=seen.restarts,
        created_at=place.created_at,
        started_at=seen.started_at,
        ended_at=seen.ended_at,
    )


def to_launch_spec(
    workload: Workload, ranks: Iterable[int], slots: Sequence[GpuSlot], chance: random.Random
) -> LaunchSpec:
    return launch_spec_with_pods(
        workload,
        [
            PodAssignment(
                new_uuid4(chance.randbytes), pod_name(workload, rank), rank, node, tuple(map(DeviceRef, devices)), {}
            )
            for rank, (node, devices) in zip(ranks, slots, strict=True)
        ],
    )
