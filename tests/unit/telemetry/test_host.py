"""RDMA ports from a tree made for the test, and the file system of a folder."""

from pathlib import Path

from tests.conftest import LoopRun

from stoker.domain.clock import SystemClock
from stoker.domain.cluster.samples import RdmaSample
from stoker.telemetry.collectors.host import build_host_collector, read_volume
from stoker.telemetry.collectors.infiniband import InfinibandPorts

GIGABIT = 1_000_000_000


def port(root: Path, name: str, received: int, sent: int, state: str = "4: ACTIVE") -> None:
    folder = root / f"sys/class/infiniband/{name}/ports/1"
    (folder / "counters").mkdir(parents=True, exist_ok=True)
    (folder / "state").write_text(f"{state}\n")
    (folder / "rate").write_text("400 Gb/sec (4X NDR)\n")
    (folder / "counters/port_rcv_data").write_text(f"{received}\n")
    (folder / "counters/port_xmit_data").write_text(f"{sent}\n")


def test_a_machine_without_ports_has_no_row(tmp_path: Path) -> None:
    assert InfinibandPorts("n1", tmp_path).read() == ()


def test_rates_are_what_went_through_since_the_last_look(tmp_path: Path) -> None:
    moments = iter([0.0, 10.0, 20.0, 30.0])
    ports = InfinibandPorts("n1", tmp_path, lambda: next(moments))
    port(tmp_path, "mlx5_0", 1000, 500)
    port(tmp_path, "mlx5_1", 0, 0, state="1: DOWN")
    assert ports.read() == (RdmaSample("n1", 2, 1, 400 * GIGABIT),)
    port(tmp_path, "mlx5_0", 3500, 1000)
    assert ports.read() == (RdmaSample("n1", 2, 1, 400 * GIGABIT, 1000.0, 200.0),)
    port(tmp_path, "mlx5_0", 0, 0)
    assert ports.read() == (RdmaSample("n1", 2, 1, 400 * GIGABIT, 0.0, 0.0),), "counters that begin again add nothing"


def test_a_port_that_says_nonsense_is_still_a_port(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", 0, 0)
    folder = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    (folder / "rate").write_text("fast\n")
    (folder / "counters/port_rcv_data").unlink()
    assert InfinibandPorts("n1", tmp_path).read() == (RdmaSample("n1", 1, 1, 0),)


def test_the_file_system_of_a_folder_is_named_by_where_it_is_mounted(tmp_path: Path) -> None:
    found = read_volume(tmp_path)
    assert Path(found.name).is_mount()
    assert tmp_path.is_relative_to(found.name)
    assert 0 < found.used_bytes < found.total_bytes


def test_a_host_without_gpus_has_readings_all_the_same(tmp_path: Path, loop_run: LoopRun) -> None:
    read = loop_run(build_host_collector("n1", SystemClock(), tmp_path, dict, tmp_path).collect())
    assert (read.nodes, len(read.device), len(read.volumes), read.pods) == (("n1",), 0, 1, ())
