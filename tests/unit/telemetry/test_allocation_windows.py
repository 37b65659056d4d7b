"""The time that a GPU was held, laid over the points of a range."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.metrics.series import DeviceAllocation, TimeRange
from stoker.telemetry.query.windows import coverage_by_gpu

MOMENTS = st.integers(0, 400)
SPANS = st.builds(
    lambda start, length, step: TimeRange(start * 1000, (start + length) * 1000, step * 1000),
    st.integers(0, 200),
    st.integers(0, 200),
    st.integers(1, 60),
)
HOLDINGS = st.lists(
    st.builds(
        lambda at, length: DeviceAllocation("n", 0, at * 1000, None if length is None else (at + length) * 1000),
        MOMENTS,
        st.none() | st.integers(0, 120),
    ),
    max_size=5,
)


@given(HOLDINGS, SPANS)
def test_every_second_that_was_held_counts_for_its_point_and_no_other_does(
    holdings: list[DeviceAllocation], span: TimeRange
) -> None:
    points = list(range(span.start, span.end + 1, span.step))
    seconds = {
        point: {
            at
            for at in range(point - span.step + 1000, point + 1, 1000)
            if any(one.from_at <= at and (one.to_at is None or at < one.to_at) for one in holdings)
        }
        for point in points
    }
    counted: dict[int, list[int]] = {point: [] for point in points}
    for found in coverage_by_gpu(holdings, span).values():
        for point in points:
            if found.is_full(point):
                counted[point] += range(point - span.step + 1000, point + 1, 1000)
        for piece in found.partial_windows:
            assert piece.point - span.step <= piece.start < piece.end <= piece.point
            counted[piece.point] += [at for at in seconds[piece.point] if piece.start < at <= piece.end]
            assert not found.is_full(piece.point)
    assert {point: sorted(each) for point, each in counted.items()} == {
        point: sorted(each) for point, each in seconds.items()
    }


def test_a_holding_is_cut_inwards_to_whole_seconds() -> None:
    found = coverage_by_gpu([DeviceAllocation("n", 0, 1_500, 58_900)], TimeRange(60_000, 60_000, 60_000))
    (piece,) = found[GpuId("n", 0)].partial_windows
    assert (piece.start, piece.end) == (1_999, 57_999)
