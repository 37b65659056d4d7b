"""A real Docker engine from Debian's packages, in namespaces of its own.

Nothing is installed: the packages are unpacked into the user's cache directory. Network, mounts and processes of the
engine are in namespaces that end with it, so nothing is left behind; the tests enter the network namespace, because
that is where ports are published. There are no GPUs: a stub of NVIDIA's hook makes dockerd accept device requests.
"""

import contextlib
import ctypes
import fcntl
import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import msgspec
import pytest
from tests.debian import unpack_package
from tests.engines.docker.tls import make_certificates

PACKAGES = ("docker.io", "containerd", "runc", "tini", "busybox-static", "docker-registry")
IMAGE = "stoker-test/busybox:1"
SHELL_LESS_IMAGE = "stoker-test/no-shell:1"
_START_SECONDS = 30.0
_STOP_SECONDS = 60.0
_CLONE_NEWNET = 0x40000000
_PARENT, _PREFIX = "/var/tmp", "stoker-docker-"


def unpack_programs() -> Path:
    """The directory with all programs of the engine; downloaded at the first call."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stoker-test-engines"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for package in PACKAGES:
            if not (cache / package).exists() and (reason := unpack_package(cache, package, cache / package)):
                pytest.fail(reason)
        programs = cache / "bin"
        programs.mkdir(exist_ok=True)
        for package in PACKAGES:
            for found in [*cache.glob(f"{package}/usr/*bin/*"), *cache.glob(f"{package}/bin/*")]:
                with contextlib.suppress(FileExistsError):
                    (programs / found.name).symlink_to(found)
        hook = programs / "nvidia-container-runtime-hook"
        hook.write_text("#!/bin/sh\n# A stub: there are no GPUs, and containers get none.\ncat >/dev/null\nexit 0\n")
        hook.chmod(0o755)
    return programs


class DockerDaemon:
    """One dockerd. `kill` and `start` again is a crash of it; `close` ends everything that it has started."""

    def __init__(self) -> None:
        self.programs = unpack_programs()
        self.folder, self._lock = _make_folder(self.programs.parent / "lock")
        self.socket = self.folder / "docker.sock"
        self.live_restore = False
        self._name = self.folder.name
        self.tls_url = "tcp://127.0.0.1:2376"
        self._init: subprocess.Popen[bytes] | None = None
        self._dockerd: subprocess.Popen[bytes] | None = None
        self._own_network = -1

    @property
    def certificates(self) -> Path:
        """Directories `server` and `client`, each with ca.pem, cert.pem and key.pem."""
        return self.folder / "certificates"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start dockerd, and wait until it answers."""
        if self._init is None:
            self._start_namespaces()
            make_certificates(self.certificates)
        self._write_config()
        for leftover in (self.folder / "exec/containerd/containerd.pid", self.folder / "docker.pid", self.socket):
            leftover.unlink(missing_ok=True)
        hosts = ["-H", self.url, "-H", self.tls_url, "--tlsverify"]
        for flag, name in (("--tlscacert", "ca.pem"), ("--tlscert", "cert.pem"), ("--tlskey", "key.pem")):
            hosts += [flag, str(self.certificates / "server" / name)]
        directories = ["--data-root", self.folder / "data", "--exec-root", self.folder / "exec"]
        config = ["--config-file", self.folder / "daemon.json", "--pidfile", self.folder / "docker.pid"]
        with (self.folder / "dockerd.log").open("ab") as output:
            self._dockerd = subprocess.Popen(
                [*self._enter(), self.programs / "dockerd", *hosts, *directories, *config],
                stdout=output,
                stderr=output,
                env=self._env(),
            )
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Stop dockerd as an operator does; it stops its containers, unless `live_restore` is set."""
        assert self._dockerd is not None
        os.kill(self._dockerd_pid(), signal.SIGTERM)
        self._dockerd.wait(_STOP_SECONDS)

    def kill(self) -> None:
        """Kill dockerd and its containerd; the processes of containers survive."""
        assert self._dockerd is not None
        victims = [self._dockerd_pid(), *self._containerd_pids()]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._dockerd.wait(_STOP_SECONDS)

    def freeze(self, *, frozen: bool = True) -> None:
        """Let dockerd hang."""
        assert self._dockerd is not None
        for pid in (self._dockerd_pid(), self._dockerd.pid):  # nsenter stops with its child
            os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    def enter_network(self) -> None:
        """Move the calling thread into the network of the engine."""
        assert self._init is not None
        if self._own_network < 0:
            self._own_network = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        with Path(f"/proc/{self._init_pid()}/ns/net").open("rb") as network:
            _set_network(network.fileno())

    def leave_network(self) -> None:
        if self._own_network >= 0:
            _set_network(self._own_network)
            os.close(self._own_network)
            self._own_network = -1

    def client(self) -> httpx.Client:
        """A client of the engine that is not Stoker's."""
        return httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://docker/v1.41", timeout=60
        )

    def import_images(self) -> None:
        """Make the images of the tests."""
        program = (self.programs / "busybox").resolve()
        listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
        busybox = program.read_bytes()
        with self.client() as client:
            for image, applets in ((IMAGE, listed), (SHELL_LESS_IMAGE, ["true"])):
                repository, _, tag = image.partition(":")
                changes = ["ENV PATH=/bin", *(['CMD ["/bin/true"]'] if image == SHELL_LESS_IMAGE else [])]
                answer = client.post(
                    "/images/create",
                    params={"fromSrc": "-", "repo": repository, "tag": tag, "changes": changes},
                    content=_root_file_system(busybox, applets),
                )
                answer.raise_for_status()

    def docker(self, *arguments: str) -> str:
        """Run the docker command, as somebody who does not use Stoker."""
        command = [*self._enter(), self.programs / "docker", "-H", self.url, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=self._env())
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def spawn(self, *command: str | Path) -> subprocess.Popen[bytes]:
        """Run a program in the namespaces of the engine; it ends with them."""
        return subprocess.Popen([*self._enter(), *command], env=self._env())

    def close(self) -> None:
        """End everything in the namespaces, and remove what is left on disk."""
        self.leave_network()
        if self._init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init_pid(), signal.SIGKILL)
            self._init.wait(_STOP_SECONDS)
            self._init = None
        if self._dockerd is not None:
            self._dockerd.wait(_STOP_SECONDS)
        _remove_folder(self.folder)
        self._lock.close()

    def leftovers(self) -> list[str]:
        """Mounts and control groups of a closed engine that still exist."""
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if self._name in line]
        return mounts + [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{self._name}")]

    def _start_namespaces(self) -> None:
        enter = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
        setup = "ip link set lo up && mount -t tmpfs tmpfs /run && exec tini -s -- sleep infinity"
        self._init = subprocess.Popen(
            [*enter, "--kill-child", "sh", "-c", setup],
            env=self._env(),
            stderr=subprocess.DEVNULL,
        )
        give_up = time.monotonic() + _START_SECONDS
        while not _is_tini(self._init.pid):
            assert time.monotonic() < give_up, "the namespaces of the engine were not made"
            assert self._init.poll() is None, "unshare has failed; this needs root"
            time.sleep(0.01)

    def _init_pid(self) -> int:
        assert self._init is not None
        return _children(self._init.pid)[0]

    def _dockerd_pid(self) -> int:
        assert self._dockerd is not None
        return _children(self._dockerd.pid)[0]  # nsenter waits for it

    def _containerd_pids(self) -> list[int]:
        return [pid for pid in _children(self._dockerd_pid()) if "containerd" in _command(pid)]

    def _enter(self) -> list[str | Path]:
        return ["nsenter", "-t", str(self._init_pid()), "--net", "--mount", "--pid", "--"]

    def _env(self) -> dict[str, str]:
        nobody = "http://127.0.0.1:9"  # no registry is asked for a missing image
        path = f"{self.programs}:{os.environ['PATH']}"
        return {
            "PATH": path,
            "HOME": str(self.folder),
            "HTTP_PROXY": nobody,
            "HTTPS_PROXY": nobody,
            "NO_PROXY": "127.0.0.0/8",
        }

    def _write_config(self) -> None:
        config = {
            "iptables": False,
            "ip6tables": False,
            "bridge": "none",
            "storage-driver": "overlay2",
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "cgroup-parent": f"/{self._name}",
            "init-path": str(self.programs / "tini-static"),
            "log-level": "warn",
            "live-restore": self.live_restore,
            "shutdown-timeout": 2,
            "deprecated-key-path": str(self.folder / "key.json"),
        }
        (self.folder / "daemon.json").write_bytes(msgspec.json.encode(config))

    def _accepts_connections(self) -> bool:
        with socket.socket(socket.AF_UNIX) as trial:
            return trial.connect_ex(str(self.socket)) == 0

    def _wait_until_it_answers(self) -> None:
        give_up = time.monotonic() + _START_SECONDS
        while True:
            if self._accepts_connections():
                with self.client() as client:
                    client.get("/_ping").raise_for_status()
                return
            assert self._dockerd is not None
            text = (self.folder / "dockerd.log").read_text()[-2000:]
            assert self._dockerd.poll() is None, f"dockerd has ended: {text}"
            assert time.monotonic() < give_up, f"dockerd does not answer: {text}"
            time.sleep(0.02)


@contextlib.contextmanager
def running_daemon() -> Iterator[DockerDaemon]:
    """An engine with the images of the tests; the calling thread is in its network meanwhile."""
    daemon = DockerDaemon()
    try:
        daemon.start()
        daemon.import_images()
        daemon.enter_network()
        yield daemon
    finally:
        daemon.close()
    assert daemon.leftovers() == []


def _root_file_system(busybox: bytes, applets: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("bin", "tmp", "proc", "sys", "dev", "etc"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(busybox), 0o755
        archive.addfile(entry, io.BytesIO(busybox))
        for name in set(applets) - {"busybox"}:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return buffer.getvalue()


def _set_network(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns has failed")


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _command(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def _is_tini(unshare_pid: int) -> bool:
    return any("tini" in _command(child).split(" ")[0] for child in _children(unshare_pid))


def _make_folder(guard: Path) -> tuple[Path, IO[bytes]]:
    """A directory for an engine, locked for as long as it is in use; those of tests that were killed are removed."""
    with guard.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in Path(_PARENT).glob(f"{_PREFIX}*"):
            with contextlib.suppress(BlockingIOError, FileNotFoundError), (stale / "lock").open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_folder(stale)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_PARENT))
        own = (folder / "lock").open("wb")
        fcntl.flock(own, fcntl.LOCK_EX)
        return folder, own


def _remove_folder(folder: Path) -> None:
    for group in [*Path("/sys/fs/cgroup").glob(f"*/{folder.name}"), Path("/sys/fs/cgroup") / folder.name]:
        _remove_groups(group)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_groups(folder: Path) -> None:
    """Remove a control group and those below it; a group is busy for a moment after its last process."""
    for group in sorted(folder.glob("**/"), key=lambda path: len(path.parts), reverse=True):
        for _ in range(100):
            with contextlib.suppress(FileNotFoundError):
                try:
                    group.rmdir()
                except OSError:
                    time.sleep(0.02)
                    continue
            break
