"""Readings as bytes: whole numbers in fine steps, each metric packed by itself.

What comes back is what went in, rounded to its step; a missing value stays missing. Along time only differences are
kept, and bytes of one weight lie together, because that is what compresses.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from zstandard import ZstdCompressor, ZstdDecompressor

from stoker.domain.quantity import MIB
from stoker.domain.readings import Metric
from stoker.store.samples import Chunk, Packed

CHUNK_GPUS = 128
"""How many GPUs of adjacent nodes are packed together: few enough that one of them is quickly read."""
STRIPE_GPUS = 1024
"""The same of a tick; a multiple of the former."""
LEVEL = 1

Columns = Mapping[Metric, NDArray[np.floating]]
"""For each metric an array [gpu, tick], or [gpu] for one tick; NaN where there is no reading."""


class Scale(Struct, frozen=True):
    """How a metric is kept: how many steps one unit has, and in which whole numbers. The lowest means missing."""

    steps: float
    whole: np.dtype

    @property
    def missing(self) -> int:
        return int(np.iinfo(self.whole).min)


SCALES = {
    Metric.UTILIZATION: Scale(10_000, np.dtype(np.int16)),
    Metric.MEMORY_USED: Scale(1 / MIB, np.dtype(np.int32)),
    Metric.POWER: Scale(10, np.dtype(np.int32)),
    Metric.TEMPERATURE: Scale(10, np.dtype(np.int16)),
}


class _Frames(Struct, frozen=True, array_like=True):
    gpus: int
    ticks: int
    metrics: dict[str, bytes]


_decoder = msgspec.msgpack.Decoder(_Frames)
_encode = msgspec.msgpack.Encoder().encode
_local = threading.local()


def encode_tick(values: Columns) -> list[Chunk]:
    """Arrays [gpu] of one moment, cut into stripes."""
    return pack_tick({metric: to_whole(metric, array) for metric, array in values.items()})


def pack_tick(steps: Mapping[Metric, NDArray[np.signedinteger]]) -> list[Chunk]:
    """The same of whole numbers."""
    return _cut({metric: array[:, np.newaxis] for metric, array in steps.items()}, STRIPE_GPUS)


def encode_hour(ats: NDArray[np.int64], values: Columns) -> Packed:
    """Arrays [gpu, tick] of a whole roster, cut into chunks."""
    return pack_hour(ats, {metric: to_whole(metric, array) for metric, array in values.items()})


def pack_hour(ats: NDArray[np.int64], steps: Mapping[Metric, NDArray[np.signedinteger]]) -> Packed:
    """The same of whole numbers."""
    return Packed(len(ats), encode_times(ats), CHUNK_GPUS, _cut(steps, CHUNK_GPUS))


def join_ticks(first_gpu: int, stripes: Sequence[bytes]) -> list[Chunk]:
    """The same stripe at growing moments, as the chunks of a segment."""
    cuts = _cut(unpack_ticks(stripes), CHUNK_GPUS)
    return [Chunk(first_gpu + cut.first_gpu, cut.gpus, cut.data) for cut in cuts]


def encode_times(ats: NDArray[np.int64]) -> bytes:
    return _zstd()[0].compress(np.diff(ats.astype("<i8"), prepend=0).astype("<i8").tobytes())


def decode_times(data: bytes) -> NDArray[np.int64]:
    return np.cumsum(np.frombuffer(_zstd()[1].decompress(data), "<i8"), dtype=np.int64)


def to_whole(metric: Metric, values: NDArray[np.floating]) -> NDArray[np.signedinteger]:
    """Steps; what lies outside of the whole numbers is the nearest of them."""
    scale = SCALES[metric]
    limits = np.iinfo(scale.whole)
    steps = np.rint(np.asarray(values, np.float64) * scale.steps)
    np.clip(steps, limits.min + 1, limits.max, out=steps)
    np.copyto(steps, limits.min, where=np.isnan(steps))
    return steps.astype(scale.whole)


def pack(steps: Mapping[Metric, NDArray[np.signedinteger]]) -> bytes:
    """Arrays [gpu, tick] of whole numbers, all of the same shape."""
    compressor = _zstd()[0]
    gpus, ticks = next(iter(steps.values())).shape
    return _encode(
        _Frames(gpus, ticks, {metric: compressor.compress(_shuffled(array)) for metric, array in steps.items()})
    )


def unpack(data: bytes, metrics: Iterable[Metric] = tuple(Metric)) -> dict[Metric, NDArray[np.signedinteger]]:
    """Arrays [gpu, tick] of whole numbers."""
    frames = _decoder.decode(data)
    shape = (frames.gpus, frames.ticks)
    found: dict[Metric, NDArray[np.signedinteger]] = {}
    for metric in metrics:
        planes = _planes([frames], metric, shape)[0]
        found[metric] = np.cumsum(_whole(planes, metric), axis=1, dtype=SCALES[metric].whole)
    return found


def unpack_ticks(
    stripes: Sequence[bytes], metrics: Iterable[Metric] = tuple(Metric)
) -> dict[Metric, NDArray[np.signedinteger]]:
    """Arrays [gpu, tick] of whole numbers, all stripes at once: there is one for every tick of an hour."""
    every = [_decoder.decode(data) for data in stripes]
    shape = (every[0].gpus, 1)
    return {metric: _whole(np.moveaxis(_planes(every, metric, shape)[..., 0], 0, -1), metric) for metric in metrics}


def _planes(every: Sequence[_Frames], metric: Metric, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Bytes [frame, weight, gpu, tick]."""
    scale = SCALES[metric]
    decompress = _zstd()[1].decompress
    missing = (
        _shuffled(np.full(shape, scale.missing, scale.whole)) if any(metric not in f.metrics for f in every) else b""
    )
    joined = b"".join(decompress(f.metrics[metric]) if metric in f.metrics else missing for f in every)
    return np.frombuffer(joined, np.uint8).reshape(len(every), scale.whole.itemsize, *shape)


def _cut(steps: Mapping[Metric, NDArray[np.signedinteger]], size: int) -> list[Chunk]:
    gpus = len(next(iter(steps.values())))
    return [
        Chunk(
            first,
            min(size, gpus - first),
            pack({metric: array[first : first + size] for metric, array in steps.items()}),
        )
        for first in range(0, gpus, size)
    ]


def _shuffled(steps: NDArray[np.signedinteger]) -> bytes:
    """Differences along time, which wrap, as planes of bytes."""
    little = steps.dtype.newbyteorder("<")
    change = np.array(steps, little, order="C")
    change[:, 1:] -= steps[:, :-1]
    return np.moveaxis(change.view(np.uint8).reshape(*change.shape, little.itemsize), -1, 0).tobytes()


def _whole(planes: NDArray[np.uint8], metric: Metric) -> NDArray[np.signedinteger]:
    """Bytes [weight, gpu, tick] as the numbers they make."""
    little = SCALES[metric].whole.newbyteorder("<")
    return np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(little)[..., 0]


def _zstd() -> tuple[ZstdCompressor, ZstdDecompressor]:
    """One of each for every thread: they cannot be shared, and making them costs more than using them."""
    if not hasattr(_local, "zstd"):
        _local.zstd = (ZstdCompressor(level=LEVEL), ZstdDecompressor())
    return _local.zstd
