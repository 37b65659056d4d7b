import numpy as np
from msgspec import structs

from stoker.domain.node import Device, Node
from stoker.domain.readings import no_gpus
from stoker.telemetry.roster import decode, encode, roster_of

NODES = (
    Node("b", 1000, 1, (Device(1, "b1", "H100", 80), Device(0, "b0", "H100", 80))),
    Node("cpu-only", 1000, 1),
    Node("a", 1000, 1, (Device(4, "a4", "MI300X", 192),)),
)


def test_gpus_are_listed_by_node_and_device_whatever_order_they_are_reported_in() -> None:
    roster = roster_of(NODES)
    listed = [(roster.nodes[n], int(d)) for n, d in zip(roster.node, roster.device, strict=True)]
    assert listed == [("a", 4), ("b", 0), ("b", 1)]
    assert [roster.models[m] for m in roster.model] == ["MI300X", "H100", "H100"]
    assert encode(roster) == encode(roster_of(reversed(NODES)))


def test_a_roster_comes_back_from_its_bytes() -> None:
    roster = roster_of(NODES)
    assert encode(decode(encode(roster))) == encode(roster)
    assert encode(decode(encode(roster_of(())))) == encode(roster_of(()))


def test_a_gpu_is_found_by_its_name_and_one_that_is_not_there_is_not() -> None:
    roster = roster_of(NODES)
    assert roster.places([("b", 1), ("a", 4), ("b", 0)]).tolist() == [2, 0, 1]
    assert roster.places([("a", 0), ("b", 2), ("c", 0), ("0", 0)]).tolist() == [-1] * 4
    assert roster_of([]).places([("a", 0)]).tolist() == [-1]


def test_readings_are_laid_beside_the_gpus_they_are_of_and_strangers_are_left_out() -> None:
    read = structs.replace(
        no_gpus(0, nodes=("stranger", "b", "a")),
        node=np.array([0, 1, 2, 1], np.int32),
        device=np.array([0, 1, 4, 7], np.int16),
    )
    assert roster_of(NODES).rows_of(read).tolist() == [2, -1, 1]
    assert roster_of(NODES).rows_of(no_gpus(0)).tolist() == [-1, -1, -1]
