"""Training points are kept in growing chunks per source and read as one series, the same on both databases."""

from collections.abc import Iterable

from tests.conftest import LoopRun

from stoker.domain.metrics.training import TrainingPoint, TrainingSample
from stoker.store import retention
from stoker.store.db.base import Store
from stoker.store.telemetry import training
from stoker.store.telemetry.training import TrainingBatch

JOB = "0f2e"
EVER = 2**60


def said(*values: tuple[int, int | None, float], metric: str = "loss") -> list[TrainingSample]:
    return [TrainingSample(at, step, {metric: value}) for at, step, value in values]


def keep(store: Store, loop_run: LoopRun, *batches: TrainingBatch, most: int = 10**6) -> None:
    loop_run(store.write(lambda tx: training.add_batches(tx, batches, most)))


def read(store: Store, loop_run: LoopRun, start: int = 0, end: int = EVER) -> list[TrainingPoint]:
    return list(loop_run(store.read(lambda tx: training.read_points(tx, JOB, start, end))).iter_points())


def chunks(store: Store, loop_run: LoopRun) -> list[tuple[str, int, int]]:
    found = loop_run(
        store.read(
            lambda tx: tx.fetch_all("SELECT pod_uid, number, points FROM training_chunk ORDER BY pod_uid, number")
        )
    )
    return [(source, number, points) for source, number, points in found]


def values(points: Iterable[TrainingPoint]) -> list[float]:
    return [point.value for point in points]


def test_points_come_back_by_metric_and_then_by_time(store: Store, loop_run: LoopRun) -> None:
    both = [
        TrainingSample(2000, 2, {"tflops": 5.0, "loss": 1.5}),
        TrainingSample(1000, 1, {"tflops": 4.0, "loss": 1.75}),
    ]
    keep(store, loop_run, TrainingBatch(JOB, "pod", 1, both, 10))
    assert read(store, loop_run) == [
        TrainingPoint("loss", 1.75, 1000, 1),
        TrainingPoint("loss", 1.5, 2000, 2),
        TrainingPoint("tflops", 4.0, 1000, 1),
        TrainingPoint("tflops", 5.0, 2000, 2),
    ]


def test_a_range_holds_both_its_ends_and_nothing_else(store: Store, loop_run: LoopRun) -> None:
    keep(
        store,
        loop_run,
        TrainingBatch(JOB, "pod", 1, said((10, 1, 1.0), (20, 2, 2.0), (30, 3, 3.0), (40, None, 4.0)), 9),
    )
    assert values(read(store, loop_run, 20, 30)) == [2.0, 3.0]
    assert values(read(store, loop_run, 41, 90)) == []
    assert read(store, loop_run, 40, 40)[0].step is None


def test_the_newest_chunk_grows_until_it_is_full(store: Store, loop_run: LoopRun) -> None:
    for first in range(0, 600, 100):
        batch = said(*((1000 + step, step, float(step)) for step in range(first, first + 100)))
        keep(store, loop_run, TrainingBatch(JOB, "pod", 1, batch, first + 100))
    assert chunks(store, loop_run) == [("pod", 0, 500), ("pod", 1, 100)]
    assert values(read(store, loop_run)) == [float(step) for step in range(600)]
    assert loop_run(store.read(lambda tx: training.parsed_position(tx, JOB, "pod"))) == 600


def test_a_new_attempt_begins_a_new_chunk(store: Store, loop_run: LoopRun) -> None:
    keep(store, loop_run, TrainingBatch(JOB, "push", 1, said((1, 1, 1.0))))
    keep(store, loop_run, TrainingBatch(JOB, "push", 2, said((2, 1, 2.0))))
    assert chunks(store, loop_run) == [("push", 0, 1), ("push", 1, 1)]
    assert values(read(store, loop_run)) == [1.0, 2.0]


def test_what_several_pods_of_an_attempt_say_of_a_step_counts_once(store: Store, loop_run: LoopRun) -> None:
    keep(
        store,
        loop_run,
        TrainingBatch(JOB, "rank0", 1, said((100, 1, 1.1), (210, 2, 1.2)), 5),
        TrainingBatch(JOB, "rank1", 1, said((110, 1, 9.1), (200, 2, 9.2), (300, 3, 9.3)), 5),
        TrainingBatch(JOB, "rank2", 1, [*said((120, 1, 7.0), metric="grad_norm"), *said((90, None, 3.0))], 5),
    )
    found = read(store, loop_run)
    assert [(point.metric, point.step, point.value) for point in found] == [
        ("grad_norm", 1, 7.0),
        ("loss", None, 3.0),
        ("loss", 1, 1.1),
        ("loss", 2, 9.2),
        ("loss", 3, 9.3),
    ]


def test_a_pod_that_only_repeats_another_is_not_seen_when_the_other_lies_before_the_range(
    store: Store, loop_run: LoopRun
) -> None:
    keep(
        store,
        loop_run,
        TrainingBatch(JOB, "rank0", 1, said((100, 1, 1.1)), 5),
        TrainingBatch(JOB, "rank1", 1, said((110, 1, 9.1)), 5),
    )
    assert read(store, loop_run, 105, 200) == []


def test_the_same_step_of_two_attempts_and_twice_from_one_pod_stays(store: Store, loop_run: LoopRun) -> None:
    keep(
        store,
        loop_run,
        TrainingBatch(JOB, "a", 1, said((1, 1, 1.0), (2, 1, 1.5)), 5),
        TrainingBatch(JOB, "b", 1, said((3, 1, 8.0)), 5),
        TrainingBatch(JOB, "c", 2, said((4, 1, 2.0)), 5),
    )
    assert values(read(store, loop_run)) == [1.0, 1.5, 2.0]


def test_of_too_many_points_the_oldest_go(store: Store, loop_run: LoopRun) -> None:
    for first in range(0, 2000, 500):
        batch = said(*((step, step, float(step)) for step in range(first, first + 500)))
        keep(store, loop_run, TrainingBatch(JOB, "pod", 1, batch, first + 1), most=1200)
    assert values(read(store, loop_run)) == [float(step) for step in range(1000, 2000)]


def test_old_points_are_forgotten_by_the_chunk(store: Store, loop_run: LoopRun) -> None:
    keep(
        store,
        loop_run,
        TrainingBatch(JOB, "a", 1, said((1, 1, 1.0)), 5),
        TrainingBatch(JOB, "b", 1, said((50, 2, 2.0)), 5),
    )
    assert loop_run(store.write(lambda tx: retention.purge(tx, "training_chunk", 50))) == 1
    assert values(read(store, loop_run)) == [2.0]
