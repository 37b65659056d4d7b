"""One pod in the engine's memory: what its keeper has recorded on disk, and the link to the keeper while it lives."""

import asyncio
import contextlib
import fcntl
import os
import signal
from pathlib import Path

import msgspec
from msgspec import Struct

from stoker.domain.quantity import spoken_bytes
from stoker.domain.workload import Kind, PodPhase, Service
from stoker.engines.base import PodSeen
from stoker.engines.local.keeper.folder import EXIT, LOCK, STARTED, STATE, Folder, fields_of
from stoker.engines.local.link import Link

RECORD = "pod.json"
LOST = "Its keeper has died, so nobody saw how the command ended."


class PodRecord(Struct, frozen=True, kw_only=True):
    """What must be known of a pod after a restart of the server."""

    uid: str
    name: str
    workload_uid: str
    slug: str
    kind: Kind
    attempt: int
    revision: int
    rank: int
    node: str
    port: int = 0
    service: Service | None = None
    memory_bytes: int = 0
    namespaces: bool = True
    groups: tuple[str, ...] = ()
    """Control groups that were made for it."""


class Pod:
    def __init__(self, path: Path, record: PodRecord) -> None:
        self.path = path
        self.record = record
        self.link: Link | None = None
        self.lost = False
        self.up_since: int | None = None
        """When the present run of the command began; None while none runs."""
        self._started: dict[str, str] | None = None
        self._state: dict[str, str] = {}
        self._exit: dict[str, str] | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def started(self) -> bool:
        return self._started is not None

    @property
    def ended(self) -> bool:
        return self.lost or self._exit is not None

    @property
    def ready(self) -> bool:
        return self.up_since is not None and not self.ended

    def look(self) -> None:
        """Read what the keeper has recorded."""
        self._started = self._started or self._fields(STARTED)
        self._state = self._fields(STATE) or self._state
        self._exit = self._exit or self._fields(EXIT)
        running = self._state.get("phase") == "running" and not self.ended
        self.up_since = int(self._state["since"]) if running else None

    def keeper_lives(self) -> bool:
        """Whether somebody holds the lock."""
        try:
            with (self.path / LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def never(self, reason: str, at: int) -> None:
        """End a pod that has not begun, so that it never will; nothing happens if it has."""
        with contextlib.suppress(FileNotFoundError):
            folder = Folder(str(self.path))
            try:
                if (lock := folder.lock()) is not None:
                    if not folder.has(STARTED) and not folder.has(EXIT):
                        folder.record(EXIT, {"reason": reason, "ended_at": at}, durable=True)
                    os.close(lock)
            finally:
                folder.close()
        self.look()

    async def change(self) -> None:
        """Wait until something about the pod is different."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    def wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def seen(self) -> PodSeen:
        """The pod as `observe` reports it."""
        record, end = self.record, self._exit or {}
        code = _number(end, "code")
        return PodSeen(
            uid=record.uid,
            name=record.name,
            workload_uid=record.workload_uid,
            attempt=record.attempt,
            revision=record.revision,
            node=record.node,
            phase=self._phase(code),
            ready=self.ready,
            exit_code=code,
            signal=_number(end, "signal") or None,
            message=self._message(),
            restarts=_number(end, "restarts") or _number(self._state, "restarts") or 0,
            port=record.port,
            started_at=_number(self._started or {}, "at"),
            ended_at=_number(end, "ended_at"),
        )

    def _phase(self, code: int | None) -> PodPhase:
        if self._exit is not None:
            return PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
        if self.lost:
            return PodPhase.LOST
        return PodPhase.RUNNING if self.started else PodPhase.PENDING

    def _message(self) -> str:
        if self._exit is not None:
            if self._exit.get("reason"):
                return self._exit["reason"]
            if self._exit.get("oom") == "1" and self._exit.get("code") != "0":
                memory = spoken_bytes(self.record.memory_bytes)
                return f"It needed more memory than the {memory} it asked for. Ask for more."
            return _end_words(self._exit)
        if self.lost:
            return LOST
        if self._state.get("phase") == "waiting":
            wait = (int(self._state["again_at"]) - int(self._state["since"])) / 1000
            return f"{_end_words(self._state) or 'The command ended.'} It starts again in {wait:.0f} s."
        return ""

    def _fields(self, name: str) -> dict[str, str] | None:
        try:
            return fields_of((self.path / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None


def read_pod(path: Path) -> Pod | None:
    """A pod from its folder; None while the folder is not complete."""
    try:
        record = msgspec.json.decode((path / RECORD).read_bytes(), type=PodRecord)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None
    pod = Pod(path, record)
    pod.look()
    return pod


def _number(fields: dict[str, str], name: str) -> int | None:
    return int(fields[name]) if name in fields else None


def _end_words(fields: dict[str, str]) -> str:
    number = int(fields["signal"])
    if number:
        name = signal.Signals(number).name if number in set(signal.Signals) else "unnamed"
        return f"The command was ended by signal {number} ({name})."
    return "" if fields["code"] == "0" else f"The command ended with exit code {fields['code']}."
