"""What is private to a pod: /tmp, shared memory, IPC, and a uid of its workspace if the server is root."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.integration.local.harness import Harness, new_order

from stoker.engines.local.isolation import users

FIRST = 1_999_000_000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has users to give")


@pytest.fixture
def peopled(walled: Harness) -> Iterator[Harness]:
    before = os.umask(0o077)  # as the server has it
    walled.open(first_user=FIRST)
    yield walled
    os.umask(before)


def run(harness: Harness, script: str, workspace: int = 7) -> list[str]:
    """What a job of this workspace prints."""
    order = structs.replace(new_order(script), workspace_id=workspace)
    harness.run(harness.engine.apply(order))
    harness.end(order.pods[0].uid)
    return harness.lines(order.pods[0].uid)


def test_what_is_in_tmp_is_seen_by_the_pod_alone_and_goes_with_it(walled: Harness) -> None:
    with tempfile.NamedTemporaryFile(prefix="stoker-test-", dir="/tmp") as outside:
        order = walled.start(f"cat {outside.name}; echo mine > /tmp/mine; cat /tmp/mine; stat -c %a /tmp")
        uid = order.pods[0].uid
        walled.end(uid)
        first, *rest = walled.lines(uid)
    assert first.endswith("No such file or directory")
    assert rest == ["mine", "1777"]
    assert not Path("/tmp/mine").exists()
    assert walled.lines(walled.job("ls /tmp/mine; exit 0")) == []
    kept = walled.data_dir / "local" / "pods" / uid / "tmp" / "mine"
    assert kept.exists()
    walled.run(walled.engine.release(order.ref))
    assert not kept.exists()


def test_shared_memory_and_ipc_are_the_pods_own(walled: Harness) -> None:
    made = subprocess.run(["ipcmk", "-Q"], check=True, capture_output=True, text=True)
    try:
        uid = walled.job("readlink /proc/self/ns/ipc; ipcs -q | grep -c ^0x; ls -A /dev/shm | wc -l")
        walled.end(uid)
        namespace, queues, shared = walled.lines(uid)
        assert namespace != str(Path("/proc/self/ns/ipc").readlink())
        assert (queues, shared) == ("0", "0")
    finally:
        subprocess.run(["ipcrm", "-q", made.stdout.split()[-1]], check=True)


@needs_root
def test_a_job_is_a_user_of_its_workspace(peopled: Harness) -> None:
    shown = run(peopled, "id -u; id -g; id -G; whoami; echo $USER; echo ~; pwd; touch made; stat -c %u . made")
    user = str(FIRST + 7)
    assert shown[:2] == [user, user]
    assert shown[3:5] == ["job", "job"]
    assert shown[5] == shown[6]
    assert shown[7:] == [user, user]
    assert run(peopled, "id -u", workspace=8) == [str(FIRST + 8)]


@needs_root
def test_it_has_no_privilege_and_can_get_none(peopled: Harness) -> None:
    shown = run(
        peopled, "grep -E '^Cap(Prm|Eff|Inh|Amb)|NoNewPrivs' /proc/self/status; touch /etc/x; cat /etc/shadow; ls /root"
    )
    held = {line.split()[0]: line.split()[1] for line in shown if line.startswith(("Cap", "NoNew"))}
    assert held.pop("NoNewPrivs:") == "1"
    assert set(held.values()) == {"0" * 16}
    assert sum("ermission denied" in line for line in shown) >= 2
    assert not Path("/etc/x").exists()


@needs_root
def test_the_servers_python_and_the_pods_streams_can_be_used(peopled: Harness) -> None:
    script = f"{sys.executable} -c 'import sys; print(sys.version_info[0])'; python -c 'print(5)'"
    assert run(peopled, f"{script}; echo again > /dev/stdout; echo err > /dev/stderr") == ["3", "5", "again", "err"]
    written = f"touch {sys.prefix}/x {sys.base_prefix}/x || echo refused"
    assert run(peopled, written)[-1] == "refused"


@needs_root
def test_a_long_script_runs_too(peopled: Harness) -> None:
    assert run(peopled, "# " + "x" * 200_000 + "\necho long") == ["long"]


@needs_root
def test_a_folder_that_was_roots_is_given_to_the_user_with_all_that_is_in_it(peopled: Harness) -> None:
    order = structs.replace(new_order("echo more >> sub/file; cat sub/file; stat -c %u link"), workspace_id=7)
    work = peopled.data_dir / "local" / "work" / order.ref.slug
    (work / "sub").mkdir(parents=True)
    (work / "sub" / "file").write_text("old\n")
    (work / "link").symlink_to("/etc/hostname")
    peopled.run(peopled.engine.apply(order))
    peopled.end(order.pods[0].uid)
    assert peopled.lines(order.pods[0].uid) == ["old", "more", str(FIRST + 7)]
    assert Path("/etc/hostname").stat().st_uid == 0


@needs_root
def test_a_command_in_a_pod_is_the_same_user_with_a_terminal_of_its_own(peopled: Harness) -> None:
    order = structs.replace(new_order("echo up; sleep 600"), workspace_id=7)
    uid = order.pods[0].uid
    peopled.run(peopled.engine.apply(order))
    peopled.says(uid, "up")

    async def ask(*, tty: bool) -> bytes:
        script = "id -u; echo there > /dev/stdout" + ('; echo here > "$(tty)"' if tty else "")
        terminal = await peopled.engine.execute(uid, ["sh", "-c", script], tty=tty, columns=80, rows=24)
        printed = b""
        while part := await terminal.read():
            printed += part
        assert await terminal.exit_code() == 0
        await terminal.close()
        return printed

    assert peopled.run(ask(tty=False)).split() == [str(FIRST + 7).encode(), b"there"]
    assert peopled.run(ask(tty=True)).split() == [str(FIRST + 7).encode(), b"there", b"here"]
    peopled.stop(uid, 0)
    peopled.end(uid)


def test_folders_that_strangers_cannot_pass_are_found(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    (shut / "deep" / "code").mkdir(parents=True)
    tmp_path.chmod(0o755)
    shut.chmod(0o700)
    (shut / "deep").chmod(0o700)
    above = [str(path) for path in tmp_path.parents if not path.stat().st_mode & 1]
    wanted = [above[-1]] if above else [str(shut)]
    assert users.find_unreachable_parents([shut / "deep" / "code", shut / "deep"], ()) == wanted
    assert users.find_unreachable_parents([shut / "deep" / "code"], (tmp_path.parents[-2],)) == []


def test_groups_of_devices_that_not_everybody_may_use(tmp_path: Path) -> None:
    (tmp_path / "dri").mkdir()
    for name, mode in (("open", 0o666), ("kfd", 0o660), ("dri/card0", 0o660), ("mine", 0o600)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    for name, group in (("open", 41), ("kfd", 42), ("dri/card0", 43), ("mine", 44)):
        if os.geteuid() == 0:
            os.chown(tmp_path / name, -1, group)
    wanted = [42, 43] if os.geteuid() == 0 else [os.getegid()]
    assert users.device_groups(["open", "kfd", "dri", "mine"], tmp_path) == wanted
