"""The list of GPUs stays the same as long as the hardware does, whatever sizes of memory are read."""

import numpy as np
from msgspec import structs

from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuSamples, empty_samples
from stoker.telemetry.live.builder import LiveViewBuilder
from stoker.telemetry.tsdb import device_index

MIB = 1 << 20


def node(name: str, model: str = "H100", memory_bytes: int = 0) -> Node:
    return Node(name, 1000, 1 << 30, (Device(0, f"{name}-0", model, memory_bytes),))


def read(**mib: float) -> GpuSamples:
    """One GPU on each node, with so much memory in all."""
    count = len(mib)
    nothing = np.zeros(count, np.float32)
    return structs.replace(
        empty_samples(0, tuple(mib)),
        node=np.arange(count, dtype=np.int32),
        device=np.zeros(count, np.int16),
        utilization=nothing,
        memory_used=np.zeros(count),
        memory_total=np.array(list(mib.values())) * MIB,
        power=nothing,
        temperature=nothing,
    )


def view_of(*nodes: Node) -> LiveViewBuilder:
    view = LiveViewBuilder()
    view.reset(nodes, [])
    return view


def sizes(view: LiveViewBuilder) -> list[int]:
    """In MiB."""
    return (device_index.decode(view.encoded_index).memory_bytes // MIB).tolist()


def test_a_size_that_is_read_is_kept_while_readings_differ_a_little_or_have_none() -> None:
    view = view_of(node("a"), node("b"))
    view.set_samples(read(a=81_559, b=81_559))
    first = view.encoded_index
    assert sizes(view) == [81_559, 81_559]
    for again in (read(a=81_560, b=81_558), read(a=0, b=81_559), read(b=81_559), None, read(a=81_558, b=81_561)):
        view.set_samples(again)
        assert view.encoded_index is first


def test_a_size_that_is_another_is_that_of_other_hardware() -> None:
    view = view_of(node("a"))
    view.set_samples(read(a=81_559))
    view.set_samples(read(a=40_000))
    assert sizes(view) == [40_000]


def test_a_gpu_that_goes_and_comes_back_is_the_same() -> None:
    view = view_of(node("a"), node("b"))
    view.set_samples(read(a=81_559, b=81_559))
    first = view.encoded_index
    view.reset([node("a")], [])
    view.reset([node("a"), node("b")], [])
    view.set_samples(read(a=81_559, b=81_561))
    assert view.encoded_index == first


def test_a_gpu_of_another_model_in_its_place_is_read_anew() -> None:
    view = view_of(node("a"))
    view.set_samples(read(a=81_559))
    view.reset([node("a", "H200")], [])
    view.set_samples(read(a=143_771))
    assert sizes(view) == [143_771]


def test_what_the_engine_knows_counts() -> None:
    view = view_of(node("a", memory_bytes=80_000 * MIB))
    view.set_samples(read(a=81_559))
    assert sizes(view) == [80_000]


def test_sizes_that_were_kept_before_a_restart_go_on() -> None:
    before = view_of(node("a"), node("b"))
    before.set_samples(read(a=81_559, b=81_559))
    view = LiveViewBuilder()
    view.restore_memory_sizes(before.encoded_index)
    view.reset([node("a"), node("b")], [])
    view.set_samples(read(a=81_560, b=81_558))
    assert view.encoded_index == before.encoded_index
