"""Lines of held GPUs against the slow way: look at every reading of every GPU and ask who held it."""

import math
from collections import defaultdict
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.series import DeviceAllocation, TimeRange
from stoker.telemetry.query.downsample import Downsampler, merge_allocations
from stoker.telemetry.tsdb.chunk_cache import MISSING
from stoker.telemetry.tsdb.codec import AGE_MS

GPUS = [("a", 0), ("a", 1), ("b", 0)]
moments = st.integers(0, 200)


@st.composite
def a_holding(draw: st.DrawFn) -> DeviceAllocation:
    node, device = draw(st.sampled_from(GPUS))
    from_at = draw(moments)
    return DeviceAllocation(node, device, from_at, draw(st.one_of(st.none(), st.integers(from_at, 220))))


def was_held(holdings: list[DeviceAllocation], gpu: tuple[str, int], at: int) -> bool:
    return any(
        (each.node, each.device) == gpu and each.from_at <= at and (each.to_at is None or at < each.to_at)
        for each in holdings
    )


@given(
    st.lists(a_holding(), max_size=8),
    st.lists(st.lists(moments, min_size=1, max_size=20, unique=True).map(sorted), max_size=3),
    st.integers(0, 100),
    st.integers(0, 150),
    st.integers(1, 40),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_point_is_the_mean_of_what_was_read_in_its_step_while_the_gpu_was_held(
    holdings: list[DeviceAllocation],
    pieces: list[list[int]],
    start: int,
    length: int,
    step: int,
    aged: bool,
    random: Random,
) -> None:
    span = TimeRange(start, start + length, step)
    means = Downsampler(holdings, [GpuMetric.POWER], span)
    rng = np.random.default_rng(random.getrandbits(32))
    expected: dict[tuple[tuple[str, int], int], list[float]] = defaultdict(list)
    for ats in pieces:
        values = rng.uniform(0, 100, (len(GPUS), len(ats))).round(1)
        values[rng.random(values.shape) < 0.3] = np.nan
        places = np.arange(len(means.intervals))
        rows = np.array([GPUS.index((each.node, each.device)) for each in means.intervals], np.intp)
        numbers = np.where(np.isnan(values), MISSING, np.nan_to_num(values) * 10).round().astype(np.int32)
        ages = rng.integers(-2, 5, values.shape).astype(np.int16) if aged else None
        worth = np.full((1, len(rows)), 0.1)
        means.add(np.array(ats), places, numbers[np.newaxis, rows], worth, None if ages is None else ages[rows])
        own = np.array(ats) - (0 if ages is None else ages.astype(np.int64) * AGE_MS) + np.zeros_like(values, np.int64)
        for gpu, row, taken in zip(GPUS, values, own.tolist(), strict=True):
            for place, (at, value) in enumerate(zip(taken, row.tolist(), strict=True)):
                if place and taken[place - 1] == at:
                    continue
                point = span.start + math.ceil((at - span.start) / step) * step
                if span.start <= point <= span.end and was_held(holdings, gpu, at) and not math.isnan(value):
                    expected[gpu, point].append(value)
    lines = means.lines()[GpuMetric.POWER]
    found = {((line.node, line.device), at): value for line in lines for value, at in line.points}
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert math.isclose(found[key], sum(values) / len(values), abs_tol=1e-3)
    assert [(line.node, line.device) for line in lines] == sorted({gpu for gpu, _ in expected})
    assert all([at for _, at in line.points] == sorted(at for _, at in line.points) for line in lines)


@given(st.lists(a_holding(), max_size=10), st.integers(0, 220))
def test_merged_holdings_hold_the_same_gpus_at_the_same_moments_and_no_gpu_twice(
    holdings: list[DeviceAllocation], at: int
) -> None:
    once = merge_allocations(holdings)
    for gpu in GPUS:
        assert was_held(holdings, gpu, at) == was_held(once, gpu, at)
        assert sum(was_held([each], gpu, at) for each in once) <= 1
