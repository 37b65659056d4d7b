"""Since when GPUs are idle: in whose hands, over what gaps, and after a start."""

import math

import numpy as np
from msgspec import structs

from stoker.domain.live import GpuColumns, Part, SourceState
from stoker.domain.node import Device, Node
from stoker.domain.readings import Readings, no_gpus
from stoker.domain.workload import Phase
from stoker.store import live_views
from stoker.store.holders import HeldGpu, Holder
from stoker.telemetry.idleness import UNSEEN_MS, published
from stoker.telemetry.view import LiveView

SOURCE = SourceState("simulated", 1, stale=False)


def node(name: str = "n", gpus: int = 3) -> Node:
    return Node(name, 1, 1, tuple(Device(number, "", "H100") for number in range(gpus)))


def holder(slug: str, *devices: int, phase: Phase = Phase.RUNNING) -> Holder:
    return Holder(f"uid-{slug}", slug, slug, "Job", "ml", phase, (), [HeldGpu("n", device, 1000) for device in devices])


def readings(at: int, *used: float) -> Readings:
    return structs.replace(
        no_gpus(at, ("n",)),
        node=np.zeros(len(used), np.int32),
        device=np.arange(len(used), dtype=np.int16),
        utilization=np.array(used, np.float32),
        memory_used=np.zeros(len(used)),
        memory_total=np.zeros(len(used)),
        power=np.zeros(len(used), np.float32),
        temperature=np.zeros(len(used), np.float32),
    )


class Watch:
    """A view of three GPUs, of which `a` holds the first two."""

    def __init__(self, *holders: Holder, view: LiveView | None = None) -> None:
        self.view = view or LiveView(0.01)
        self.view.replace([node()], holders or [holder("a", 0, 1)])

    def columns(self, at: int) -> GpuColumns:
        return live_views.decode_gpus(self.view.parts(at, SOURCE)[Part.GPUS])

    def seen(self, at: int, *used: float) -> list[int | None]:
        self.view.read(readings(at, *used))
        return self.columns(at).idle_since


def test_a_gpu_is_idle_since_it_is_not_used_more_than_the_threshold() -> None:
    watch = Watch()
    assert watch.seen(10, 0.5, 0.01, 0.0) == [None, 10, None]
    assert watch.seen(20, 0.0, 0.005, 0.0) == [20, 10, None]
    assert watch.seen(30, 0.0, 0.02, 0.0) == [20, None, None]
    assert watch.seen(40, 0.0, 0.0, 0.0) == [20, 40, None]


def test_a_gpu_that_changes_hands_begins_anew() -> None:
    watch = Watch()
    watch.seen(10, 0.0, 0.0, 0.0)
    watch.view.change([], ["uid-a", "uid-b"], [holder("a", 0), holder("b", 1)])
    assert watch.columns(20).idle_since == [10, 20, None]
    watch.view.change([], ["uid-b"], [])
    assert watch.columns(30).idle_since == [10, None, None]


def test_what_has_not_begun_to_work_is_not_idle() -> None:
    assert Watch(holder("a", 0, phase=Phase.INITIALIZING)).seen(10, 0.0, 0.0, 0.0) == [None, None, None]


def test_a_missing_reading_says_nothing() -> None:
    watch = Watch()
    watch.seen(10, 0.0, 0.0, 0.0)
    assert watch.seen(20, math.nan, 0.0, 0.0) == [None, 10, None]
    assert watch.seen(30, 0.0, 0.0, 0.0) == [10, 10, None]


def test_what_nobody_looked_at_for_long_is_not_known() -> None:
    watch = Watch()
    watch.seen(10, 0.0, 0.0, 0.0)
    watch.view.read(None)
    assert watch.columns(20).idle_since == [None, None, None]
    assert watch.seen(10 + UNSEEN_MS, 0.0, 0.0, 0.0) == [10, 10, None]
    watch.view.read(None)
    watch.columns(20 + 2 * UNSEEN_MS)
    late = 30 + 2 * UNSEEN_MS
    assert watch.seen(late, 0.0, 0.0, 0.0) == [late, late, None]


def test_gpus_that_stay_keep_it_when_others_come_and_go() -> None:
    watch = Watch()
    watch.seen(10, 0.0, 0.5, 0.0)
    watch.view.change([node("m", 2)], [], [])
    columns = watch.columns(20)
    assert dict(zip(zip(columns.node, columns.device, strict=True), columns.idle_since, strict=True)) == {
        ("m", 0): None,
        ("m", 1): None,
        ("n", 0): 10,
        ("n", 1): None,
        ("n", 2): None,
    }


def test_a_start_goes_on_from_what_was_published() -> None:
    before = Watch()
    before.seen(10, 0.0, 0.0, 0.0)
    shown = before.columns(20)
    view = LiveView(0.01)
    view.idleness.restore(published(shown), 20)
    after = Watch(holder("a", 0), holder("b", 1), view=view)
    assert after.columns(30).idle_since == [None, None, None]  # nothing is read yet
    assert after.seen(40, 0.0, 0.0, 0.0) == [10, 40, None]


def test_a_start_after_a_long_time_begins_anew() -> None:
    before = Watch()
    before.seen(10, 0.0, 0.0, 0.0)
    view = LiveView(0.01)
    view.idleness.restore(published(before.columns(20)), 20)
    late = 21 + UNSEEN_MS
    assert Watch(view=view).seen(late, 0.0, 0.0, 0.0) == [late, late, None]


def test_a_gpu_that_two_share_is_idle_in_the_hands_of_each_by_itself() -> None:
    half = [HeldGpu("n", 0, 500)]
    one, other = (structs.replace(holder(slug), gpus=half) for slug in ("a", "b"))
    watch = Watch(one)
    assert watch.seen(10, 0.0, 0.0, 0.0) == [10, None, None]
    watch.view.change([], ["uid-b"], [other])
    shown = watch.columns(20)
    assert (shown.workload[0], shown.idle_since[0], shown.shared) == ("a", 10, [(0, "b", 500, 20)])
    view = LiveView(0.01)
    view.idleness.restore(published(shown), 20)
    after = Watch(one, other, view=view)
    assert (after.seen(30, 0.0, 0.0, 0.0)[0], after.columns(30).shared) == (10, [(0, "b", 500, 20)])
    after.view.change([], ["uid-a"], [])
    assert (after.columns(40).workload[0], after.columns(40).idle_since[0]) == ("b", 20)
