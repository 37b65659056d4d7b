"""NVIDIA GPUs as their driver shows them. NVML stays initialised between readings, as starting it takes longer than
asking it; after an error it is started anew."""

import contextlib
import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.readings import Readings
from stoker.telemetry.aside import Aside
from stoker.telemetry.machine import GpuNow, of_one_machine

NAME = "nvml"
XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""What a program did wrong, not its GPU."""

_MOST_EVENTS = 1000

T = TypeVar("T")


def nvml(node: str, clock: Clock) -> Aside | None:
    """The source of this machine; None where pynvml is not installed. Nothing is asked of the driver yet."""
    if importlib.util.find_spec("pynvml") is None:
        return None
    driver = Nvml(node, clock)
    return Aside(NAME, driver.read, driver.close)


class Nvml:
    def __init__(self, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._nvml: Any = importlib.import_module("pynvml")
        self._events: Any = None
        self._running = False
        self._xids: dict[int, int] = {}

    def read(self) -> Readings:
        try:
            if not self._running:
                self._start()
            return of_one_machine(self._clock.now(), self._node, self._gpus())
        except self._nvml.NVMLError as error:
            self.close()
            message = f"NVML cannot be read: {error}."
            raise StokerError(ErrorCode.BACKEND_DOWN, message, hint="Look at nvidia-smi and dmesg.") from error

    def close(self) -> None:
        if self._running:
            self._running = False
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def _start(self) -> None:
        self._nvml.nvmlInit()
        self._running = True
        self._xids = {}
        self._events = self._optional(self._nvml.nvmlEventSetCreate)
        for index in range(self._nvml.nvmlDeviceGetCount() if self._events is not None else 0):
            with contextlib.suppress(self._nvml.NVMLError):  # a GPU that is lost reports nothing more
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, self._events)

    def _gpus(self) -> list[GpuNow]:
        self._hear_of_xids()
        return [self._gpu(index) for index in range(self._nvml.nvmlDeviceGetCount())]

    def _gpu(self, index: int) -> GpuNow:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = self._optional(nvml.nvmlDeviceGetMemoryInfo, handle)
            rates = self._optional(nvml.nvmlDeviceGetUtilizationRates, handle)
            milliwatts = self._optional(nvml.nvmlDeviceGetPowerUsage, handle)
            degrees = self._optional(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
            faults = tuple(self._faults(index, handle))
        except (nvml.NVMLError_Uninitialized, nvml.NVMLError_DriverNotLoaded, nvml.NVMLError_LibRmVersionMismatch):
            raise
        except nvml.NVMLError as error:
            return GpuNow(index, faults=(f"Its driver cannot reach it: {error}.",))
        return GpuNow(
            index,
            math.nan if rates is None else rates.gpu / 100,
            math.nan if memory is None else float(memory.used),
            0.0 if memory is None else float(memory.total),
            math.nan if milliwatts is None else milliwatts / 1000,
            math.nan if degrees is None else float(degrees),
            faults,
        )

    def _faults(self, index: int, handle: Any) -> Iterator[str]:
        nvml = self._nvml
        if index in self._xids:
            yield f"Its driver reported XID {self._xids[index]}."
        kind, since_start = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        if errors := self._optional(nvml.nvmlDeviceGetTotalEccErrors, handle, kind, since_start):
            yield f"Its memory had {errors} uncorrected errors since its driver started."
        if self._optional(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle):
            yield "Pages of its memory wait to be retired. Reset it."
        _, _, pending, failed = self._optional(nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
        if failed:
            yield "Rows of its memory could not be replaced. Have it repaired."
        elif pending:
            yield "Rows of its memory wait to be replaced. Reset it."

    def _hear_of_xids(self) -> None:
        for _ in range(_MOST_EVENTS if self._events is not None else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                index = self._nvml.nvmlDeviceGetIndex(event.device)
            except self._nvml.NVMLError:  # a time-out: there are no more
                return
            if event.eventData not in XIDS_OF_PROGRAMS:
                self._xids[index] = event.eventData

    def _optional(self, ask: Callable[..., T], *arguments: object) -> T | None:
        """An answer that not every GPU or driver can give."""
        unable = (
            self._nvml.NVMLError_NotSupported,
            self._nvml.NVMLError_FunctionNotFound,
            self._nvml.NVMLError_NoPermission,
            self._nvml.NVMLError_NoData,
        )
        try:
            return ask(*arguments)
        except unable:
            return None
