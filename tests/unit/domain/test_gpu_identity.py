"""One GPU has one UUID, whoever writes it."""

import re

import pytest

from stoker.domain.cluster.gpu_identity import GpuId, is_other_gpu, normalize_uuid, uuid_of_amd
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuFault, apply_device_faults
from stoker.telemetry.prometheus.exporter_schemas import uuid_regex

NVIDIA = "GPU-8a56ba2a-79e9-4db5-a19b-1d5a2c9e2a5b"


def test_a_gpu_is_its_uuid_or_else_its_place() -> None:
    assert GpuId("n1", 3, NVIDIA).key == GpuId("n2", 0, NVIDIA).key == NVIDIA
    assert GpuId("n1", 3).key != GpuId("n2", 3).key


def test_the_uuid_of_amdsmi_and_that_of_rocr_are_of_one_gpu() -> None:
    assert normalize_uuid("72ff740f-0000-1000-804c-3b58bf67050e") == uuid_of_amd(0x724C3B58BF67050E)
    assert normalize_uuid(NVIDIA) == NVIDIA
    assert normalize_uuid("") == uuid_of_amd(0) == ""


@pytest.mark.parametrize("label", ["72ff740f-0000-1000-804c-3b58bf67050e", "GPU-724c3b58bf67050e"])
def test_a_query_matches_the_uuid_in_every_notation(label: str) -> None:
    assert re.fullmatch(uuid_regex(uuid_of_amd(0x724C3B58BF67050E)), label)
    assert not re.fullmatch(uuid_regex(uuid_of_amd(0x724C3B58BF67050F)), label)


def test_uuids_differ_only_within_one_notation() -> None:
    assert is_other_gpu("GPU-0a", "GPU-0b")
    assert not is_other_gpu("GPU-0a", "GPU-0a")
    assert not is_other_gpu("GPU-0a", "")
    assert not is_other_gpu("GPU-0a", "serial 7")


def test_a_fault_is_that_of_the_gpu_with_its_uuid() -> None:
    node = Node("n1", 1, 1, (Device(0, "GPU-0", "H100"), Device(1, "GPU-1", "H100"), Device(2, "", "H100")))
    faults = (GpuFault("n1", 0, "XID 79", "GPU-1"), GpuFault("n1", 2, "XID 48"), GpuFault("n1", 0, "XID 74", "GPU-9"))
    assert [device.fault for device in apply_device_faults(node, faults).devices] == ["", "XID 79", "XID 48"]
    unlabelled = (GpuFault("n1", 0, "XID 79"), GpuFault("n1", 1, "XID 48", "serial 7"))
    assert [device.fault for device in apply_device_faults(node, unlabelled).devices] == ["XID 79", "XID 48", ""]
