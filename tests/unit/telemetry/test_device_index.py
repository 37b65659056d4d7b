import numpy as np
from msgspec import structs

from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuSamples, empty_samples, encode_uuids
from stoker.telemetry.tsdb.device_index import build_device_index, decode, encode

NODES = (
    Node("b", 1000, 1, (Device(1, "b1", "H100", 80), Device(0, "b0", "H100", 80))),
    Node("cpu-only", 1000, 1),
    Node("a", 1000, 1, (Device(4, "a4", "MI300X", 192),)),
)


def test_gpus_are_listed_by_node_and_device_whatever_order_they_are_reported_in() -> None:
    roster = build_device_index(NODES)
    listed = [(roster.nodes[n], int(d)) for n, d in zip(roster.node, roster.device, strict=True)]
    assert listed == [("a", 4), ("b", 0), ("b", 1)]
    assert [roster.models[m] for m in roster.model] == ["MI300X", "H100", "H100"]
    assert encode(roster) == encode(build_device_index(reversed(NODES)))


def test_a_roster_comes_back_from_its_bytes() -> None:
    roster = build_device_index(NODES)
    assert encode(decode(encode(roster))) == encode(roster)
    assert encode(decode(encode(build_device_index(())))) == encode(build_device_index(()))


def test_a_gpu_is_found_by_its_name_and_one_that_is_not_there_is_not() -> None:
    roster = build_device_index(NODES)
    assert roster.rows([GpuId("b", 1), GpuId("a", 4), GpuId("b", 0)]).tolist() == [2, 0, 1]
    assert roster.rows([GpuId("a", 0), GpuId("b", 2), GpuId("c", 0), GpuId("0", 0)]).tolist() == [-1] * 4
    assert build_device_index([]).rows([GpuId("a", 0)]).tolist() == [-1]


def test_readings_are_laid_beside_the_gpus_they_are_of_and_strangers_are_left_out() -> None:
    read = structs.replace(
        empty_samples(0, nodes=("stranger", "b", "a")),
        node=np.array([0, 1, 2, 1], np.int32),
        device=np.array([0, 1, 4, 7], np.int16),
    )
    assert build_device_index(NODES).align(read).tolist() == [2, -1, 1]
    assert build_device_index(NODES).align(empty_samples(0)).tolist() == [-1, -1, -1]


def test_a_renumbered_or_moved_gpu_is_found_by_its_uuid_in_every_index() -> None:
    before = build_device_index([Node("a", 1, 1, (Device(0, "x", "H100"), Device(1, "y", "H100"))), Node("b", 1, 1)])
    renumbered = build_device_index([Node("a", 1, 1, (Device(0, "y", "H100"), Device(1, "x", "H100")))])
    moved = build_device_index(
        [
            Node("a", 1, 1, (Device(0, "y", "H100"),)),
            Node("b", 1, 1, (Device(0, "z", "H100"), Device(1, "x", "H100"))),
        ]
    )
    x, y = GpuId("a", 0, "x"), GpuId("a", 1, "y")
    assert [index.rows([x, y]).tolist() for index in (before, renumbered, moved)] == [[0, 1], [1, 0], [2, 0]]
    assert encode(before) != encode(renumbered)


def test_another_gpu_at_the_place_of_one_that_is_gone_is_not_taken_for_it() -> None:
    index = build_device_index([Node("a", 1, 1, (Device(0, "y", "H100"), Device(1, "", "H100")))])
    assert index.rows([GpuId("a", 0, "x"), GpuId("a", 1, "x"), GpuId("a", 0), GpuId("c", 0, "x")]).tolist() == [
        *(-1, 1, 0),
        -1,
    ]


def test_a_uuid_that_two_gpus_have_identifies_neither() -> None:
    index = build_device_index(
        [
            Node("a", 1, 1, (Device(0, "x", "H100"),)),
            Node("b", 1, 1, (Device(0, "x", "H100"),)),
        ]
    )
    assert index.rows([GpuId("a", 0, "x"), GpuId("b", 0, "x"), GpuId("c", 0, "x")]).tolist() == [0, 1, -1]


def samples_of(*gpus: GpuId) -> GpuSamples:
    return structs.replace(
        empty_samples(0, nodes=("a", "b")),
        node=np.array([("a", "b").index(gpu.node) for gpu in gpus], np.int32),
        device=np.array([gpu.device for gpu in gpus], np.int16),
        uuid=encode_uuids(gpu.uuid for gpu in gpus),
    )


def test_samples_belong_to_the_gpu_with_their_uuid_wherever_the_collector_saw_it() -> None:
    index = build_device_index(
        [
            Node("a", 1, 1, (Device(0, "x", "H100"), Device(1, "y", "H100"), Device(2, "", "H100"))),
            Node("b", 1, 1, (Device(0, "z", "H100"),)),
        ]
    )
    swapped = samples_of(GpuId("a", 0, "y"), GpuId("a", 1, "x"), GpuId("a", 2), GpuId("b", 0, "z"))
    assert index.align(swapped).tolist() == [1, 0, 2, 3]
    moved = samples_of(GpuId("b", 1, "x"), GpuId("a", 0, "new"), GpuId("b", 0))
    assert index.align(moved).tolist() == [0, -1, -1, 2]


def test_a_uuid_in_another_notation_leaves_samples_at_their_place() -> None:
    index = build_device_index([Node("a", 1, 1, (Device(0, "GPU-0", "H100"), Device(1, "GPU-1", "H100")))])
    assert index.align(samples_of(GpuId("a", 1, "serial 1"), GpuId("a", 0, "serial 0"))).tolist() == [1, 0]
