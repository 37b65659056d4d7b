"""GPUs and control groups as the kernel shows them, from trees made for the test."""

import os
from pathlib import Path

from stoker.domain.cluster.resources import Resources
from stoker.engines import gpu_devices
from stoker.engines.local.isolation import cgroups
from stoker.engines.local.isolation.cgroups import CgroupControllers

AMOUNT = Resources(cpu_milli=1500, memory_bytes=2**30)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_no_gpus_are_found_where_there_are_none(tmp_path: Path) -> None:
    assert gpu_devices.detect(tmp_path) == ()


def test_nvidia_gpus_are_numbered_by_pci_bus_id_as_nvml_does(tmp_path: Path) -> None:
    uuids = [f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(3)]
    for bus, minor in (("10000:01:00.0", 2), ("0000:0a:00.0", 1), ("0000:0b:00.0", 0)):
        text = f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuids[minor]}\nDevice Minor: \t {minor}\n"
        put(tmp_path / f"proc/driver/nvidia/gpus/{bus}/information", text)
    found = gpu_devices._detect_nvidia_proc(tmp_path)
    assert [(device.index, device.uuid, device.model) for device in found] == [
        (0, uuids[1], "NVIDIA H100"),
        (1, uuids[0], "NVIDIA H100"),
        (2, uuids[2], "NVIDIA H100"),
    ]


def test_a_uuid_that_the_driver_does_not_know_yet_is_empty(tmp_path: Path) -> None:
    text = "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 0\n"
    put(tmp_path / "proc/driver/nvidia/gpus/0000:0a:00.0/information", text)
    assert [device.uuid for device in gpu_devices._detect_nvidia_proc(tmp_path)] == [""]


def test_amd_gpus_are_counted_as_rocr_does_and_processors_are_not(tmp_path: Path) -> None:
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    put(nodes / "0/properties", "cpu_cores_count 96\nsimd_count 0\n")
    for node, minor in ((10, 129), (2, 128)):
        put(nodes / f"{node}/properties", f"simd_count 1216\ndrm_render_minor {minor}\ngfx_target_version 90402\n")
    card = tmp_path / "sys/class/drm/renderD128/device"
    put(card / "product_name", "AMD Instinct MI300X\n")
    put(card / "unique_id", "724c3b58bf67050e\n")
    put(card / "mem_info_vram_total", "206141652992\n")
    first, second = gpu_devices.detect(tmp_path)
    assert (first.index, first.uuid, first.model) == (0, "GPU-724c3b58bf67050e", "AMD Instinct MI300X")
    assert first.memory_bytes == 206141652992
    assert (second.index, second.uuid, second.model) == (1, "", "AMD gfx90402")


def test_the_unique_id_of_kfd_is_decimal_and_that_of_rocr_hexadecimal(tmp_path: Path) -> None:
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for node, unique_id in ((1, 0x0AFB3B58BF67050E), (2, 0)):
        put(nodes / f"{node}/properties", f"simd_count 1216\nunique_id {unique_id}\ndrm_render_minor {127 + node}\n")
    assert [device.uuid for device in gpu_devices.detect(tmp_path)] == ["GPU-0afb3b58bf67050e", ""]


def test_a_unique_id_that_partitions_share_identifies_none_of_them(tmp_path: Path) -> None:
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for node, unique_id in ((1, 77), (2, 77), (3, 78)):
        put(nodes / f"{node}/properties", f"simd_count 304\nunique_id {unique_id}\ndrm_render_minor {127 + node}\n")
    assert [device.uuid for device in gpu_devices.detect(tmp_path)] == ["", "", "GPU-000000000000004e"]


def machine(root: Path, cgroup: str, mountinfo: str) -> Path:
    put(root / "proc/cgroup", cgroup)
    put(root / "proc/mountinfo", mountinfo)
    return root / "proc"


def test_version_1_groups_are_made_below_our_own(tmp_path: Path) -> None:
    proc = machine(
        tmp_path,
        "4:memory:/user/me\n2:pids:/\n1:cpu,cpuacct:/\n0::/\n",
        "30 1 0:30 / /cg/memory rw - cgroup cgroup rw,memory\n31 1 0:31 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 1 0:32 / /cg/pids rw - cgroup cgroup rw,pids\n",
    )
    for folder in ("memory/user/me", "cpu", "pids"):
        (tmp_path / "cg" / folder).mkdir(parents=True)
    groups = cgroups.prepare(cgroups.detect(proc, tmp_path))
    assert groups == CgroupControllers(1, tmp_path / "cg/memory/user/me", tmp_path / "cg/cpu", tmp_path / "cg/pids")
    joined = groups.create("p1", AMOUNT)
    memory, cpu, pids = (tmp_path / f"cg/{name}/stoker/p1" for name in ("memory/user/me", "cpu", "pids"))
    assert joined.dirs == (str(memory), str(cpu), str(pids))
    assert joined.procs_files == (f"{memory}/cgroup.procs", f"{cpu}/cgroup.procs", f"{pids}/cgroup.procs")
    assert (pids / "pids.max").read_text() == "4096"
    assert (memory / "memory.limit_in_bytes").read_text() == str(2**30)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"
    assert (joined.oom_events_file, joined.cpu_limit_file) == (
        f"{memory}/memory.oom_control",
        f"{cpu}/cpu.cfs_quota_us",
    )


def unified(root: Path, processes: str, name: str = "") -> Path:
    own = root / "cg/system.slice/stoker.service"
    for file, text in (
        ("cgroup.controllers", "cpuset cpu memory pids"),
        ("cgroup.subtree_control", ""),
        ("cgroup.procs", processes),
        ("cgroup.type", "domain"),
    ):
        put(own / file, text)
    line = f"0::/system.slice/stoker.service{name}\n"
    return machine(root, line, "30 1 0:30 / /cg rw - cgroup2 cgroup2 rw\n")


def test_version_2_hands_its_controllers_on_after_the_server_has_moved_aside(tmp_path: Path) -> None:
    proc = unified(tmp_path, f"{os.getpid()}\n")
    own = tmp_path / "cg/system.slice/stoker.service"
    found = cgroups.detect(proc, tmp_path)
    assert found == CgroupControllers(2, own, own, own)
    groups = cgroups.prepare(found)
    assert (own / "stoker-server/cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    assert (own / "stoker/cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    joined = groups.create("p1", AMOUNT)
    assert joined.dirs == (f"{own}/stoker/p1",)
    assert (own / "stoker/p1/memory.max").read_text() == str(2**30)
    assert (own / "stoker/p1/cpu.max").read_text() == "150000 100000"
    assert joined.cpu_limit_file == f"{own}/stoker/p1/cpu.max"
    assert (own / "stoker/p1/pids.max").read_text() == "4096"


def test_version_2_beside_strangers_cannot_be_used(tmp_path: Path) -> None:
    assert cgroups.detect(unified(tmp_path, "1\n2\n"), tmp_path) == CgroupControllers()


def test_version_2_beside_strangers_keeps_the_limits_that_were_handed_on_already(tmp_path: Path) -> None:
    proc = unified(tmp_path, "1\n2\n")
    own = tmp_path / "cg/system.slice/stoker.service"
    put(own / "cgroup.subtree_control", "memory cpu")
    assert cgroups.detect(proc, tmp_path) == CgroupControllers(2, own, own)


def test_many_processors_come_with_more_processes(tmp_path: Path) -> None:
    joined = CgroupControllers(1, pids=tmp_path).create("p1", Resources(cpu_milli=192_000))
    assert (Path(joined.dirs[0]) / "pids.max").read_text() == "49152"


def test_a_server_that_was_put_aside_already_finds_the_group_above(tmp_path: Path) -> None:
    found = cgroups.detect(unified(tmp_path, "", "/stoker-server"), tmp_path)
    assert found.memory == tmp_path / "cg/system.slice/stoker.service"


def test_no_limits_are_set_that_were_not_asked_for(tmp_path: Path) -> None:
    assert CgroupControllers(1, tmp_path, tmp_path).create("p1", Resources()) == cgroups.PodCgroups()
