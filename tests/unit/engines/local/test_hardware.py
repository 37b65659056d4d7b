"""GPUs and control groups as the kernel shows them, from trees made for the test."""

import os
from pathlib import Path

from stoker.domain.resources import Resources
from stoker.engines.local import cgroups, devices
from stoker.engines.local.cgroups import ControlGroups

AMOUNT = Resources(cpu_milli=1500, memory_bytes=2**30)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_no_gpus_are_found_where_there_are_none(tmp_path: Path) -> None:
    assert devices.found(tmp_path) == ()


def test_nvidia_gpus_are_counted_as_the_driver_does(tmp_path: Path) -> None:
    for bus, minor in (("0000:0a:00.0", 1), ("0000:0b:00.0", 0)):
        text = f"Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}\n"
        put(tmp_path / f"proc/driver/nvidia/gpus/{bus}/information", text)
    found = devices._nvidia_proc(tmp_path)
    assert [(device.index, device.uuid, device.model) for device in found] == [
        (0, "GPU-0", "NVIDIA H100"),
        (1, "GPU-1", "NVIDIA H100"),
    ]


def test_amd_gpus_are_counted_as_rocr_does_and_processors_are_not(tmp_path: Path) -> None:
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    put(nodes / "0/properties", "cpu_cores_count 96\nsimd_count 0\n")
    for node, minor in ((10, 129), (2, 128)):
        put(nodes / f"{node}/properties", f"simd_count 1216\ndrm_render_minor {minor}\ngfx_target_version 90402\n")
    card = tmp_path / "sys/class/drm/renderD128/device"
    put(card / "product_name", "AMD Instinct MI300X\n")
    put(card / "unique_id", "abc\n")
    put(card / "mem_info_vram_total", "206141652992\n")
    first, second = devices.found(tmp_path)
    assert (first.index, first.uuid, first.model) == (0, "GPU-abc", "AMD Instinct MI300X")
    assert first.memory_bytes == 206141652992
    assert (second.index, second.model) == (1, "AMD gfx90402")


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
    groups = cgroups.take(cgroups.detect(proc, tmp_path))
    assert groups == ControlGroups(1, tmp_path / "cg/memory/user/me", tmp_path / "cg/cpu", tmp_path / "cg/pids")
    joined = groups.make("p1", AMOUNT)
    memory, cpu, pids = (tmp_path / f"cg/{name}/stoker/p1" for name in ("memory/user/me", "cpu", "pids"))
    assert joined.folders == (str(memory), str(cpu), str(pids))
    assert joined.doors == (f"{memory}/cgroup.procs", f"{cpu}/cgroup.procs", f"{pids}/cgroup.procs")
    assert (pids / "pids.max").read_text() == "4096"
    assert (memory / "memory.limit_in_bytes").read_text() == str(2**30)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"
    assert (joined.kill_count, joined.cpu_limit) == (f"{memory}/memory.oom_control", f"{cpu}/cpu.cfs_quota_us")


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
    assert found == ControlGroups(2, own, own, own)
    groups = cgroups.take(found)
    assert (own / "stoker-server/cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    assert (own / "stoker/cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    joined = groups.make("p1", AMOUNT)
    assert joined.folders == (f"{own}/stoker/p1",)
    assert (own / "stoker/p1/memory.max").read_text() == str(2**30)
    assert (own / "stoker/p1/cpu.max").read_text() == "150000 100000"
    assert joined.cpu_limit == f"{own}/stoker/p1/cpu.max"
    assert (own / "stoker/p1/pids.max").read_text() == "4096"


def test_version_2_beside_strangers_cannot_be_used(tmp_path: Path) -> None:
    assert cgroups.detect(unified(tmp_path, "1\n2\n"), tmp_path) == ControlGroups()


def test_version_2_beside_strangers_keeps_the_limits_that_were_handed_on_already(tmp_path: Path) -> None:
    proc = unified(tmp_path, "1\n2\n")
    own = tmp_path / "cg/system.slice/stoker.service"
    put(own / "cgroup.subtree_control", "memory cpu")
    assert cgroups.detect(proc, tmp_path) == ControlGroups(2, own, own)


def test_many_processors_come_with_more_processes(tmp_path: Path) -> None:
    joined = ControlGroups(1, pids=tmp_path).make("p1", Resources(cpu_milli=192_000))
    assert (Path(joined.folders[0]) / "pids.max").read_text() == "49152"


def test_a_server_that_was_put_aside_already_finds_the_group_above(tmp_path: Path) -> None:
    found = cgroups.detect(unified(tmp_path, "", "/stoker-server"), tmp_path)
    assert found.memory == tmp_path / "cg/system.slice/stoker.service"


def test_no_limits_are_set_that_were_not_asked_for(tmp_path: Path) -> None:
    assert ControlGroups(1, tmp_path, tmp_path).make("p1", Resources()) == cgroups.Joined()
