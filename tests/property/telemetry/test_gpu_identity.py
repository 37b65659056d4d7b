"""Samples and allocations stay with their GPU, however often GPUs change their places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuSamples, empty_samples, encode_uuids
from stoker.telemetry.tsdb.device_index import DeviceIndex, build_device_index, decode, encode

NAMES = ("a", "b", "c")
UUIDS = tuple(f"GPU-{number:04x}" for number in range(8))
PLACES = [(name, device) for name in NAMES for device in range(4)]


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, tuple[str, int]]:
    """A place for each of some GPUs."""
    uuids = draw(st.lists(st.sampled_from(UUIDS), unique=True))
    places = draw(st.permutations(PLACES))
    return dict(zip(uuids, places, strict=False))


def index_of(layout: dict[str, tuple[str, int]]) -> DeviceIndex:
    nodes = [
        Node(name, 1, 1, tuple(Device(device, uuid, "H100") for uuid, (at, device) in layout.items() if at == name))
        for name in NAMES
    ]
    return decode(encode(build_device_index(nodes)))


def samples_of(layout: dict[str, tuple[str, int]]) -> GpuSamples:
    return structs.replace(
        empty_samples(0, NAMES),
        node=np.array([NAMES.index(name) for name, _ in layout.values()], np.int32),
        device=np.array([device for _, device in layout.values()], np.int16),
        uuid=encode_uuids(layout),
    )


@given(layouts(), layouts())
def test_a_gpu_is_found_wherever_it_is(now: dict[str, tuple[str, int]], then: dict[str, tuple[str, int]]) -> None:
    index = index_of(then)
    rows = index.rows([GpuId(*place, uuid) for uuid, place in now.items()]).tolist()
    found = {uuid: index.uuid[row].decode() if row >= 0 else None for uuid, row in zip(now, rows, strict=True)}
    assert found == {uuid: uuid if uuid in then else None for uuid in now}


@given(layouts(), layouts())
def test_each_gpu_gets_its_own_sample_and_never_that_of_another_known_one(
    reported: dict[str, tuple[str, int]], sampled: dict[str, tuple[str, int]]
) -> None:
    index, uuids = index_of(reported), list(sampled)
    rows = index.align(samples_of(sampled)).tolist()
    for uuid, row in zip(index.uuid.tolist(), rows, strict=True):
        if uuid.decode() in sampled:
            assert uuids[row] == uuid.decode()
        else:
            assert row < 0 or uuids[row] not in reported
