"""What the conformance suite has to know about an engine. A new engine adds one subclass of `EngineFixture`."""

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from stoker.domain.cluster.node import DeviceRef
from stoker.engines.model import LaunchSpec, ObservedPod
from stoker.engines.protocol import Engine

POD_UID_VARIABLE = "CONFORMANCE_POD_UID"
"""The suite gives this variable to every pod: the processes of a pod are those that have its uid in it."""


class Feature(StrEnum):
    """What some behaviours need and not every engine or machine has."""

    PROGRAMS = "pods run real programs"
    MEMORY_LIMITS = "the memory of pods is limited"
    WORKING_DIRECTORY = "workloads have a working directory"
    SECOND_ENGINE = "two engine objects can use the backend at once"
    CRASH_POINTS = "the process can be killed inside of apply"
    BACKEND_CUT = "contact with the backend can be lost"
    FOREIGN = "the engine reports what others run"


class OpenerArguments(Struct, frozen=True):
    """How another process opens an engine on the same backend: `opener` is `module:function`, an async function of one
    text."""

    opener: str
    argument: str


class EngineFixture(ABC):
    """A backend for one test, and the engine objects on it.

    `unsupported` states what the engine or this machine cannot do, each with the reason; tests that need it are
    skipped with that reason.
    """

    unsupported: Mapping[Feature, str] = {}
    node_name: str = "conformance"
    image: str = ""
    crash_points: tuple[str, ...] = ()
    """The failpoints inside of `apply`, in order. At the first one the pod exists and has not started."""
    answer_script: str = ""
    """A shell command that listens on $PORT and answers each connection with $CONFORMANCE_POD_UID."""
    connect_script: str = ""
    """A shell command that prints what is answered at $MASTER_ADDR:$MASTER_PORT, as soon as something is."""

    @abstractmethod
    async def open(self) -> Engine:
        """A new engine object on the same backend, as after a restart of the server."""

    @abstractmethod
    def opener_arguments(self) -> OpenerArguments: ...

    @abstractmethod
    def leftovers(self, pod_uids: Collection[str]) -> list[str]:
        """What is left of pods that were released and of workloads that were purged; the engine is closed."""

    async def pass_time(self, changed: asyncio.Event) -> None:
        """Let a moment pass; it ends early when something was reported."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await changed.wait()

    async def settle(self) -> None:
        """Let enough time pass that something wrong would have happened."""
        await asyncio.sleep(0.3)

    def processes(self, pod_uid: str) -> list[str]:
        """The processes of a pod that still run."""
        return processes_with_variable(POD_UID_VARIABLE, pod_uid)

    def read_work_file(self, launch_spec: LaunchSpec, name: str) -> str | None:
        """A file in the working directory of a job; None if it does not exist."""
        raise NotImplementedError

    def has_working_directory(self, launch_spec: LaunchSpec) -> bool:
        raise NotImplementedError

    def visible_devices(self, devices: Sequence[DeviceRef]) -> Mapping[str, str]:
        """The variables by which a pod finds these devices."""
        raise NotImplementedError

    def cut(self) -> None:
        """Cut the contact with the backend. Its pods keep running."""
        raise NotImplementedError

    def restore(self) -> None:
        """Undo `cut`."""
        raise NotImplementedError

    def start_foreign(self) -> str:
        """Start something outside of Stoker that holds a GPU; its name."""
        raise NotImplementedError

    def is_foreign_running(self, name: str) -> bool:
        raise NotImplementedError

    async def open_other_installation(self) -> Engine:
        """An engine object of another installation of Stoker on the same backend."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Remove what the fixture itself has made."""


def processes_with_variable(name: str, value: str) -> list[str]:
    """The command lines of all processes of this machine, dead ones aside, whose environment has the variable."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"{name}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def stable_fields(pod: ObservedPod) -> dict[str, object]:
    """What is reported of a running pod and must not change when another engine object reports it."""
    names = (
        "uid name workload_uid attempt revision node phase owner_ref owner_uid engine_uid rank exit_code signal "
        "restarts port created_at started_at ended_at devices resources"
    )
    return {name: getattr(pod, name) for name in names.split()}
