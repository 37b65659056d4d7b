"""A job does not reach the platform: not its files, not its processes, not its environment, not its own shim."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import msgspec
import pytest
from tests.integration.local.harness import Harness, new_order, shim_pid

from stoker.domain.workload.phase import PodPhase
from stoker.engines.local import ContainmentMode

SECRET = "sk-stoker-secret"
# If a wall were missing, these would run on the machine itself: each must do no harm there.
ESCAPES = {
    "read": "cat {data}/admin.key",
    "list": "ls -A {data}; ls -A {data}/local; ls {data}/local/pods",
    "root of the first process": "cat /proc/1/root{data}/admin.key; ls /proc/1/cwd{data}; ls -l /proc/1/fd /proc/1/ns",
    "unmount": "umount {data}; umount -l {data}; cat {data}/admin.key",
    "mount": "mkdir m; mount --bind {data} m; cat m/admin.key",
    "disk": "mknod disk b 254 0; ls /dev/vd* /dev/sd* /dev/nvme* /dev/mem; head -c 1 disk",
    "enter": "nsenter -t 1 -m cat {data}/admin.key; nsenter -t 1 -a true",
    "user namespace": (
        "unshare -Urm sh -c 'umount {data}; umount -l {data}; cat {data}/admin.key; "
        "mount --bind / /mnt; cat /mnt{data}/admin.key; mount --rbind / /mnt; cat /mnt{data}/admin.key'"
    ),
    "user namespace with its own processes": (
        "unshare -Urpf --mount-proc sh -c 'umount -l /proc; ls {data}; cat /proc/1/root{data}/admin.key'"
    ),
    "chroot": "python -c \"import os; os.chroot('/proc/1/root'); print(open('{data}/admin.key').read())\"",
    "memory": "head -c 1 /proc/1/mem /proc/kcore; cat /proc/1/environ /proc/1/maps",
    "control groups": "for f in /sys /sys/fs/cgroup /sys/fs/cgroup/*; do test -w $f && echo may-write; done",
    "kernel": "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do test -w $f && echo may-write; done",
}


@pytest.mark.parametrize("way", ESCAPES)
def test_a_job_cannot_see_the_data_directory(walled: Harness, way: str) -> None:
    uid = walled.job(f"({ESCAPES[way].format(data=walled.data_dir)}) 2>&1; echo tried; exit 0")
    assert walled.end(uid).phase is PodPhase.SUCCEEDED
    lines = walled.lines(uid)
    assert lines[-1] == "tried"
    assert SECRET not in "\n".join(lines)
    assert not {"lock", "may-write"} & set(lines)
    assert not [line for line in lines if line == uid]


def test_a_job_sees_of_the_data_directory_only_its_own_folder(walled: Harness) -> None:
    other = walled.job("echo mine > file; sleep 600")
    order = walled.start(f"pwd; echo $HOME; find {walled.data_dir} -mindepth 1 | sort; echo hello > file; ls")
    work = walled.data_dir / "local" / "work"
    assert walled.end(order.pods[0].uid).exit_code == 0
    mine = str(work / order.ref.slug)
    local = str(walled.data_dir / "local")
    assert walled.lines(order.pods[0].uid) == [mine, mine, local, str(work), mine, "file"]
    assert (work / order.ref.slug / "file").read_text() == "hello\n"
    walled.stop(other)


def test_a_job_sees_only_its_own_processes_and_cannot_signal_its_shim(walled: Harness) -> None:
    uid = walled.job(
        "for s in TERM HUP INT QUIT USR1 KILL STOP CHLD; do kill -$s 1; done; sleep 0.2; ls -d /proc/[0-9]*; "
        f"kill -0 {os.getpid()} && echo reached; exit 0"
    )
    assert walled.end(uid).exit_code == 0
    assert "/proc/1" in walled.lines(uid)
    assert f"/proc/{os.getpid()}" not in walled.lines(uid)
    assert "reached" not in walled.lines(uid)


def test_no_process_of_a_pod_keeps_a_privilege_that_could_undo_the_walls(walled: Harness) -> None:
    uid = walled.job("grep -E '^Cap(Prm|Eff|Bnd)' /proc/self/status; echo done")
    walled.end(uid)
    for line in walled.lines(uid)[:-1]:
        held = int(line.split()[1], 16)
        assert not held & (1 << 21 | 1 << 19 | 1 << 2 | 1 << 27 | 1 << 13 | 1 << 16 | 1 << 17), line


def test_the_servers_environment_is_not_inherited(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_DATABASE", "postgresql://stoker:secret@db/stoker")
    uid = harness.job("env | sort; ls -l /proc/self/fd | wc -l", env={"MINE": "1", "HOME": "/tmp"})
    harness.end(uid)
    *variables, _ = harness.lines(uid)
    env = dict(line.split("=", 1) for line in variables)
    assert env["MINE"] == "1"
    assert env["HOME"] == "/tmp"
    assert env["STOKER_POD_UID"] == uid
    assert "STOKER_DATABASE" not in env
    usual = {"HOME", "LANG", "LOGNAME", "MINE", "PATH", "PYTHONUNBUFFERED", "SHELL", "STOKER_POD_UID", "TERM", "USER"}
    assert set(env) - {"PWD", "OLDPWD", "SHLVL", "_"} == usual


def test_a_job_inherits_no_open_files(harness: Harness) -> None:
    keep = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(keep, True)
    uid = harness.job("ls /proc/$$/fd | wc -l; readlink /proc/$$/fd/*")
    harness.end(uid)
    os.close(keep)
    assert not [line for line in harness.lines(uid) if "hostname" in line or str(harness.data_dir) in line]


def test_a_data_directory_in_shared_memory_is_hidden_too() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="stoker-test-") as name:
        harness = Harness(Path(name) / "data", ContainmentMode.AUTO)
        order = harness.start(
            f"cat {harness.data_dir}/admin.key; pwd; echo hello > file; ls /dev/shm {harness.data_dir}"
        )
        harness.end(order.pods[0].uid)
        assert (
            SECRET not in "\n".join(harness.lines(order.pods[0].uid)) or not harness.engine.containment.mount_namespace
        )
        assert (harness.data_dir / "local" / "work" / order.ref.slug / "file").read_text() == "hello\n"
        harness.finish()


def test_other_files_can_be_hidden_too(walled: Harness, shared_folder: Path) -> None:
    settings = shared_folder / "stoker.toml"
    settings.write_text(SECRET)
    keys = shared_folder / "tls"
    keys.mkdir()
    (keys / "key.pem").write_text(SECRET)
    walled.open(hidden=(settings, keys, keys / "key.pem", shared_folder / "absent", walled.data_dir / "admin.key"))
    uid = walled.job(f"cat {settings}; ls {keys}; echo over")
    walled.end(uid)
    assert walled.lines(uid) == ["over"]


def test_the_data_directory_is_hidden_under_its_other_paths_too(walled: Harness, shared_folder: Path) -> None:
    alias = shared_folder / "alias"
    alias.mkdir()
    bound = subprocess.run(["mount", "--bind", walled.data_dir, alias], check=False, capture_output=True)
    if bound.returncode != 0:
        pytest.skip("this user may not mount")
    try:
        uid = walled.job(f"ls -A {alias}; cat {alias}/admin.key; echo over")
        walled.end(uid)
        assert walled.lines(uid)[-1] == "over"
        assert SECRET not in "\n".join(walled.lines(uid))
    finally:
        subprocess.run(["umount", alias], check=True)


def test_nobody_can_look_into_a_shim(walled: Harness) -> None:
    uid = walled.job("echo up; sleep 600")
    walled.says(uid, "up")
    assert Path(f"/proc/{shim_pid(walled, uid)}/environ").read_bytes() == b""
    job = walled.job("head -c 1 /proc/1/environ /proc/1/mem; ls -l /proc/1/exe /proc/1/root; echo over")
    walled.end(job)
    refusals = [line for line in walled.lines(job) if "ermission denied" in line]
    assert len(refusals) == 4


ORDINARY = """
import asyncio, os, sys
from pathlib import Path
import msgspec
from stoker.engines.model import LaunchSpec, LogRef
from stoker.engines.local import LocalEngine

async def main(data_dir, text):
    order = msgspec.json.decode(text, type=LaunchSpec)
    uid = order.pods[0].uid
    engine = await LocalEngine.open(Path(data_dir))
    print(engine.containment.mode, engine.containment.user_namespace, flush=True)
    await engine.apply(order)
    async for report in engine.watch():
        if any(pod.phase.is_finished for pod in report.pods):
            break
    for line in await engine.read_logs(LogRef(uid), 0, 1000):
        print(line.text)
    await engine.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_an_ordinary_user_has_the_same_walls_by_user_namespaces() -> None:
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if os.geteuid() != 0 or python is None:
        pytest.skip("needs root, to become somebody else, and a python3 that anybody can run")
    source = Path(__file__).parents[3] / "src"
    env = {"PYTHONPATH": f"{source}:{sysconfig.get_path('purelib')}"}
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as name:
        data = Path(name) / "data"
        data.mkdir()
        (data / "admin.key").write_text(SECRET)
        tries = "; ".join(f"({way.format(data=data)})" for way in ESCAPES.values())
        home = "touch ~nobody/x && echo changed-home" if Path("~nobody").expanduser().is_dir() else "true"
        order = new_order(f"id -u; {tries}; ls -d /proc/[0-9]*; {home}; touch /tmp/mine && echo own-tmp; echo tried")
        for path in (Path(name), data, data / "admin.key"):
            os.chown(path, 65534, 65534)
        usable = subprocess.run([python, "-c", "import msgspec"], env=env, user=65534, cwd="/", check=False)
        if usable.returncode != 0:
            pytest.skip("python3 of this machine cannot run Stoker")
        done = subprocess.run(
            [python, "-c", ORDINARY, str(data), msgspec.json.encode(order).decode()],
            env=env, user=65534, group=65534, extra_groups=[], cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip
    first, *lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    if first == "subreaper False":
        pytest.skip("ordinary users have no namespaces here")
    assert first == "namespaces True"
    assert lines[0] == "65534"
    assert lines[-1] == "tried"
    assert SECRET not in done.stdout
    assert "changed-home" not in lines
    assert "own-tmp" in lines
    assert f"/proc/{os.getpid()}" not in lines
