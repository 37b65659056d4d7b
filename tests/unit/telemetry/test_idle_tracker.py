"""Since when GPUs are idle: in whose hands, over what gaps, and after a start."""

import math

import numpy as np
import pytest
from msgspec import structs

from stoker.domain.cluster.live_view import CollectorStatus, GpuColumns, LiveViewKind
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.sample_age import MAX_SAMPLE_GAP_MS
from stoker.domain.cluster.samples import GpuSamples, RdmaSample, empty_samples, encode_uuids
from stoker.domain.workload.phase import Phase
from stoker.store.cluster import live_views
from stoker.store.workloads.allocations import GpuAllocation, WorkloadAllocation
from stoker.telemetry.idle.tracker import idle_gpus_from_view
from stoker.telemetry.live.builder import LiveViewBuilder

SOURCE = CollectorStatus("simulated", 1, stale=False)


def node(name: str = "n", gpus: int = 3) -> Node:
    return Node(name, 1, 1, tuple(Device(number, "", "H100") for number in range(gpus)))


def holder(slug: str, *devices: int, phase: Phase = Phase.RUNNING) -> WorkloadAllocation:
    return WorkloadAllocation(
        f"uid-{slug}", slug, slug, "Job", "ml", phase, (), [GpuAllocation("n", device, 1000) for device in devices]
    )


def readings(at: int, *used: float) -> GpuSamples:
    return structs.replace(
        empty_samples(at, ("n",)),
        node=np.zeros(len(used), np.int32),
        device=np.arange(len(used), dtype=np.int16),
        utilization=np.array(used, np.float32),
        memory_used=np.zeros(len(used)),
        memory_total=np.zeros(len(used)),
        power=np.zeros(len(used), np.float32),
        temperature=np.zeros(len(used), np.float32),
    )


class TrackedView:
    """A view of three GPUs, of which `a` holds the first two."""

    def __init__(self, *holders: WorkloadAllocation, view: LiveViewBuilder | None = None) -> None:
        self.view = view or LiveViewBuilder(1.0)
        self.view.reset([node()], holders or [holder("a", 0, 1)])

    def columns(self, at: int) -> GpuColumns:
        return live_views.decode_gpus(self.view.build_parts(at, SOURCE)[LiveViewKind.GPUS])

    def seen(self, at: int, *used: float) -> list[int | None]:
        self.view.set_samples(readings(at, *used))
        return self.columns(at).idle_since


def test_a_gpu_is_idle_since_it_is_not_used_more_than_the_threshold() -> None:
    watch = TrackedView()
    assert watch.seen(10, 0.5, 0.01, 0.0) == [None, 10, None]
    assert watch.seen(20, 0.0, 0.005, 0.0) == [20, 10, None]
    assert watch.seen(30, 0.0, 0.02, 0.0) == [20, None, None]
    assert watch.seen(40, 0.0, 0.0, 0.0) == [20, 40, None]


@pytest.mark.parametrize("percent", [0.07, 0.7, 7, 14, 28, 55, 56])
def test_a_gpu_is_idle_up_to_the_threshold_itself_and_not_one_step_above_it(percent: float) -> None:
    watch = TrackedView(holder("a", 0), holder("b", 1), view=LiveViewBuilder(percent))
    steps = round(percent * 100)
    assert watch.seen(10, steps / 10_000, (steps + 1) / 10_000, 0.0) == [10, None, None]
    found = live_views.decode_consumers(watch.view.build_parts(10, SOURCE)[LiveViewKind.CONSUMERS])
    assert {each.slug: each.idle_since for each in found} == {"a": 10, "b": None}


def test_what_goes_through_rdma_ports_is_shown_of_each_node_and_of_all() -> None:
    watch = TrackedView()
    watch.view.reset([node("n"), node("m"), node("none")], [])
    ports = (
        RdmaSample("n", 8, 8, 400, 1000.4, 10.0),
        RdmaSample("m", 8, 7, 400, 500.4, 20.0),
        RdmaSample("gone", 1, 1, 400, 1.0, 1.0),
    )
    watch.view.set_samples(structs.replace(readings(10, 0.0), rdma=ports))
    parts = watch.view.build_parts(10, SOURCE)
    seen = live_views.decode_overview(parts[LiveViewKind.OVERVIEW])
    assert (seen.rdma_received_bytes_per_second, seen.rdma_sent_bytes_per_second) == (1502, 31)
    rates = {
        each.name: (each.rdma_received_bytes_per_second, each.rdma_sent_bytes_per_second)
        for each in live_views.decode_nodes(parts[LiveViewKind.NODES])
    }
    assert rates == {"n": (1000, 10), "m": (500, 20), "none": (None, None)}


def test_a_gpu_that_changes_hands_begins_anew() -> None:
    watch = TrackedView()
    watch.seen(10, 0.0, 0.0, 0.0)
    watch.view.update([], ["uid-a", "uid-b"], [holder("a", 0), holder("b", 1)])
    assert watch.columns(20).idle_since == [10, 20, None]
    watch.view.update([], ["uid-b"], [])
    assert watch.columns(30).idle_since == [10, None, None]


def test_what_has_not_begun_to_work_is_not_idle() -> None:
    assert TrackedView(holder("a", 0, phase=Phase.INITIALIZING)).seen(10, 0.0, 0.0, 0.0) == [None, None, None]


def test_a_missing_reading_says_nothing() -> None:
    watch = TrackedView()
    watch.seen(10, 0.0, 0.0, 0.0)
    assert watch.seen(20, math.nan, 0.0, 0.0) == [None, 10, None]
    assert watch.seen(30, 0.0, 0.0, 0.0) == [10, 10, None]


def test_what_nobody_looked_at_for_long_is_not_known() -> None:
    watch = TrackedView()
    watch.seen(10, 0.0, 0.0, 0.0)
    watch.view.set_samples(None)
    assert watch.columns(20).idle_since == [None, None, None]
    assert watch.seen(10 + MAX_SAMPLE_GAP_MS, 0.0, 0.0, 0.0) == [10, 10, None]
    watch.view.set_samples(None)
    watch.columns(20 + 2 * MAX_SAMPLE_GAP_MS)
    late = 30 + 2 * MAX_SAMPLE_GAP_MS
    assert watch.seen(late, 0.0, 0.0, 0.0) == [late, late, None]


def test_gpus_that_stay_keep_it_when_others_come_and_go() -> None:
    watch = TrackedView()
    watch.seen(10, 0.0, 0.5, 0.0)
    watch.view.update([node("m", 2)], [], [])
    columns = watch.columns(20)
    assert dict(zip(zip(columns.node, columns.device, strict=True), columns.idle_since, strict=True)) == {
        ("m", 0): None,
        ("m", 1): None,
        ("n", 0): 10,
        ("n", 1): None,
        ("n", 2): None,
    }


def test_a_start_goes_on_from_what_was_published() -> None:
    before = TrackedView()
    before.seen(10, 0.0, 0.0, 0.0)
    shown = before.columns(20)
    view = LiveViewBuilder(1.0)
    view.idle_tracker.restore(idle_gpus_from_view(shown), 20)
    after = TrackedView(holder("a", 0), holder("b", 1), view=view)
    assert after.columns(30).idle_since == [None, None, None]  # nothing is read yet
    assert after.seen(40, 0.0, 0.0, 0.0) == [10, 40, None]


def test_a_start_after_a_long_time_begins_anew() -> None:
    before = TrackedView()
    before.seen(10, 0.0, 0.0, 0.0)
    view = LiveViewBuilder(1.0)
    view.idle_tracker.restore(idle_gpus_from_view(before.columns(20)), 20)
    late = 21 + MAX_SAMPLE_GAP_MS
    assert TrackedView(view=view).seen(late, 0.0, 0.0, 0.0) == [late, late, None]


def test_a_gpu_that_two_share_is_idle_in_the_hands_of_each_by_itself() -> None:
    half = [GpuAllocation("n", 0, 500)]
    one, other = (structs.replace(holder(slug), gpus=half) for slug in ("a", "b"))
    watch = TrackedView(one)
    assert watch.seen(10, 0.0, 0.0, 0.0) == [10, None, None]
    watch.view.update([], ["uid-b"], [other])
    shown = watch.columns(20)
    assert (shown.workload[0], shown.idle_since[0], shown.shared) == ("a", 10, [(0, "b", 500, 20)])
    view = LiveViewBuilder(1.0)
    view.idle_tracker.restore(idle_gpus_from_view(shown), 20)
    after = TrackedView(one, other, view=view)
    assert (after.seen(30, 0.0, 0.0, 0.0)[0], after.columns(30).shared) == (10, [(0, "b", 500, 20)])
    after.view.update([], ["uid-a"], [])
    assert (after.columns(40).workload[0], after.columns(40).idle_since[0]) == ("b", 20)


def cards(name: str, *uuids: str) -> Node:
    return Node(name, 1, 1, tuple(Device(index, uuid, "H100") for index, uuid in enumerate(uuids)))


def card_samples(at: int, **utilization: float) -> GpuSamples:
    """Samples that are told apart by their UUIDs alone: every one says that it is of a place that does not exist."""
    count = len(utilization)
    samples = readings(at, *utilization.values())
    return structs.replace(samples, device=np.full(count, 99, np.int16), uuid=encode_uuids(utilization))


def card_holder(slug: str, node_name: str, device: int | None, uuid: str) -> WorkloadAllocation:
    gpu = GpuAllocation(node_name, device, 1000, uuid=uuid)
    return WorkloadAllocation(f"uid-{slug}", slug, slug, "Job", "ml", Phase.RUNNING, (), [gpu])


def idle_by_uuid(view: LiveViewBuilder, at: int) -> dict[str, int | None]:
    columns = live_views.decode_gpus(view.build_parts(at, SOURCE)[LiveViewKind.GPUS])
    return dict(zip(columns.uuid, columns.idle_since, strict=True))


def test_idle_times_stay_with_renumbered_and_moved_gpus() -> None:
    view = LiveViewBuilder(1.0)
    view.reset([cards("n", "x", "y"), cards("m", "z")], [card_holder("a", "n", 0, "x"), card_holder("b", "n", 1, "y")])
    view.set_samples(card_samples(10, x=0.0, y=0.9, z=0.0))
    assert idle_by_uuid(view, 10) == {"x": 10, "y": None, "z": None}
    view.update([cards("n", "y", "x")], [], [])
    view.set_samples(card_samples(20, x=0.0, y=0.0, z=0.0))
    assert idle_by_uuid(view, 20) == {"x": 10, "y": 20, "z": None}
    view.update([cards("n", "y"), cards("m", "z", "x")], [], [])
    view.set_samples(card_samples(30, x=0.0, y=0.0, z=0.0))
    assert idle_by_uuid(view, 30) == {"x": 10, "y": 20, "z": None}


def test_idle_times_of_a_published_view_are_restored_after_the_gpus_were_renumbered() -> None:
    holders = [card_holder("a", "n", 0, "x"), card_holder("b", "n", 1, "y")]
    before, after = LiveViewBuilder(1.0), LiveViewBuilder(1.0)
    before.reset([cards("n", "x", "y")], holders)
    before.set_samples(card_samples(10, x=0.0, y=0.9))
    columns = live_views.decode_gpus(before.build_parts(10, SOURCE)[LiveViewKind.GPUS])
    after.idle_tracker.restore(idle_gpus_from_view(columns), 10)
    after.reset([cards("n", "y", "x")], holders)
    after.set_samples(card_samples(20, x=0.0, y=0.0))
    assert idle_by_uuid(after, 20) == {"x": 10, "y": 20}


def test_an_allocation_of_an_unknown_gpu_counts_only_in_the_total() -> None:
    view = LiveViewBuilder(1.0)
    view.reset([cards("n", "x")], [card_holder("a", "n", None, "")])
    view.set_samples(card_samples(10, x=0.0))
    parts = view.build_parts(10, SOURCE)
    assert live_views.decode_gpus(parts[LiveViewKind.GPUS]).workload == [None]
    (consumer,) = live_views.decode_consumers(parts[LiveViewKind.CONSUMERS])
    assert (consumer.gpu_milli, consumer.utilization) == (1000, None)
