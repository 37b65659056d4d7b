"""Stored bytes begin with their format version; an unknown version is rejected, never misread."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.conftest import LoopRun
from tests.gpu_samples import to_real

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import LiveViewKind
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.metrics.pod_samples import PodSampleSource
from stoker.domain.metrics.training import TrainingSample
from stoker.domain.workload.idle import IdleSpan
from stoker.store.cluster import clusters, idle_detector, live_views
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import pod_samples, training
from stoker.store.telemetry.training import TrainingBatch
from stoker.store.usage import snapshots
from stoker.telemetry.tsdb import codec, device_index
from stoker.telemetry.tsdb.codec import Quantization

NODE = Node("n1", 1000, 1, (Device(0, "u", "H100", 80 << 30),))
USED = {GpuMetric.UTILIZATION: np.array([[0.25, 0.5]])}
STEPS = {metric: codec.quantize(metric, values) for metric, values in USED.items()}

Read = Callable[[bytes], object]
IN_MEMORY: dict[str, tuple[bytes, Read]] = {
    "a chunk": (codec.pack(STEPS), codec.unpack),
    "a tick": (
        codec.encode_tick({GpuMetric.POWER: np.array([1.0])})[0].data,
        lambda data: codec.unpack_ticks([data]),
    ),
    "times": (codec.encode_times(np.array([1, 2], np.int64)), codec.decode_times),
    "a roster": (device_index.encode(device_index.build_device_index([NODE])), device_index.decode),
}
COLUMNS = {
    "a tick of pods": ("pod_sample_tick", "data"),
    "an hour of pods": ("pod_sample_block", "data"),
    "a live view": ("live_view", "body"),
    "idle workloads": ("idle_tracker", "body"),
    "training metrics": ("training_chunk", "data"),
    "a snapshot": ("allocation_snapshot", "details"),
}
READS: dict[str, Callable[[Transaction], object]] = {
    "a tick of pods": lambda tx: pod_samples.latest_tick(tx, "c", PodSampleSource.USAGE, 0),
    "an hour of pods": lambda tx: list(pod_samples.read_blocks(tx, "c", ["p"], 0, 1 << 40)),
    "a live view": lambda tx: live_views.read(tx, "c", LiveViewKind.NODES),
    "idle workloads": lambda tx: idle_detector.read_spans(tx, "c"),
    "training metrics": lambda tx: training.read_points(tx, "w", 0, 1 << 40).names,
    "a snapshot": lambda tx: snapshots.latest(tx, "c"),
}


def put_all(tx: Transaction) -> None:
    clusters.add(tx, Cluster("c", "local", "local", "", 0))
    encoded = pod_samples.encode_tick({"p": {"cpu_milli": 100.0}})
    pod_samples.add_tick(tx, "c", 7_200_000, PodSampleSource.USAGE, encoded)
    for stripe in encoded:
        pod_samples.write_hours(tx, 0, pod_samples.encode_hours(tx, "c", stripe, 7_200_000).items())
    live_views.publish(tx, "c", 1, {LiveViewKind.NODES: live_views.encode([])})
    idle_detector.write_spans(tx, "c", 1, {"w": IdleSpan(1, 1)})
    training.add_batches(tx, [TrainingBatch("w", "p", 1, [TrainingSample(1, 1, {"loss": 2.0})])])
    snapshots.add(tx, "c", 1, 8, [], 1)


def assert_refused(read: Callable[[], object], *words: str) -> None:
    with pytest.raises(StokerError) as refused:
        read()
    assert refused.value.code is ErrorCode.UNAVAILABLE
    assert all(word in f"{refused.value.message} {refused.value.hint}" for word in words), refused.value.message


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_what_a_newer_version_has_packed_is_refused(kind: str) -> None:
    data, read = IN_MEMORY[kind]
    read(data)
    assert_refused(lambda: read(bytes([data[0] + 1]) + data[1:]), "newer Stoker", f"format {data[0] + 1}")


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_what_has_no_version_is_refused(kind: str) -> None:
    data, read = IN_MEMORY[kind]
    assert_refused(lambda: read(data[1:]), "a pre-release format")
    assert_refused(lambda: read(b""), "a pre-release format")


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_of_a_newer_version_or_of_none_are_refused(kind: str, store: Store, loop_run: LoopRun) -> None:
    table, column = COLUMNS[kind]
    loop_run(store.write(put_all))
    assert loop_run(store.read(READS[kind]))
    (kept,) = loop_run(store.read(lambda tx: tx.fetch_one(f"SELECT {column} FROM {table}") or ()))  # noqa: S608
    for changed, words in (
        (bytes([kept[0] + 1]) + kept[1:], "newer Stoker"),
        (kept[1:], "a pre-release format"),
    ):
        sql = f"UPDATE {table} SET {column} = :data"  # noqa: S608
        loop_run(store.write(lambda tx, sql=sql, data=changed: tx.execute(sql, {"data": data})))
        assert_refused(lambda: loop_run(store.read(READS[kind])), words)


def test_a_view_that_cannot_be_read_is_forgotten_when_its_cluster_starts(store: Store, loop_run: LoopRun) -> None:
    loop_run(store.write(put_all))
    loop_run(store.write(lambda tx: tx.execute("UPDATE live_view SET body = :data", {"data": b"\x90"})))
    assert (
        loop_run(store.read(lambda tx: live_views.try_read(tx, "c", LiveViewKind.NODES, live_views.decode_nodes)))
        is None
    )


def test_a_chunk_that_was_packed_in_other_steps_is_read_in_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {GpuMetric.UTILIZATION: np.array([[0.25, 0.5, np.nan]])}
    coarse = {**codec.QUANTIZATIONS, GpuMetric.UTILIZATION: Quantization(1000, np.dtype(np.int32))}
    with monkeypatch.context() as then:
        then.setattr(codec, "QUANTIZATIONS", coarse)
        hour = codec.pack({metric: codec.quantize(metric, values) for metric, values in used.items()})
        tick = codec.encode_tick({GpuMetric.UTILIZATION: used[GpuMetric.UTILIZATION][:, 0]})[0].data
    fine = codec.encode_tick({GpuMetric.UTILIZATION: np.array([0.3333])})[0].data
    found = to_real(GpuMetric.UTILIZATION, codec.unpack(hour)[GpuMetric.UTILIZATION])
    np.testing.assert_allclose(found, used[GpuMetric.UTILIZATION])
    together = to_real(GpuMetric.UTILIZATION, codec.unpack_ticks([tick, fine])[GpuMetric.UTILIZATION])
    np.testing.assert_allclose(together, [[0.25, 0.3333]])
