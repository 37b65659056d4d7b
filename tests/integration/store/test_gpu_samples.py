"""Ticks, segments and live views on both databases."""

from tests.conftest import LoopRun

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import LiveViewKind
from stoker.store.cluster import clusters, live_views
from stoker.store.db.base import Store
from stoker.store.telemetry import gpu_samples
from stoker.store.telemetry.gpu_samples import EncodedBlock, SampleChunk, Tick

HOUR = 3_600_000
PACKED = EncodedBlock(2, b"times", 128, [SampleChunk(0, 128, b"first"), SampleChunk(128, 3, b"second")])


def add_cluster(store: Store, loop_run: LoopRun) -> None:
    loop_run(store.write(lambda tx: clusters.add(tx, Cluster("c", "local", "local", "", 0))))


def test_the_same_gpus_have_the_same_roster_also_after_others(store: Store, loop_run: LoopRun) -> None:
    add_cluster(store, loop_run)
    numbers = [
        loop_run(store.write(lambda tx, b=body: gpu_samples.get_or_add_device_index(tx, "c", b, 1, 0)))
        for body in (b"a", b"b", b"a")
    ]
    assert numbers[0] == numbers[2] != numbers[1]
    assert loop_run(store.read(lambda tx: gpu_samples.read_device_index(tx, numbers[1]))) == b"b"


def test_a_tick_that_is_written_twice_is_there_once(store: Store, loop_run: LoopRun) -> None:
    for data in (b"first", b"again"):
        loop_run(store.write(lambda tx, d=data: gpu_samples.add_tick(tx, "c", 15_000, 1, [SampleChunk(0, 1, d)])))
    loop_run(store.write(lambda tx: gpu_samples.add_tick(tx, "other", 15_000, 1, [SampleChunk(0, 1, b"")])))
    assert loop_run(store.read(lambda tx: gpu_samples.list_ticks(tx, "c", 0, HOUR))) == [Tick(15_000, 1)]
    assert loop_run(store.read(lambda tx: gpu_samples.list_ticks(tx, "c", 0, 15_000))) == []
    assert loop_run(store.read(lambda tx: gpu_samples.read_stripes(tx, "c", 0, 0, HOUR))) == [(15_000, b"first")]


def test_what_a_dropped_tick_held_is_swept_and_can_be_written_again(store: Store, loop_run: LoopRun) -> None:
    for at in (1, 2, 3):
        loop_run(store.write(lambda tx, at=at: gpu_samples.add_tick(tx, "c", at, 1, [SampleChunk(0, 1, b"old")])))
    loop_run(store.write(lambda tx: gpu_samples.delete_ticks(tx, "c", [1, 2])))
    loop_run(store.write(lambda tx: gpu_samples.add_tick(tx, "c", 2, 1, [SampleChunk(0, 1, b"new")])))
    assert loop_run(store.write(lambda tx: gpu_samples.delete_stale_stripes(tx, "c"))) == 1
    assert loop_run(store.read(lambda tx: gpu_samples.read_stripes(tx, "c", 0, 0, 9))) == [(2, b"new"), (3, b"old")]
    assert loop_run(store.read(lambda tx: gpu_samples.oldest_tick_at(tx, "c"))) == 2


def test_a_segment_counts_once_it_is_sealed(store: Store, loop_run: LoopRun) -> None:
    number = loop_run(store.write(lambda tx: gpu_samples.begin_block(tx, "c", HOUR, 1, PACKED)))
    loop_run(store.write(lambda tx: gpu_samples.add_chunks_to_block(tx, number, PACKED.chunks)))
    assert loop_run(store.read(lambda tx: gpu_samples.sealed_blocks(tx, "c", 0, 9 * HOUR))) == []
    loop_run(store.write(lambda tx: gpu_samples.seal_block(tx, number, 7)))
    (segment,) = loop_run(store.read(lambda tx: gpu_samples.sealed_blocks(tx, "c", HOUR, HOUR + 1)))
    assert (segment.ticks, segment.times, segment.sealed_at) == (2, b"times", 7)
    assert loop_run(store.read(lambda tx: gpu_samples.read_chunks(tx, number))) == PACKED.chunks
    assert loop_run(store.read(lambda tx: gpu_samples.read_chunks(tx, number, 128, 129))) == [PACKED.chunks[1]]


def test_a_segment_whose_writing_was_cut_short_goes_with_its_chunks(store: Store, loop_run: LoopRun) -> None:
    loop_run(store.write(lambda tx: gpu_samples.add_block(tx, "c", 0, 1, PACKED, 5)))
    number = loop_run(store.write(lambda tx: gpu_samples.begin_block(tx, "c", HOUR, 1, PACKED)))
    loop_run(store.write(lambda tx: gpu_samples.add_chunks_to_block(tx, number, PACKED.chunks)))
    loop_run(store.write(lambda tx: gpu_samples.delete_unsealed_blocks(tx, "c")))
    assert loop_run(store.read(lambda tx: gpu_samples.read_chunks(tx, number))) == []
    assert len(loop_run(store.read(lambda tx: gpu_samples.sealed_blocks(tx, "c", 0, 9 * HOUR)))) == 1


def test_each_part_of_a_live_view_has_a_version_of_its_own(store: Store, loop_run: LoopRun) -> None:
    def versions() -> list[int]:
        return [loop_run(store.read_inline(lambda tx, p=part: live_views.version(tx, "c", p))) for part in LiveViewKind]

    assert versions() == [0, 0, 0, 0]
    loop_run(store.write(lambda tx: live_views.publish(tx, "c", 1, dict.fromkeys(LiveViewKind, b"one"))))
    loop_run(store.write(lambda tx: live_views.publish(tx, "c", 2, {LiveViewKind.NODES: b"two"})))
    assert versions() == [1, 1, 2, 1]
    view = loop_run(store.read_inline(lambda tx: live_views.read(tx, "c", LiveViewKind.NODES)))
    assert view == live_views.LiveViewRow(2, 2, b"two")
    assert loop_run(store.read_inline(lambda tx: live_views.read(tx, "other", LiveViewKind.NODES))) is None
