"""Pod samples are stored in ticks, then in hours, and read identically from both, on both databases."""

from collections.abc import Mapping

from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.domain.clock import HOUR_MS
from stoker.domain.metrics.pod_samples import MetricValues, PodSampleBlock, PodSampleSource
from stoker.store import retention
from stoker.store.db.base import Store
from stoker.store.telemetry import pod_samples
from stoker.telemetry.tsdb.compactor import PodSampleCompactor

CLUSTER = "c"
EVER = 2**60


def keep(
    store: Store, loop_run: LoopRun, at: int, source: PodSampleSource = PodSampleSource.USAGE, **found: MetricValues
) -> None:
    keep_all(store, loop_run, at, found, source)


def keep_all(
    store: Store,
    loop_run: LoopRun,
    at: int,
    found: Mapping[str, MetricValues],
    source: PodSampleSource = PodSampleSource.USAGE,
) -> None:
    encoded = pod_samples.encode_tick(found)
    loop_run(store.write(lambda tx: pod_samples.add_tick(tx, CLUSTER, at, source, encoded)))


def read(store: Store, loop_run: LoopRun, *uids: str, start: int = 0, end: int = EVER) -> list[PodSampleBlock]:
    return loop_run(store.read(lambda tx: list(pod_samples.read_blocks(tx, CLUSTER, uids, start, end))))


def close(store: Store, loop_run: LoopRun, now: int) -> int:
    return loop_run(PodSampleCompactor(store, CLUSTER, ManualClock(now)).compact())


def rows(store: Store, loop_run: LoopRun, table: str) -> int:
    return loop_run(store.read(lambda tx: tx.fetch_all(f"SELECT COUNT(*) FROM {table}")))[0][0]  # noqa: S608 - a name of ours


def test_pods_are_read_one_after_the_other_and_sources_of_a_moment_together(store: Store, loop_run: LoopRun) -> None:
    keep(store, loop_run, 1000, a={"cpu": 1.5}, b={"cpu": 2})
    keep(store, loop_run, 1000, PodSampleSource.INFERENCE, a={"waiting": 7})
    keep(store, loop_run, 2000, a={"cpu": 3})
    assert read(store, loop_run, "b", "a", "unknown") == [
        PodSampleBlock("b", [1000], {"cpu": [2.0]}),
        PodSampleBlock("a", [1000, 2000], {"cpu": [1.5, 3.0], "waiting": [7.0, None]}),
    ]
    assert read(store, loop_run, "a", start=1001) == [PodSampleBlock("a", [2000], {"cpu": [3.0]})]
    assert read(store, loop_run, "a", end=1000) == []


def test_hours_that_are_over_read_as_their_ticks_did(store: Store, loop_run: LoopRun) -> None:
    pods = {f"pod-{number}": {"cpu": number} for number in range(300)}
    for at in (1000, 2000, HOUR_MS + 1000):
        keep_all(store, loop_run, at, pods)
    keep(store, loop_run, 3000, extra={"cpu": 1})
    before = read(store, loop_run, "pod-7")
    assert close(store, loop_run, HOUR_MS + 1) == 0
    assert close(store, loop_run, 2 * HOUR_MS) == 1
    after = read(store, loop_run, "pod-7")
    assert [(at, value) for block in before for at, value in zip(block.at, block.columns["cpu"], strict=True)] == [
        (at, value) for block in after for at, value in zip(block.at, block.columns["cpu"], strict=True)
    ]
    assert (rows(store, loop_run, "pod_sample_block"), len(after)) == (301, 2)
    assert read(store, loop_run, "pod-7", start=1500, end=2500) == [PodSampleBlock("pod-7", [2000], {"cpu": [7.0]})]


def test_a_tick_that_comes_late_joins_its_hour_and_nothing_counts_twice(store: Store, loop_run: LoopRun) -> None:
    keep(store, loop_run, 1000, a={"cpu": 1})
    close(store, loop_run, 2 * HOUR_MS)
    keep(store, loop_run, 1000, a={"cpu": 1})
    keep(store, loop_run, 2000, PodSampleSource.INFERENCE, a={"waiting": 2})
    assert [block.at for block in read(store, loop_run, "a")] == [[1000], [2000]]
    close(store, loop_run, 2 * HOUR_MS)
    assert read(store, loop_run, "a") == [
        PodSampleBlock("a", [1000, 2000], {"cpu": [1.0, None], "waiting": [None, 2.0]})
    ]
    assert rows(store, loop_run, "pod_sample_tick") == 0


def test_hours_are_forgotten_with_the_other_readings(store: Store, loop_run: LoopRun) -> None:
    for hour in range(3):
        keep(store, loop_run, hour * HOUR_MS, a={"cpu": hour})
    close(store, loop_run, 9 * HOUR_MS)
    assert loop_run(store.write(lambda tx: retention.purge(tx, "pod_sample_block", 2 * HOUR_MS))) == 2
    assert [block.at for block in read(store, loop_run, "a")] == [[2 * HOUR_MS]]


def test_what_was_last_measured_is_found_if_it_is_new_enough(store: Store, loop_run: LoopRun) -> None:
    def newest(from_at: int) -> dict[str, dict[str, float]]:
        return loop_run(store.read(lambda tx: pod_samples.latest_tick(tx, CLUSTER, PodSampleSource.USAGE, from_at)))

    keep(store, loop_run, 1000, a={"cpu": 1}, b={"cpu": 2})
    keep(store, loop_run, 2000, a={"cpu": 3}, c={"cpu": 4})
    keep(store, loop_run, 3000, PodSampleSource.INFERENCE, a={"waiting": 5})
    assert newest(0) == newest(2000) == {"a": {"cpu": 3.0}, "c": {"cpu": 4.0}}
    assert newest(2001) == {}
