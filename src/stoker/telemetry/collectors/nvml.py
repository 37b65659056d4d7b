"""Collects NVIDIA GPUs through NVML.

NVML stays initialised between reads, because initialisation takes longer than a read; after an error it is initialised
again.
"""

import contextlib
import ctypes
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stoker.domain.clock import Clock
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.cluster.samples import GpuSamples
from stoker.domain.errors import ErrorCode, StokerError
from stoker.telemetry.collectors.base import GpuSample, build_node_samples
from stoker.telemetry.collectors.blocking import BlockingCollector

COLLECTOR_NAME = "nvml"
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that an application causes, not a faulty GPU."""

_MAX_EVENTS = 1000

T = TypeVar("T")


def build_nvml_collector(node: str, clock: Clock, ecc_threshold: int = 1) -> BlockingCollector:
    """The collector of this machine. NVML is not initialised before the first read."""
    driver = NvmlDriver(node, clock, ecc_threshold)
    return BlockingCollector(COLLECTOR_NAME, driver.read, driver.close)


class NvmlDriver:
    def __init__(self, node: str, clock: Clock, ecc_threshold: int = 1) -> None:
        """A GPU with `ecc_threshold` or more uncorrected errors is faulty."""
        self._ecc_threshold = ecc_threshold
        self._node = node
        self._clock = clock
        self._nvml: Any = importlib.import_module("pynvml")
        self._events: Any = None
        self._running = False
        self._indices: dict[int | None, int] = {}
        """GPU indices by handle: NVML does not return the index of a lost GPU."""
        self._xids: dict[int, int] = {}
        self._uuids: dict[int, str] = {}
        """UUIDs by index, for the same reason."""

    def read(self) -> GpuSamples:
        try:
            if not self._running:
                self._start()
            return build_node_samples(self._clock.now(), self._node, self._read_gpus())
        except self._nvml.NVMLError as error:
            self.close()
            message = f"NVML cannot be read: {error}."
            raise StokerError(ErrorCode.UNAVAILABLE, message, hint="Look at nvidia-smi and dmesg.") from error

    def close(self) -> None:
        if self._running:
            self._running = False
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def _start(self) -> None:
        self._nvml.nvmlInit()
        self._running = True
        self._indices, self._xids, self._uuids = {}, {}, {}
        self._events = self._query_optional(self._nvml.nvmlEventSetCreate)
        for index in range(self._nvml.nvmlDeviceGetCount()):
            with contextlib.suppress(self._nvml.NVMLError):  # a lost GPU has neither UUID nor events
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                self._uuids[index] = _decode(self._query_optional(self._nvml.nvmlDeviceGetUUID, handle))
                if self._events is None:
                    continue
                self._indices[_handle_address(handle)] = index
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, self._events)

    def _read_gpus(self) -> list[GpuSample]:
        self._poll_xid_events()
        return [self._read_gpu(index) for index in range(self._nvml.nvmlDeviceGetCount())]

    def _read_gpu(self, index: int) -> GpuSample:
        nvml, uuid = self._nvml, self._uuids.get(index, "")
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = self._query_optional(nvml.nvmlDeviceGetMemoryInfo, handle)
            rates = self._query_optional(nvml.nvmlDeviceGetUtilizationRates, handle)
            milliwatts = self._query_optional(nvml.nvmlDeviceGetPowerUsage, handle)
            degrees = self._query_optional(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
            faults = tuple(self._faults(index, handle))
        except (nvml.NVMLError_Uninitialized, nvml.NVMLError_DriverNotLoaded, nvml.NVMLError_LibRmVersionMismatch):
            raise
        except nvml.NVMLError as error:
            lost = f"Its driver cannot reach it: {error}."
            return GpuSample(index, faults=(*self._xid_faults(index), lost), uuid=uuid)
        return GpuSample(
            index,
            math.nan if rates is None else rates.gpu / 100,
            math.nan if memory is None else float(memory.used),
            0.0 if memory is None else float(memory.total),
            math.nan if milliwatts is None else milliwatts / 1000,
            math.nan if degrees is None else float(degrees),
            faults,
            uuid,
        )

    def _faults(self, index: int, handle: Any) -> Iterator[str]:
        nvml = self._nvml
        yield from self._xid_faults(index)
        kind, since_start = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        errors = self._query_optional(nvml.nvmlDeviceGetTotalEccErrors, handle, kind, since_start) or 0
        if errors >= self._ecc_threshold:
            yield f"Its memory had {humanize_count(errors, 'uncorrected error')} since its driver started."
        if self._query_optional(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle):
            yield "Pages of its memory wait to be retired. Reset it."
        _, _, pending, failed = self._query_optional(nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
        if failed:
            yield "Rows of its memory could not be replaced. Have it repaired."
        elif pending:
            yield "Rows of its memory wait to be replaced. Reset it."

    def _xid_faults(self, index: int) -> Iterator[str]:
        if index in self._xids:
            yield f"Its driver reported XID {self._xids[index]}."

    def _poll_xid_events(self) -> None:
        for _ in range(_MAX_EVENTS if self._events is not None else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # a timeout: no more events
                return
            index = self._indices.get(_handle_address(event.device))
            if index is not None and event.eventData not in APPLICATION_XIDS:
                self._xids[index] = event.eventData

    def _query_optional(self, query: Callable[..., T], *arguments: object) -> T | None:
        """The result of a query that not every GPU or driver supports; None if it does not."""
        unsupported = (
            self._nvml.NVMLError_NotSupported,
            self._nvml.NVMLError_FunctionNotFound,
            self._nvml.NVMLError_NoPermission,
            self._nvml.NVMLError_NoData,
        )
        try:
            return query(*arguments)
        except unsupported:
            return None


def _decode(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def _handle_address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
