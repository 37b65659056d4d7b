"""Points of several sources become one series as the plain rule says, whatever they are."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.metrics.points import SourcePoints, concatenate, downsample_curves, merge_sources, to_points
from stoker.domain.metrics.training import TrainingPoint, TrainingSample

MEASURED = st.builds(
    TrainingSample,
    at=st.integers(0, 12),
    step=st.none() | st.integers(0, 3),
    metrics=st.dictionaries(
        st.sampled_from(["loss", "accuracy", "tflops"]), st.sampled_from([0.5, 1.5, 2.5]), max_size=3
    ),
)
PARTS = st.lists(
    st.builds(
        lambda source, attempt, measured: (source, attempt, measured),
        st.sampled_from("abc"),
        st.integers(1, 2),
        st.lists(MEASURED, max_size=8),
    ),
    max_size=6,
)
Said = list[tuple[str, int, list[TrainingSample]]]


def plainly(said: Said, start: int, end: int) -> list[TrainingPoint]:
    rows = [
        (attempt, name, each.step, each.at, source, value)
        for source, attempt, measured in said
        for each in measured
        for name, value in each.metrics.items()
    ]
    first: dict[tuple[int, str, int | None], tuple[int, str]] = {}
    for attempt, name, step, at, source, _ in rows:
        key = (attempt, name, step)
        first[key] = min(first.get(key, (at, source)), (at, source))
    kept = {
        (name, at, -1 if step is None else step, value)
        for attempt, name, step, at, source, value in rows
        if start <= at <= end and (step is None or first[attempt, name, step][1] == source)
    }
    return [TrainingPoint(name, value, at, None if step < 0 else step) for name, at, step, value in sorted(kept)]


@given(PARTS, st.integers(0, 12), st.integers(0, 12))
def test_of_each_step_the_first_source_of_an_attempt_counts_and_nothing_counts_twice(
    said: Said, start: int, end: int
) -> None:
    parts = [SourcePoints(source, attempt, to_points(measured)) for source, attempt, measured in said]
    assert list(merge_sources(parts, start, end).iter_points()) == plainly(said, start, end)


@given(st.lists(MEASURED, max_size=20), st.integers(0, 20))
def test_points_that_were_kept_in_two_parts_are_the_same_points(measured: list[TrainingSample], cut: int) -> None:
    whole, parts = to_points(measured), concatenate([to_points(measured[:cut]), to_points(measured[cut:])])
    assert list(whole.iter_points()) == list(parts.iter_points())


@given(st.lists(MEASURED, max_size=30), st.integers(2, 10))
def test_a_curve_keeps_its_ends_and_its_order_however_few_points_it_may_have(
    measured: list[TrainingSample], most: int
) -> None:
    found = merge_sources([SourcePoints("a", 1, to_points(measured))], 0, 100)
    rows = list(found.iter_points())
    for curve in downsample_curves(found, most):
        mine = [point for point in rows if point.metric == curve.metric]
        assert curve.count == len(mine)
        assert len(curve.points) == min(most, len(mine))
        assert (curve.points[0], curve.points[-1]) == (mine[0], mine[-1])
        assert [point for point in mine if point in curve.points][:1] == curve.points[:1]
        assert [(point.at, point.step) for point in curve.points] == sorted(
            ((point.at, point.step) for point in curve.points),
            key=lambda each: (each[0], -1 if each[1] is None else each[1]),
        )


@given(st.integers(2, 60), st.integers(2, 20))
def test_metrics_that_were_said_together_are_thinned_to_the_same_steps(said: int, most: int) -> None:
    measured = [TrainingSample(step, step, {"a": 1.0, "loss": 2.0, "tflops": 3.0}) for step in range(said)]
    found = merge_sources([SourcePoints("pod", 1, to_points(measured))], 0, said)
    assert len({tuple(point.step for point in curve.points) for curve in downsample_curves(found, most)}) == 1
