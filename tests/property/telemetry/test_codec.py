"""Whatever is measured comes back as it was, to the step it is kept in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.readings import to_real

from stoker.domain.readings import Metric
from stoker.telemetry.chunks import (
    CHUNK_GPUS,
    SCALES,
    decode_times,
    encode_hour,
    encode_tick,
    encode_times,
    join_ticks,
    pack,
    to_whole,
    unpack,
    unpack_ticks,
)


def encode_chunk(values: dict[Metric, np.ndarray]) -> bytes:
    return pack({metric: to_whole(metric, array) for metric, array in values.items()})


def decode_chunk(data: bytes) -> dict[Metric, np.ndarray]:
    return {metric: to_real(metric, array) for metric, array in unpack(data).items()}


HIGHEST = {Metric.UTILIZATION: 1.0, Metric.MEMORY_USED: 2.0**39, Metric.POWER: 20_000.0, Metric.TEMPERATURE: 150.0}
shapes = st.tuples(st.integers(1, 9), st.integers(0, 30))


@st.composite
def columns(draw: st.DrawFn) -> dict[Metric, np.ndarray]:
    shape = draw(shapes)
    measured = draw(st.sets(st.sampled_from(list(Metric)), min_size=1))
    return {
        metric: draw(
            arrays.arrays(np.float64, shape, elements=st.one_of(st.just(np.nan), st.floats(0.0, HIGHEST[metric])))
        )
        for metric in sorted(measured)
    }


def assert_same(metric: Metric, kept: np.ndarray, given: np.ndarray) -> None:
    assert kept.shape == given.shape
    half_a_step = 0.5 / SCALES[metric].steps * (1 + 1e-6) + 1e-3 * (metric is Metric.POWER)  # float32 above 16 kW
    np.testing.assert_array_equal(np.isnan(kept), np.isnan(given))
    np.testing.assert_allclose(kept, given, rtol=1e-6, atol=half_a_step)


@given(columns())
def test_a_chunk_gives_back_every_value_and_every_gap(values: dict[Metric, np.ndarray]) -> None:
    kept = decode_chunk(encode_chunk(values))
    shape = next(iter(values.values())).shape
    for metric in Metric:
        assert_same(metric, kept[metric], values.get(metric, np.full(shape, np.nan)))


@given(columns().filter(lambda values: next(iter(values.values())).shape[1] > 0))
def test_a_tick_gives_back_every_value_and_every_gap(values: dict[Metric, np.ndarray]) -> None:
    now = {metric: array[:, 0] for metric, array in values.items()}
    (stripe,) = encode_tick(now)
    kept = decode_chunk(stripe.data)
    for metric, array in now.items():
        assert_same(metric, kept[metric][:, 0], array)


@given(columns().filter(lambda values: next(iter(values.values())).shape[1] > 0))
def test_ticks_that_are_put_together_are_the_chunk_of_all_of_them(values: dict[Metric, np.ndarray]) -> None:
    ticks = next(iter(values.values())).shape[1]
    stripes = [encode_tick({metric: array[:, tick] for metric, array in values.items()}) for tick in range(ticks)]
    data = [stripe.data for (stripe,) in stripes]
    (chunk,) = join_ticks(256, data)
    together, apart = decode_chunk(encode_chunk(values)), decode_chunk(chunk.data)
    assert chunk.first_gpu == 256
    for metric, array in unpack_ticks(data).items():
        np.testing.assert_array_equal(to_real(metric, array), together[metric])
        np.testing.assert_array_equal(apart[metric], together[metric])


@given(st.lists(st.integers(0, 2**45), max_size=300))
def test_moments_come_back_exactly_whatever_lies_between_them(moments: list[int]) -> None:
    ats = np.array(sorted(moments), np.int64)
    np.testing.assert_array_equal(decode_times(encode_times(ats)), ats)


@given(st.integers(1, 3 * CHUNK_GPUS), st.integers(1, 5))
def test_the_chunks_of_an_hour_hold_every_gpu_once_and_in_order(gpus: int, ticks: int) -> None:
    power = np.arange(gpus * ticks, dtype=np.float64).reshape(gpus, ticks)
    hour = encode_hour(np.arange(ticks, dtype=np.int64), {Metric.POWER: power})
    assert [chunk.first_gpu for chunk in hour.chunks] == list(range(0, gpus, CHUNK_GPUS))
    np.testing.assert_array_equal(
        np.concatenate([decode_chunk(chunk.data)[Metric.POWER] for chunk in hour.chunks]), power
    )


def test_what_no_step_can_hold_is_kept_as_the_nearest_that_can() -> None:
    values = {Metric.UTILIZATION: np.array([9.0, -9.0, np.inf, np.nan])}
    (stripe,) = encode_tick(values)
    kept = decode_chunk(stripe.data)[Metric.UTILIZATION][:, 0]
    np.testing.assert_allclose(kept, [3.2767, -3.2767, 3.2767, np.nan], rtol=1e-6)
