"""The parts of the local engine that decide without a process."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.local import ContainmentMode, find_free_ports, probe_containment
from stoker.engines.local.base_env import search_path
from stoker.engines.local.isolation.mounts import find_aliases, parse_mountinfo
from stoker.engines.local.shim.launch_file import LaunchConfig, encode
from stoker.engines.local.shim.log_writer import MAX_LINE_BYTES, split_line
from stoker.engines.local.shim.process_tree import decode_status, descendants
from stoker.engines.local.shim.restart_backoff import RestartBackoff
from stoker.engines.local.shim_launcher import SHIM_SCRIPT
from stoker.engines.proxy.ports import FIRST_SERVICE_PORT, LAST_SERVICE_PORT, is_exposed

ROOT = "20 1 254:0 / / rw,relatime - ext4 /dev/vda rw"


def test_pauses_double_up_to_five_minutes_and_begin_again_after_ten_minutes_of_health() -> None:
    pause = RestartBackoff()
    assert [pause.next_delay(1.0) for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert pause.next_delay(599.0) == 300
    assert pause.next_delay(600.0) == 1
    assert pause.next_delay(1.0) == 2


@given(st.lists(st.tuples(st.sampled_from(["script", "folder", "env"]), st.text().filter(lambda t: "\0" not in t))))
def test_what_a_shim_is_told_arrives_as_it_was_said(fields: list[tuple[str, str]]) -> None:
    told = LaunchConfig(encode([(name, f"K={text}" if name == "env" else text) for name, text in fields]))
    scripts = [text for name, text in fields if name == "script"]
    assert told.script == (scripts[0] if scripts else "")
    assert told.env == ({"K": [t for name, t in fields if name == "env"][-1]} if "env" in dict(fields) else {})


@given(st.text(st.sampled_from("aäé漢😀"), min_size=1, max_size=20).map(str.encode))
def test_no_piece_of_a_line_begins_inside_a_character(part: bytes) -> None:
    line = part * (2 * MAX_LINE_BYTES // len(part))
    parts = split_line(line)
    assert b"".join(parts) == line
    assert all(len(part) <= MAX_LINE_BYTES for part in parts)
    assert [part.decode() for part in parts]


def test_bytes_that_are_no_text_are_split_too() -> None:
    assert [len(part) for part in split_line(b"\x80" * (2 * MAX_LINE_BYTES))] == [
        MAX_LINE_BYTES - 4,
        MAX_LINE_BYTES - 4,
        8,
    ]


def test_descendants_are_found_through_all_generations() -> None:
    assert sorted(descendants({2: 1, 3: 2, 4: 3, 5: 1, 6: 9}, 2)) == [3, 4]


def test_a_status_has_the_meaning_a_shell_gives_it() -> None:
    assert decode_status(3 << 8) == (3, 0)
    assert decode_status(9) == (137, 9)


def test_a_shim_imports_no_python_module_that_costs_memory() -> None:
    imports = f"exec(open({SHIM_SCRIPT!r}).read().split('if __name__')[0])"
    code = f"import sys; sys.argv = [{SHIM_SCRIPT!r}]; {imports}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    heavy = {"ctypes", "enum", "json", "pathlib", "re", "signal", "socket", "struct", "subprocess", "typing"}
    assert not heavy & set(done.stdout.split())


def test_other_paths_to_a_folder_are_found() -> None:
    mounts = parse_mountinfo(
        f"{ROOT}\n21 20 254:0 / /mnt/all\\040disks rw - ext4 /dev/vda rw\n22 20 254:0 /home /mnt/home rw - ext4 x rw\n"
        "23 20 254:0 /home/ada/.stoker/blobs /blobs rw - ext4 x rw\n24 20 0:5 / /home/ada/tmp rw - tmpfs tmpfs rw\n"
        "25 20 254:0 /var /var2 rw - ext4 x rw"
    )
    assert find_aliases(mounts, "/home/ada/.stoker") == [
        "/mnt/all disks/home/ada/.stoker",
        "/mnt/home/ada/.stoker",
        "/blobs",
    ]


def test_a_folder_that_is_mounted_once_has_no_other_paths() -> None:
    mounts = parse_mountinfo(
        f"{ROOT}\n21 20 0:5 / /home rw - tmpfs tmpfs rw\n22 21 0:5 /x /home/ada/x rw - tmpfs tmpfs rw"
    )
    assert find_aliases(mounts, "/home/ada") == []


def test_ports_are_free_different_and_not_taken() -> None:
    taken = range(FIRST_SERVICE_PORT, LAST_SERVICE_PORT - 20)
    ports = find_free_ports(5, taken)
    assert len(set(ports)) == 5
    assert all(LAST_SERVICE_PORT - 20 <= port <= LAST_SERVICE_PORT for port in ports)
    with pytest.raises(StokerError) as refused:
        find_free_ports(1, range(FIRST_SERVICE_PORT, LAST_SERVICE_PORT + 1))
    assert refused.value.code is ErrorCode.UNAVAILABLE


def test_a_python_is_always_found(tmp_path: Path) -> None:
    assert search_path(str(tmp_path), "/opt/stoker/bin/python") == f"{tmp_path}:/opt/stoker/bin"
    (tmp_path / "python").write_text("")
    (tmp_path / "python").chmod(0o755)
    assert search_path(str(tmp_path), "/opt/stoker/bin/python") == str(tmp_path)


def test_what_this_machine_can_do_is_said_in_sentences() -> None:
    found = probe_containment()
    assert found.mode in {ContainmentMode.NAMESPACES, ContainmentMode.SUBREAPER}
    assert found.pid_namespace == found.mount_namespace == (found.mode is ContainmentMode.NAMESPACES)
    assert found.user_namespace == (found.pid_namespace and os.geteuid() != 0)
    assert all(sentence.endswith(".") for sentence in found.descriptions)


def test_without_namespaces_that_is_reported_and_asking_for_them_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("stoker.engines.local.isolation.containment")
    monkeypatch.setattr(module, "probe_namespaces", lambda: "Operation not permitted: unshare")
    found = probe_containment()
    assert found.mode is ContainmentMode.SUBREAPER
    assert "Operation not permitted: unshare" in found.descriptions[0]
    with pytest.raises(StokerError, match="unshare") as refused:
        probe_containment(ContainmentMode.NAMESPACES)
    assert refused.value.field == "containment"
    assert "auto" in refused.value.hint


@pytest.mark.parametrize(
    ("row", "exposed"),
    [
        ("0: 00000000:4E20 00000000:0000 0A 0 0 0", True),
        ("0: 0100007F:4E20 00000000:0000 0A 0 0 0", False),
        ("0: 00000000000000000000000000000000:4E20 0:0 0A 0 0 0", True),
        ("0: 00000000000000000000000001000000:4E20 0:0 0A 0 0 0", False),
        ("0: 00000000:4E20 00000000:0000 01 0 0 0", False),
        ("0: 00000000:4E21 00000000:0000 0A 0 0 0", False),
    ],
)
def test_a_port_is_exposed_when_something_listens_beyond_loopback(row: str, exposed: bool) -> None:
    assert is_exposed(20_000, [f"head\n{row}\n"]) is exposed
