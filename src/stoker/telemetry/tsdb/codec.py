"""Encodes GPU samples: quantized to integers, one compressed column per metric.

Decoding returns the encoded values, rounded to their quantization step; a missing value stays missing. Columns are
delta-encoded along time and their bytes shuffled by significance, because that compresses well. Each column stores its
quantization, so that data written with another one stays readable.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from zstandard import ZstdCompressor, ZstdDecompressor

from stoker.domain.cluster.quantity import MIB
from stoker.domain.cluster.samples import GpuMetric
from stoker.store.db.blob_format import add_version, strip_version
from stoker.store.telemetry.gpu_samples import EncodedBlock, SampleChunk

CHUNK_GPUS = 128
"""GPUs per chunk of a sealed block: few enough that reading one GPU is quick."""
STRIPE_GPUS = 1024
"""GPUs per stripe of a tick; a multiple of `CHUNK_GPUS`."""
ZSTD_LEVEL = 1
FORMAT_VERSION = 1
"""The version of encoded chunks, stripes and times."""

FORMAT_NAME = "readings of GPUs"

QuantizedArray = NDArray[np.signedinteger]
"""Quantized values."""
Ages = NDArray[np.int16]
"""By how much samples are older than their tick, in units of `AGE_MS`; negative if they were taken after it."""
AGE_MS = 100

Columns = Mapping[GpuMetric, NDArray[np.floating]]
"""For each metric an array [gpu, tick], or [gpu] for one tick; NaN where there is no sample."""


class Quantization(Struct, frozen=True):
    """The steps per unit of a metric, and the integer type; its lowest value means missing."""

    steps_per_unit: float
    dtype: np.dtype

    @property
    def missing(self) -> int:
        return int(np.iinfo(self.dtype).min)


QUANTIZATIONS = {
    GpuMetric.UTILIZATION: Quantization(10_000, np.dtype(np.int16)),
    GpuMetric.MEMORY_USED: Quantization(1 / MIB, np.dtype(np.int32)),
    GpuMetric.POWER: Quantization(10, np.dtype(np.int32)),
    GpuMetric.TEMPERATURE: Quantization(10, np.dtype(np.int16)),
}


AGE_QUANTIZATION = Quantization(1000 / AGE_MS, np.dtype(np.int16))


class _Column(Struct, frozen=True, array_like=True):
    """A compressed column of integers of `width` bytes, with `steps` per unit."""

    steps: float
    width: int
    data: bytes

    @property
    def quantization(self) -> Quantization:
        return Quantization(self.steps, np.dtype(f"i{self.width}"))


class _Frames(Struct, frozen=True, array_like=True):
    gpus: int
    ticks: int
    metrics: dict[str, _Column]
    age: _Column | None = None


_decoder = msgspec.msgpack.Decoder(_Frames)
_encode = msgspec.msgpack.Encoder().encode
_local = threading.local()


def encode_tick(values: Columns) -> list[SampleChunk]:
    """The stripes of one tick, from arrays [gpu]."""
    return pack_tick({metric: quantize(metric, array) for metric, array in values.items()})


def pack_tick(steps: Mapping[GpuMetric, QuantizedArray], ages: Ages | None = None) -> list[SampleChunk]:
    """The stripes of one tick, from quantized arrays [gpu]."""
    columns = {metric: array[:, np.newaxis] for metric, array in steps.items()}
    return _split(columns, STRIPE_GPUS, None if ages is None else ages[:, np.newaxis])


def encode_hour(ats: NDArray[np.int64], values: Columns) -> EncodedBlock:
    """The block of an hour, from arrays [gpu, tick] of a whole device index."""
    return pack_hour(ats, {metric: quantize(metric, array) for metric, array in values.items()})


def pack_hour(ats: NDArray[np.int64], steps: Mapping[GpuMetric, QuantizedArray]) -> EncodedBlock:
    """The block of an hour, from quantized arrays [gpu, tick]."""
    return EncodedBlock(len(ats), encode_times(ats), CHUNK_GPUS, _split(steps, CHUNK_GPUS))


def merge_ticks(first_gpu: int, stripes: Sequence[bytes]) -> list[SampleChunk]:
    """Compact one stripe of increasing ticks into the chunks of a block."""
    chunks = _split(unpack_ticks(stripes), CHUNK_GPUS, unpack_tick_ages(stripes))
    return [SampleChunk(first_gpu + chunk.first_gpu, chunk.gpus, chunk.data) for chunk in chunks]


def encode_times(ats: NDArray[np.int64]) -> bytes:
    return add_version(
        FORMAT_VERSION, _zstd_codecs()[0].compress(np.diff(ats.astype("<i8"), prepend=0).astype("<i8").tobytes())
    )


def decode_times(data: bytes) -> NDArray[np.int64]:
    body = strip_version(FORMAT_NAME, FORMAT_VERSION, data)
    return np.cumsum(np.frombuffer(_zstd_codecs()[1].decompress(body), "<i8"), dtype=np.int64)


def quantize_ages(milliseconds: NDArray[np.int64]) -> Ages | None:
    """Rounded up, so that no sample seems younger than it is; None if all were taken at their tick."""
    limits = np.iinfo(np.int16)
    steps = np.clip(-(-milliseconds // AGE_MS), limits.min + 1, limits.max).astype(np.int16)
    return steps if steps.any() else None


def quantize(metric: GpuMetric, values: NDArray[np.floating]) -> QuantizedArray:
    """Round to steps; values out of range are clipped."""
    return _quantize(QUANTIZATIONS[metric], values)


def _quantize(scale: Quantization, values: NDArray[np.floating]) -> QuantizedArray:
    limits = np.iinfo(scale.dtype)
    steps = np.rint(np.asarray(values, np.float64) * scale.steps_per_unit)
    np.clip(steps, limits.min + 1, limits.max, out=steps)
    np.copyto(steps, limits.min, where=np.isnan(steps))
    return steps.astype(scale.dtype)


def pack(steps: Mapping[GpuMetric, QuantizedArray], ages: Ages | None = None) -> bytes:
    """Encode quantized arrays [gpu, tick] of the same shape."""
    gpus, ticks = next(iter(steps.values())).shape
    columns: dict[str, _Column] = {
        metric: _encode_column(QUANTIZATIONS[metric], array) for metric, array in steps.items()
    }
    age = None if ages is None else _encode_column(AGE_QUANTIZATION, ages)
    return add_version(FORMAT_VERSION, _encode(_Frames(gpus, ticks, columns, age)))


def unpack(data: bytes, metrics: Iterable[GpuMetric] = tuple(GpuMetric)) -> dict[GpuMetric, QuantizedArray]:
    """Decode quantized arrays [gpu, tick]."""
    frames = _decode_frames(data)
    return {metric: _decode_column(frames, frames.metrics.get(metric), QUANTIZATIONS[metric]) for metric in metrics}


def unpack_ages(data: bytes) -> Ages | None:
    """Decode the ages [gpu, tick]; None if all samples were taken at their tick."""
    frames = _decode_frames(data)
    return None if frames.age is None else _decode_column(frames, frames.age, AGE_QUANTIZATION)


def unpack_ticks(
    stripes: Sequence[bytes], metrics: Iterable[GpuMetric] = tuple(GpuMetric)
) -> dict[GpuMetric, QuantizedArray]:
    """Decode the stripes of many ticks into arrays [gpu, tick], all at once, because an hour has hundreds."""
    frames = [_decode_frames(data) for data in stripes]
    return {
        metric: _merge_columns(frames, [frame.metrics.get(metric) for frame in frames], QUANTIZATIONS[metric])
        for metric in metrics
    }


def unpack_tick_ages(stripes: Sequence[bytes]) -> Ages | None:
    """Decode the ages [gpu, tick] of many stripes; None if all samples were taken at their tick."""
    frames = [_decode_frames(data) for data in stripes]
    columns = [frame.age for frame in frames]
    if all(column is None for column in columns):
        return None
    ages = _merge_columns(frames, columns, AGE_QUANTIZATION)
    return np.where(ages == AGE_QUANTIZATION.missing, np.int16(0), ages)


def _decode_frames(data: bytes) -> _Frames:
    return _decoder.decode(strip_version(FORMAT_NAME, FORMAT_VERSION, data))


def _encode_column(scale: Quantization, steps: QuantizedArray) -> _Column:
    return _Column(scale.steps_per_unit, scale.dtype.itemsize, _zstd_codecs()[0].compress(_delta_shuffle(steps)))


def _merge_columns(frames: Sequence[_Frames], columns: Sequence[_Column | None], scale: Quantization) -> QuantizedArray:
    """Decode a column of many one-tick frames into an array [gpu, tick]."""
    gpus = frames[0].gpus
    if any(column is not None and column.quantization != scale for column in columns):
        return np.concatenate([_decode_column(*pair, scale) for pair in zip(frames, columns, strict=True)], axis=1)
    decompress = _zstd_codecs()[1].decompress
    missing = _delta_shuffle(np.full((gpus, 1), scale.missing, scale.dtype)) if None in columns else b""
    planes = b"".join(missing if column is None else decompress(column.data) for column in columns)
    shaped = np.frombuffer(planes, np.uint8).reshape(len(frames), scale.dtype.itemsize, gpus)
    return _unshuffle(np.moveaxis(shaped, 0, -1), scale)


def _decode_column(frames: _Frames, column: _Column | None, scale: Quantization) -> QuantizedArray:
    """Decode a column into an array [gpu, tick] in the current quantization."""
    shape = (frames.gpus, frames.ticks)
    if column is None:
        return np.full(shape, scale.missing, scale.dtype)
    planes = np.frombuffer(_zstd_codecs()[1].decompress(column.data), np.uint8).reshape(column.width, *shape)
    numbers = np.cumsum(_unshuffle(planes, column.quantization), axis=1, dtype=column.quantization.dtype)
    if column.quantization == scale:
        return numbers
    return _quantize(scale, np.where(numbers == column.quantization.missing, np.nan, numbers / column.steps))


def _split(steps: Mapping[GpuMetric, QuantizedArray], size: int, ages: Ages | None = None) -> list[SampleChunk]:
    gpus = len(next(iter(steps.values())))
    chunks = []
    for first in range(0, gpus, size):
        rows = slice(first, first + size)
        columns = {metric: array[rows] for metric, array in steps.items()}
        chunks.append(SampleChunk(first, min(size, gpus - first), pack(columns, None if ages is None else ages[rows])))
    return chunks


def _delta_shuffle(steps: QuantizedArray) -> bytes:
    """Differences along time, which wrap around, as byte planes."""
    little = steps.dtype.newbyteorder("<")
    change = np.array(steps, little, order="C")
    change[:, 1:] -= steps[:, :-1]
    return np.moveaxis(change.view(np.uint8).reshape(*change.shape, little.itemsize), -1, 0).tobytes()


def _unshuffle(planes: NDArray[np.uint8], scale: Quantization) -> QuantizedArray:
    """Byte planes [significance, gpu, tick] as integers."""
    little = scale.dtype.newbyteorder("<")
    return np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(little)[..., 0]


def _zstd_codecs() -> tuple[ZstdCompressor, ZstdDecompressor]:
    """A pair per thread: they are not thread-safe, and creating them costs more than using them."""
    if not hasattr(_local, "zstd"):
        _local.zstd = (ZstdCompressor(level=ZSTD_LEVEL), ZstdDecompressor())
    return _local.zstd
