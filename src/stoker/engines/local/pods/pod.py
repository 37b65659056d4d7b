"""One pod of the local engine: the state that its shim has recorded on disk, and the connection to the shim while it
runs."""

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec

from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase
from stoker.engines.local.logs import has_address_in_use_error
from stoker.engines.local.shim.pod_dir import EXIT_FILE, LOCK_FILE, STARTED_FILE, STATE_FILE, PodDir, parse_record
from stoker.engines.local.shim_client import ShimClient
from stoker.engines.model import ObservedPod
from stoker.engines.proxy.ports import LOOPBACK
from stoker.engines.proxy.tcp import ReplicaAddress
from stoker.engines.replicas.exit_status import describe_exit, describe_out_of_memory
from stoker.engines.replicas.replica import Replica, ReplicaRecord

RECORD_FILE = "pod.json"
READY_FILE = "ready"
"""Holds the start of the run that was found ready, so that a restart of the server does not make the pod unready."""
SHIM_DIED_MESSAGE = "Its shim has died, so nobody saw how the command ended."


class PodRecord(ReplicaRecord, frozen=True, kw_only=True):
    """What is written to the directory of a pod."""

    kind: str
    node: str
    rendezvous_port: int = 0
    devices: tuple[int, ...] | None = None
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    namespaces: bool = True
    groups: tuple[str, ...] = ()
    """The control groups that were created for it."""


class LocalPod(Replica):
    def __init__(self, path: Path, record: PodRecord) -> None:
        super().__init__()
        self.path = path
        self._record = record
        self.shim: ShimClient | None = None
        self.is_lost = False
        self.is_prepared = False
        """Whether this engine has written its directory and nobody has started it."""
        self._running_since: int | None = None
        self._ready_run: int | None = None
        self._address_in_use: tuple[str, bool] | None = None
        """The run that was checked for an "address in use" error, and the result."""
        self._started: dict[str, str] | None = None
        self._state: dict[str, str] = {}
        self._exit: dict[str, str] | None = None

    @property
    def record(self) -> PodRecord:
        return self._record

    def replace_record(self, record: PodRecord) -> None:
        self._record = record

    @property
    def address(self) -> ReplicaAddress | None:
        return ReplicaAddress(LOOPBACK, self._record.port) if self._record.port else None

    @property
    def running_since(self) -> int | None:
        return self._running_since

    @property
    def has_started(self) -> bool:
        return self._started is not None

    @property
    def is_finished(self) -> bool:
        return self.is_lost or self._exit is not None

    @property
    def is_ready(self) -> bool:
        if self.running_since is None or self.is_finished:
            return False
        return self.record.check is None or self._ready_run == self.running_since

    def set_ready(self, ready: bool) -> None:
        self._ready_run = self.running_since if ready else None
        with contextlib.suppress(OSError):  # on a full disk the pod is probed again after the next start
            (self.path / READY_FILE).write_text(str(self._ready_run or ""))

    def reload(self) -> None:
        """Read what the shim has recorded."""
        self._started = self._started or self._read_record(STARTED_FILE)
        self._state = self._read_record(STATE_FILE) or self._state
        self._exit = self._exit or self._read_record(EXIT_FILE)
        if self._ready_run is None and (found := self._read_text(READY_FILE)).isdigit():
            self._ready_run = int(found)
        running = self._state.get("phase") == "running" and not self.is_finished
        self._running_since = int(self._state["since"]) if running else None

    @property
    def shim_pid(self) -> int:
        """The pid of the shim, known before it is connected to; 0 if there is none yet."""
        if self.shim is not None:
            return self.shim.pid
        try:
            return int((self.path / LOCK_FILE).read_text() or "0")
        except (OSError, ValueError):
            return 0

    def is_shim_alive(self) -> bool:
        """Whether the pod's lock is held."""
        try:
            with (self.path / LOCK_FILE).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def mark_never_started(self, reason: str, at: int) -> None:
        """Record the end of a pod that has not started, so that it never will. Does nothing if it has started."""
        with contextlib.suppress(FileNotFoundError):
            folder = PodDir(str(self.path))
            try:
                if (lock := folder.try_lock()) is not None:
                    if not folder.exists(STARTED_FILE) and not folder.exists(EXIT_FILE):
                        folder.write_record(EXIT_FILE, {"reason": reason, "ended_at": at}, durable=True)
                    os.close(lock)
            finally:
                folder.close()
        self.reload()

    def observed(self) -> ObservedPod:
        """The pod as `watch` reports it."""
        record, end = self.record, self._exit or {}
        code = _int_field(end, "code")
        return ObservedPod(
            uid=record.uid,
            name=record.name,
            workload_uid=record.workload_uid,
            attempt=record.attempt,
            revision=record.revision,
            node=record.node,
            phase=self._phase(code),
            ready=self.is_ready,
            exit_code=code,
            signal=_int_field(end, "signal") or None,
            message=self._message(),
            restarts=_int_field(end, "restarts") or _int_field(self._state, "restarts") or 0,
            port=record.port,
            started_at=_int_field(self._started or {}, "at"),
            ended_at=_int_field(end, "ended_at"),
            devices=None if record.devices is None else tuple(map(DeviceRef, record.devices)),
            rank=record.rank,
            resources=Resources(record.gpu_milli, record.cpu_milli, record.memory_bytes),
        )

    def _phase(self, code: int | None) -> PodPhase:
        if self._exit is not None:
            return PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
        if self.is_lost:
            return PodPhase.LOST
        return PodPhase.RUNNING if self.has_started else PodPhase.PENDING

    def _message(self) -> str:
        if self._exit is not None:
            if self._exit.get("reason"):
                return self._exit["reason"]
            if self._exit.get("oom") == "1" and self._exit.get("code") != "0":
                return describe_out_of_memory(self.record.memory_bytes)
            return _describe_exit(self._exit)
        if self.is_lost:
            return SHIM_DIED_MESSAGE
        if self._state.get("phase") == "waiting":
            wait = (int(self._state["again_at"]) - int(self._state["since"])) / 1000
            again = f"{_describe_exit(self._state) or 'The command ended.'} It starts again in {wait:.0f} s."
            return f"{again} {self._port_hint()}".rstrip()
        return "" if self.is_ready else self.unready_reason

    def _port_hint(self) -> str:
        """A hint for a run that has found its address in use."""
        run = self._state.get("restarts", "")
        if self._address_in_use is None or self._address_in_use[0] != run:
            self._address_in_use = (run, has_address_in_use_error(self.path))
        if not self._address_in_use[1]:
            return ""
        if self.record.port:
            own = f"Let it listen on the port in $PORT ({self.record.port}), which this replica has for itself."
        else:
            own = "Give the workload a service: then each replica has a port of its own, in $PORT."
        return f"It found its address in use. {own}"

    def _read_text(self, name: str) -> str:
        try:
            return (self.path / name).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return ""

    def _read_record(self, name: str) -> dict[str, str] | None:
        try:
            return parse_record((self.path / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None


def read_pod(path: Path) -> LocalPod | None:
    """Read a pod from its directory; None while the directory is not complete."""
    try:
        record = msgspec.json.decode((path / RECORD_FILE).read_bytes(), type=PodRecord)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None
    pod = LocalPod(path, record)
    pod.reload()
    return pod


def _int_field(fields: dict[str, str], name: str) -> int | None:
    return int(fields[name]) if name in fields else None


def _describe_exit(fields: dict[str, str]) -> str:
    return describe_exit(int(fields["code"]), int(fields["signal"]))
