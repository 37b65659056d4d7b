"""Decoding returns the encoded values, rounded to their quantization step."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.gpu_samples import to_real

from stoker.domain.cluster.samples import GpuMetric
from stoker.telemetry.tsdb.codec import (
    AGE_MS,
    CHUNK_GPUS,
    QUANTIZATIONS,
    decode_times,
    encode_hour,
    encode_tick,
    encode_times,
    merge_ticks,
    pack,
    pack_tick,
    quantize,
    quantize_ages,
    unpack,
    unpack_ages,
    unpack_tick_ages,
    unpack_ticks,
)


def encode_chunk(values: dict[GpuMetric, np.ndarray]) -> bytes:
    return pack({metric: quantize(metric, array) for metric, array in values.items()})


def decode_chunk(data: bytes) -> dict[GpuMetric, np.ndarray]:
    return {metric: to_real(metric, array) for metric, array in unpack(data).items()}


HIGHEST = {
    GpuMetric.UTILIZATION: 1.0,
    GpuMetric.MEMORY_USED: 2.0**39,
    GpuMetric.POWER: 20_000.0,
    GpuMetric.TEMPERATURE: 150.0,
}
shapes = st.tuples(st.integers(1, 9), st.integers(0, 30))


@st.composite
def columns(draw: st.DrawFn) -> dict[GpuMetric, np.ndarray]:
    shape = draw(shapes)
    measured = draw(st.sets(st.sampled_from(list(GpuMetric)), min_size=1))
    return {
        metric: draw(
            arrays.arrays(np.float64, shape, elements=st.one_of(st.just(np.nan), st.floats(0.0, HIGHEST[metric])))
        )
        for metric in sorted(measured)
    }


def assert_same(metric: GpuMetric, kept: np.ndarray, given: np.ndarray) -> None:
    assert kept.shape == given.shape
    half_a_step = 0.5 / QUANTIZATIONS[metric].steps_per_unit * (1 + 1e-6) + 1e-3 * (
        metric is GpuMetric.POWER
    )  # float32 above 16 kW
    np.testing.assert_array_equal(np.isnan(kept), np.isnan(given))
    np.testing.assert_allclose(kept, given, rtol=1e-6, atol=half_a_step)


@given(columns())
def test_a_chunk_gives_back_every_value_and_every_gap(values: dict[GpuMetric, np.ndarray]) -> None:
    kept = decode_chunk(encode_chunk(values))
    shape = next(iter(values.values())).shape
    for metric in GpuMetric:
        assert_same(metric, kept[metric], values.get(metric, np.full(shape, np.nan)))


@given(columns().filter(lambda values: next(iter(values.values())).shape[1] > 0))
def test_a_tick_gives_back_every_value_and_every_gap(values: dict[GpuMetric, np.ndarray]) -> None:
    now = {metric: array[:, 0] for metric, array in values.items()}
    (stripe,) = encode_tick(now)
    kept = decode_chunk(stripe.data)
    for metric, array in now.items():
        assert_same(metric, kept[metric][:, 0], array)


@given(columns().filter(lambda values: next(iter(values.values())).shape[1] > 0))
def test_ticks_that_are_put_together_are_the_chunk_of_all_of_them(values: dict[GpuMetric, np.ndarray]) -> None:
    ticks = next(iter(values.values())).shape[1]
    stripes = [encode_tick({metric: array[:, tick] for metric, array in values.items()}) for tick in range(ticks)]
    data = [stripe.data for (stripe,) in stripes]
    (chunk,) = merge_ticks(256, data)
    together, apart = decode_chunk(encode_chunk(values)), decode_chunk(chunk.data)
    assert chunk.first_gpu == 256
    for metric, array in unpack_ticks(data).items():
        np.testing.assert_array_equal(to_real(metric, array), together[metric])
        np.testing.assert_array_equal(apart[metric], together[metric])


@given(st.lists(st.lists(st.integers(-60_000, 300_000), min_size=3, max_size=3), min_size=1, max_size=5))
def test_ages_come_back_rounded_up_also_from_ticks_that_are_put_together(milliseconds: list[list[int]]) -> None:
    given = np.array(milliseconds, np.int64)
    steps = {GpuMetric.POWER: quantize(GpuMetric.POWER, np.ones(3))}
    data = [pack_tick(steps, quantize_ages(ages))[0].data for ages in given]
    (chunk,) = merge_ticks(0, data)
    for found in (unpack_tick_ages(data), unpack_ages(chunk.data)):
        kept = np.zeros_like(given.T) if found is None else found.astype(np.int64) * AGE_MS
        assert ((kept >= given.T) & (kept - given.T < AGE_MS)).all()


@given(st.lists(st.integers(0, 2**45), max_size=300))
def test_moments_come_back_exactly_whatever_lies_between_them(moments: list[int]) -> None:
    ats = np.array(sorted(moments), np.int64)
    np.testing.assert_array_equal(decode_times(encode_times(ats)), ats)


@given(st.integers(1, 3 * CHUNK_GPUS), st.integers(1, 5))
def test_the_chunks_of_an_hour_hold_every_gpu_once_and_in_order(gpus: int, ticks: int) -> None:
    power = np.arange(gpus * ticks, dtype=np.float64).reshape(gpus, ticks)
    hour = encode_hour(np.arange(ticks, dtype=np.int64), {GpuMetric.POWER: power})
    assert [chunk.first_gpu for chunk in hour.chunks] == list(range(0, gpus, CHUNK_GPUS))
    np.testing.assert_array_equal(
        np.concatenate([decode_chunk(chunk.data)[GpuMetric.POWER] for chunk in hour.chunks]), power
    )


def test_what_no_step_can_hold_is_kept_as_the_nearest_that_can() -> None:
    values = {GpuMetric.UTILIZATION: np.array([9.0, -9.0, np.inf, np.nan])}
    (stripe,) = encode_tick(values)
    kept = decode_chunk(stripe.data)[GpuMetric.UTILIZATION][:, 0]
    np.testing.assert_allclose(kept, [3.2767, -3.2767, 3.2767, np.nan], rtol=1e-6)
