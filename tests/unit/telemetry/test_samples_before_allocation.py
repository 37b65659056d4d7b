"""A sample from before an allocation does not count for its workload anywhere."""

import numpy as np
from msgspec import structs

from stoker.domain.cluster.live_view import ClusterSummary, CollectorStatus, GpuColumns, GpuConsumer, LiveViewKind
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuSamples, empty_samples
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Kind
from stoker.store.cluster import live_views
from stoker.store.workloads.allocations import GpuAllocation, WorkloadAllocation
from stoker.telemetry.live.builder import LiveViewBuilder
from stoker.telemetry.tsdb.codec import AGE_MS, unpack_ages

GIB = 1 << 30
NODE = Node("n1", 64_000, GIB, tuple(Device(index, f"u{index}", "H100", 80 * GIB) for index in range(2)))
SOURCE = CollectorStatus("told", 0, stale=False)


def holder(slug: str, device: int, from_at: int, milli: int = 1000) -> WorkloadAllocation:
    gpus = (GpuAllocation("n1", device, milli, from_at),)
    return WorkloadAllocation(slug, slug, slug, Kind.JOB, "ml", Phase.RUNNING, (), gpus)


def reading(at: int, utilization: float, sampled_at: list[int] | None = None) -> GpuSamples:
    one = np.full(2, utilization, np.float32)
    return structs.replace(
        empty_samples(at, ("n1",)),
        node=np.zeros(2, np.int32),
        device=np.arange(2, dtype=np.int16),
        utilization=one,
        memory_used=np.full(2, 40.0 * GIB),
        memory_total=np.full(2, 80.0 * GIB),
        power=one * 700,
        temperature=one * 80,
        sampled_at=None if sampled_at is None else np.array(sampled_at, np.int64),
    )


class ShownView:
    """A view with these holders after this reading."""

    def __init__(self, read: GpuSamples, *holders: WorkloadAllocation) -> None:
        self.view = LiveViewBuilder()
        self.view.reset([NODE], holders)
        self.view.set_samples(read, read.at)
        parts = self.view.build_parts(read.at, SOURCE)
        self.overview: ClusterSummary = live_views.decode_overview(parts[LiveViewKind.OVERVIEW])
        self.consumers: dict[str, GpuConsumer] = {
            each.slug: each for each in live_views.decode_consumers(parts[LiveViewKind.CONSUMERS])
        }
        self.gpus: GpuColumns = live_views.decode_gpus(parts[LiveViewKind.GPUS])


def test_a_new_holder_shows_nothing_of_the_scrape_before_it() -> None:
    shown = ShownView(reading(60_000, 0.9, [30_000, 60_000]), holder("old", 1, 0), holder("new", 0, 45_000))
    new, old = shown.consumers["new"], shown.consumers["old"]
    assert (new.utilization, new.memory, new.power_watts) == (None, None, None)
    assert (old.utilization, old.memory, old.power_watts) == (0.9, 0.5, 630.0)
    assert (shown.overview.allocated_gpus, shown.overview.measured_gpus) == (2, 1)
    assert shown.view.peak_utilization(["ml"]) == {"new": None, "old": 0.9}
    assert shown.gpus.utilization == [None, 0.9]
    assert shown.gpus.memory_used_bytes == [None, 40 * GIB]


def test_the_first_scrape_after_it_began_is_its_own() -> None:
    shown = ShownView(reading(60_000, 0.9, [45_000, 60_000]), holder("new", 0, 45_000))
    assert shown.consumers["new"].utilization == 0.9
    assert shown.gpus.utilization == [0.9, 0.9], "nobody holds the other: what it shows is nobody else's"


def test_a_driver_is_read_when_it_says() -> None:
    assert ShownView(reading(60_000, 0.9), holder("new", 0, 60_001)).consumers["new"].utilization is None
    assert ShownView(reading(60_000, 0.9), holder("new", 0, 60_000)).consumers["new"].utilization == 0.9


def test_nobody_is_idle_by_what_was_measured_before() -> None:
    shown = ShownView(reading(60_000, 0.0, [30_000, 60_000]), holder("old", 1, 0), holder("new", 0, 45_000))
    assert shown.consumers["new"].idle_since is None
    assert shown.consumers["old"].idle_since == 60_000
    assert shown.gpus.idle_since == [None, 60_000]


def test_of_two_that_share_a_gpu_only_who_had_it_then_shows_it() -> None:
    shown = ShownView(reading(60_000, 0.9, [30_000, 30_000]), holder("old", 0, 0, 500), holder("new", 0, 45_000, 500))
    assert [shown.consumers[slug].utilization for slug in ("old", "new")] == [0.9, None]
    assert shown.gpus.utilization[0] == 0.9


def test_a_tick_keeps_how_old_its_samples_are() -> None:
    view = LiveViewBuilder()
    view.reset([NODE], [])
    view.set_samples(reading(60_012, 0.5, [30_250, 60_000]), 60_000)
    (stripe,) = view.tick
    ages = unpack_ages(stripe.data)
    assert ages is not None
    assert (ages[:, 0].astype(int) * AGE_MS).tolist() == [29_800, 0]


def test_a_tick_whose_samples_are_of_its_slot_keeps_no_ages() -> None:
    view = LiveViewBuilder()
    view.reset([NODE], [])
    view.set_samples(reading(60_012, 0.5), 60_000)
    (stripe,) = view.tick
    assert unpack_ages(stripe.data) is None
