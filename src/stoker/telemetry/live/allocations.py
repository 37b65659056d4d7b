"""Who holds what, as arrays: kept up to date one workload at a time, and read for all at once."""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.resources import MILLI
from stoker.store.holders import Holder
from stoker.telemetry.layout import Layout

_NO_NUMBERS = np.zeros(0, np.int64)


class Claims(Struct, frozen=True, eq=False):
    """One row of `holder`, `gpu` and `milli` is one GPU, or a part of one, that is held: by the holder of this place,
    at this row of the roster. What is held of GPUs that are not there any more is only in `total_milli`."""

    holders: tuple[Holder, ...]
    total_milli: NDArray[np.int64]
    holder: NDArray[np.int64]
    gpu: NDArray[np.int64]
    milli: NDArray[np.int64]
    pods: NDArray[np.int64]
    """For each node: how many pods take up room, and how much CPU and memory they take."""
    cpu_milli: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]

    def allocated(self, gpus: int) -> NDArray[np.int64]:
        """For each GPU of the roster, how much of it is held."""
        held = np.bincount(self.gpu, self.milli, gpus).astype(np.int64)
        return np.minimum(held, MILLI)


class _Claim(Struct, frozen=True, eq=False):
    holder: Holder
    total_milli: int
    gpu: NDArray[np.int64]
    milli: NDArray[np.int64]
    pods: NDArray[np.int64]
    """Rows of node, CPU and memory."""


class Book:
    """The claims of a cluster."""

    def __init__(self, layout: Layout, holders: Iterable[Holder] = ()) -> None:
        self._layout = layout
        self._claims = {holder.uid: _claim(layout, holder) for holder in holders}
        self._all: Claims | None = None

    def move(self, layout: Layout) -> None:
        """The nodes are others now."""
        if layout.places is not self._layout.places:
            self._all = None
            self._claims = {uid: _claim(layout, claim.holder) for uid, claim in self._claims.items()}
        self._layout = layout

    def change(self, uids: Iterable[str], found: Iterable[Holder]) -> None:
        """These workloads now hold what is found of them, which may be nothing."""
        self._all = None
        now = {holder.uid: _claim(self._layout, holder) for holder in found}
        self._claims |= now  # who held something before keeps its place
        for uid in set(uids) - now.keys():
            self._claims.pop(uid, None)

    def claims(self) -> Claims:
        """All of them, put together when one has changed."""
        self._all = self._all or self._joined()
        return self._all

    def _joined(self) -> Claims:
        every = tuple(self._claims.values())
        nodes = len(self._layout.nodes)
        gpu = _joined([claim.gpu for claim in every])
        milli = _joined([claim.milli for claim in every])
        holder = np.repeat(np.arange(len(every)), [len(claim.gpu) for claim in every])
        node, cpu, memory = _joined([claim.pods for claim in every], _NO_NUMBERS.reshape(0, 3)).T
        here, there = gpu >= 0, node >= 0
        return Claims(
            holders=tuple(claim.holder for claim in every),
            total_milli=np.array([claim.total_milli for claim in every], np.int64),
            holder=holder[here],
            gpu=gpu[here],
            milli=milli[here],
            pods=np.bincount(node[there], minlength=nodes),
            cpu_milli=np.bincount(node[there], cpu[there], nodes).astype(np.int64),
            memory_bytes=np.bincount(node[there], memory[there], nodes).astype(np.int64),
        )


def _claim(layout: Layout, holder: Holder) -> _Claim:
    milli = np.array([gpu.gpu_milli for gpu in holder.gpus], np.int64)
    pods = [(layout.row.get(pod.node, -1), pod.resources.cpu_milli, pod.resources.memory_bytes) for pod in holder.pods]
    return _Claim(
        holder,
        int(milli.sum()),
        np.array([layout.places.get((gpu.node, gpu.device), -1) for gpu in holder.gpus], np.int64),
        milli,
        np.array(pods, np.int64).reshape(-1, 3),
    )


def _joined(arrays: list[NDArray[np.int64]], none: NDArray[np.int64] = _NO_NUMBERS) -> NDArray[np.int64]:
    return np.concatenate(arrays) if arrays else none
