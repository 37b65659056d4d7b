"""Random fleets, random holders, random readings: the figures of a picture always fit each other."""

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from stoker.domain.cluster.live_view import (
    ClusterSummary,
    CollectorStatus,
    GpuColumns,
    GpuConsumer,
    LiveNode,
    LiveViewKind,
)
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.samples import (
    GpuFault,
    GpuMetric,
    GpuSamples,
    apply_device_faults,
    empty_samples,
    group_faults_by_node,
)
from stoker.domain.queries.fleet import sum_clusters
from stoker.domain.workload.idle import LONG_IDLE_MS
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.placement import ClusterState
from stoker.domain.workload.pod import Pod
from stoker.scheduler.cache import ClusterCache
from stoker.store.cluster import live_views
from stoker.store.workloads.allocations import GpuAllocation, WorkloadAllocation
from stoker.telemetry.live.builder import LiveViewBuilder
from stoker.telemetry.live.state import RUNNING_PHASES

SOURCE = CollectorStatus("simulated", 1, stale=False)
Gpu = tuple[str, int]


class ClusterCase(Struct):
    nodes: list[Node]
    holders: list[WorkloadAllocation]
    readings: GpuSamples | None


class ShownView(Struct):
    overview: ClusterSummary
    consumers: list[GpuConsumer]
    nodes: list[LiveNode]
    gpus: GpuColumns


@st.composite
def a_node(draw: st.DrawFn, number: int) -> Node:
    faults = st.sampled_from(["", "", "", "XID 79"])
    devices = tuple(
        Device(index, "", draw(st.sampled_from(["H100", "MI300X"])), 1 << 36, draw(faults))
        for index in range(draw(st.integers(0, 4)))
    )
    ready, cordoned = draw(st.sampled_from([True, True, False])), draw(st.booleans())
    return Node(f"n{number}", 64_000, 1 << 40, devices, ready=ready, cordoned=cordoned, fault=draw(faults))


def a_holder(number: int, phase: Phase, gpus: list[GpuAllocation]) -> WorkloadAllocation:
    uid = f"u{number}"
    pods = [
        Pod(
            uid=f"{uid}-{node}",
            workload_uid=uid,
            name=uid,
            attempt=1,
            revision=1,
            rank=rank,
            node=node,
            resources=Resources(1000, 2000, 1 << 30),
            created_at=0,
        )
        for rank, node in enumerate(dict.fromkeys(gpu.node for gpu in gpus))
    ]
    return WorkloadAllocation(uid, f"slug-{number}", f"name-{number}", "PyTorchJob", "default", phase, pods, gpus)


@st.composite
def some_readings(draw: st.DrawFn, gpus: list[Gpu]) -> GpuSamples:
    """Of some of these GPUs, some of them twice, and of a stranger, with gaps and with values out of all bounds."""
    read = draw(st.lists(st.sampled_from([*gpus, ("stranger", 0)]), max_size=20))
    names = tuple(dict.fromkeys(node for node, _ in read))
    values = draw(
        st.lists(
            st.sampled_from([math.nan, -0.5, 0.0, 0.004, 0.3, 0.77, 1.0, 1.7]), min_size=len(read), max_size=len(read)
        )
    )
    column = np.array(values, np.float32)
    return structs.replace(
        empty_samples(1, names),
        node=np.array([names.index(node) for node, _ in read], np.int32),
        device=np.array([device for _, device in read], np.int16),
        utilization=column,
        memory_used=column.astype(np.float64) * (1 << 36),
        memory_total=np.zeros(len(read)),
        power=column * 700,
        temperature=column * 60 + 20,
        faults=tuple(GpuFault(*gpu, "ECC") for gpu in draw(st.lists(st.sampled_from([*gpus, ("x", 1)]), max_size=1))),
    )


@st.composite
def worlds(draw: st.DrawFn) -> ClusterCase:
    nodes = [draw(a_node(number)) for number in range(draw(st.integers(0, 5)))]
    gpus = [(node.name, device.index) for node in nodes for device in node.devices]
    room = Counter(dict.fromkeys(gpus, 1000))
    holders = []
    for number in range(draw(st.integers(0, 6))):
        share = draw(st.sampled_from([1000, 1000, 500, 300]))
        free = [gpu for gpu in gpus if room[gpu] >= share]
        mine = draw(st.lists(st.sampled_from(free), unique=True, max_size=6)) if free else []
        room.subtract(dict.fromkeys(mine, share))
        held = [GpuAllocation(*gpu, share) for gpu in mine] + draw(
            st.sampled_from([[], [], [GpuAllocation("gone", 0, 1000)]])
        )
        holders.append(
            a_holder(number, draw(st.sampled_from([*RUNNING_PHASES, Phase.INITIALIZING, Phase.UNKNOWN])), held)
        )
    return ClusterCase(nodes, holders, draw(st.one_of(st.none(), some_readings(gpus))))


def shown(view: LiveViewBuilder) -> ShownView:
    parts = view.build_parts(7, SOURCE)
    return ShownView(
        live_views.decode_overview(parts[LiveViewKind.OVERVIEW]),
        live_views.decode_consumers(parts[LiveViewKind.CONSUMERS]),
        live_views.decode_nodes(parts[LiveViewKind.NODES]),
        live_views.decode_gpus(parts[LiveViewKind.GPUS]),
    )


def painted(world: ClusterCase) -> ShownView:
    view = LiveViewBuilder()
    view.reset(world.nodes, world.holders)
    view.set_samples(world.readings)
    return shown(view)


@given(worlds())
def test_every_gpu_node_is_healthy_or_faulty_and_every_healthy_one_idle_partial_or_busy(world: ClusterCase) -> None:
    overview = painted(world).overview
    assert overview.nodes == sum(bool(node.devices) for node in world.nodes)
    assert overview.healthy_nodes + overview.faulty_nodes == overview.nodes
    assert overview.idle_nodes + overview.partial_nodes + overview.busy_nodes == overview.healthy_nodes


@given(worlds())
def test_every_other_node_is_counted_by_itself(world: ClusterCase) -> None:
    overview = painted(world).overview
    others = [node.ready and not node.fault for node in world.nodes if not node.devices]
    assert (overview.cpu_nodes, overview.faulty_cpu_nodes) == (others.count(True), others.count(False))


@given(worlds())
def test_the_gpus_that_can_be_given_out_are_those_that_the_scheduler_gives_out(world: ClusterCase) -> None:
    now = painted(world)
    overview = now.overview
    faults = group_faults_by_node(world.readings.faults if world.readings else ())
    nodes = {node.name: apply_device_faults(node, faults.get(node.name, ())) for node in world.nodes}
    rooms = ClusterCache(ClusterState({}, {}, nodes, (), {})).snapshot(0).nodes
    given_out = sum(room.free_whole_gpus for room in rooms if room.is_schedulable)
    assert sum(node.schedulable_gpus for node in now.nodes) == given_out
    assert sum_clusters([overview]).schedulable_gpus == given_out
    assert overview.gpus == sum(node.gpus for node in now.nodes) == len(now.gpus.node)
    assert overview.faulty_gpus == sum(map(bool, now.gpus.fault))


@given(worlds())
def test_rates_lie_between_nothing_and_all(world: ClusterCase) -> None:
    now = painted(world)
    overview = now.overview
    assert 0 <= overview.allocated_milli <= overview.gpus * 1000
    assert 0 <= overview.healthy_allocated_milli <= overview.healthy_gpus * 1000
    assert 0 <= overview.measured_gpus <= overview.allocated_gpus <= overview.gpus
    assert 0 <= overview.utilization_sum <= overview.measured_gpus
    rates = [rate for each in (*now.consumers, *now.nodes) for rate in (each.utilization, each.memory)]
    assert all(rate is None or 0 <= rate <= 1 for rate in (*rates, *now.gpus.utilization))


@given(worlds())
def test_a_node_is_faulty_for_a_reason_and_cordoning_is_none(world: ClusterCase) -> None:
    broken = {fault.node for fault in world.readings.faults if fault.node != "x"} if world.readings else set()
    healthy = {
        node.name
        for node in world.nodes
        if node.devices and node.ready and not node.fault and not any(each.fault for each in node.devices)
    } - broken
    now = painted(world)
    assert now.overview.healthy_nodes == len(healthy)
    assert {node.name for node in now.nodes if node.gpus and node.ready and not node.fault} == healthy


@given(worlds())
def test_the_parts_of_a_picture_agree_about_who_holds_what(world: ClusterCase) -> None:
    now = painted(world)
    known = {(node.name, device.index) for node in world.nodes for device in node.devices}
    held = [gpu for holder in world.holders for gpu in holder.gpus]
    here = sum(gpu.gpu_milli for gpu in held if (gpu.node, gpu.device) in known)
    assert sum(now.gpus.allocated_milli) == sum(node.allocated_milli for node in now.nodes) == here
    running = [holder for holder in world.holders if holder.phase in RUNNING_PHASES and holder.gpus]
    assert {each.uid for each in now.consumers} == {holder.uid for holder in running}
    assert sum(each.gpu_milli for each in now.consumers) == sum(g.gpu_milli for h in running for g in h.gpus)
    assert [(-each.gpu_milli, each.uid) for each in now.consumers] == sorted(
        (-e.gpu_milli, e.uid) for e in now.consumers
    )
    assert all(
        (milli > 0) == (slug is not None)
        for milli, slug in zip(now.gpus.allocated_milli, now.gpus.workload, strict=True)
    )
    assert sum(node.pods for node in now.nodes) == sum(pod.node != "gone" for h in world.holders for pod in h.pods)


@given(worlds())
def test_the_hottest_gpus_are_the_highest_of_all_and_equals_stay_in_order(world: ClusterCase) -> None:
    now = painted(world)
    columns = {
        GpuMetric.UTILIZATION: now.gpus.utilization,
        GpuMetric.POWER: now.gpus.power_watts,
        GpuMetric.TEMPERATURE: now.gpus.temperature,
    }
    for metric, column in columns.items():
        every = [
            (-value, node, device)
            for value, node, device in zip(column, now.gpus.node, now.gpus.device, strict=True)
            if value is not None
        ]
        top = [(-gpu.value, gpu.node, gpu.device) for gpu in now.overview.hottest[metric]]
        assert top == sorted(every)[:100]


@given(worlds(), worlds())
def test_a_picture_that_was_mended_is_the_one_that_would_have_been_made(
    before: ClusterCase, after: ClusterCase
) -> None:
    view = LiveViewBuilder()
    view.reset(before.nodes, before.holders)
    view.set_samples(before.readings)
    shown(view)
    names = {node.name for node in after.nodes}
    nodes = [*after.nodes, *(node for node in before.nodes if node.name not in names)]
    uids = {holder.uid for holder in (*before.holders, *after.holders)}
    view.update(after.nodes, uids, after.holders)
    view.set_samples(after.readings)
    mended, made = shown(view), painted(ClusterCase(nodes, after.holders, after.readings))
    either = {name: getattr(mended.gpus, name) for name in ("workload", "idle_since", "shared")}
    made.gpus = structs.replace(made.gpus, **either)  # of several holders any may be the first
    assert mended == made


def test_a_workload_is_idle_since_all_its_gpus_are_and_after_a_while_nobody_uses_them() -> None:
    node = Node("n", 1, 1, (Device(0, "", "H100"), Device(1, "", "H100")))
    view = LiveViewBuilder()
    view.reset([node], [a_holder(1, Phase.RUNNING, [GpuAllocation("n", 0, 1000), GpuAllocation("n", 1, 1000)])])

    def idle_since(at: int, *used: float) -> int | None:
        readings = structs.replace(
            empty_samples(at, ("n",)),
            node=np.zeros(2, np.int32),
            device=np.array([0, 1], np.int16),
            utilization=np.array(used, np.float32),
            memory_used=np.zeros(2),
            memory_total=np.zeros(2),
            power=np.zeros(2, np.float32),
            temperature=np.zeros(2, np.float32),
        )
        view.set_samples(readings)
        return live_views.decode_consumers(view.build_parts(at, SOURCE)[LiveViewKind.CONSUMERS])[0].idle_since

    assert [idle_since(1, 0.0, 0.5), idle_since(2, 0.01, 0.0), idle_since(3, 0.0, math.nan)] == [None, 2, 2]
    assert [idle_since(4, 0.02, 0.0), idle_since(5, 0.0, 0.0)] == [None, 5]
    assert view.idle_milli == {}
    assert idle_since(5 + LONG_IDLE_MS, 0.0, 0.0) == 5
    assert list(view.idle_milli.values()) == [1000], "each of its GPUs counts by itself"
    assert idle_since(6 + LONG_IDLE_MS, 0.0, 0.0) == 5
    assert list(view.idle_milli.values()) == [2000]
    assert idle_since(7 + LONG_IDLE_MS, 0.5, 0.0) is None
    assert list(view.idle_milli.values()) == [1000]
    assert idle_since(8 + LONG_IDLE_MS, 0.5, 0.5) is None
    assert view.idle_milli == {}
