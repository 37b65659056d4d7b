"""Follows a workload until it finishes: its detail after each change, and the log lines of its pods.

Events trigger a fetch of the detail; a periodic fetch sees changes without an event, such as the pending reason. An
unreachable server is retried, and no log line is repeated after a reconnect.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from stoker.client.results import PodLogLine
from stoker.client.transport.reconnect import ReconnectPolicy, reconnecting_events
from stoker.client.transport.request_flow import Unreachable
from stoker.domain.errors import ErrorCode, StokerError
from stoker.wire.management import WorkloadDetailView
from stoker.wire.workloads import WorkloadEvent

if TYPE_CHECKING:
    from stoker.client.sdk import Stoker

T = TypeVar("T")
MAX_LOG_LINES = 100_000
POLL_SECONDS = 2.0
POLL_SECONDS_WITHOUT_EVENTS = 0.25
"""How often to fetch the detail until the first event arrives."""
DEBOUNCE_SECONDS = 0.2
QUEUE_SIZE = 10_000


class LogOutput(Struct, frozen=True):
    pod: str
    attempt: int
    line: PodLogLine


class LogSelection(Struct, frozen=True, kw_only=True):
    """Which log lines: of one pod or all, the last ones or those since a time, of one attempt or from the newest on."""

    pod: str = ""
    tail: int = MAX_LOG_LINES
    since: datetime | None = None
    grep: str = ""
    attempt: int | None = None
    all_attempts: bool = False

    def since_seconds(self) -> int | None:
        if self.since is None:
            return None
        return max(1, round((datetime.now(UTC) - self.since).total_seconds()))


class ReadPosition(Struct):
    """The read position in a log: the time of the last line, and how many lines have that time."""

    at: int = -1
    count: int = 0

    def skip_seen(self, lines: Iterator[PodLogLine]) -> Iterator[PodLogLine]:
        """The new lines of a log that is read again from its beginning."""
        last_at, last_count, repeated = self.at if self.count else None, self.count, 0
        for line in lines:
            if last_at is not None:
                repeated += line.at == last_at
                if line.at < last_at or (line.at == last_at and repeated <= last_count):
                    continue
                last_at = None
            self.count = self.count + 1 if line.at == self.at else 1
            self.at = line.at
            yield line


class _PodAttempt(Struct, frozen=True, eq=True):
    pod: str
    attempt: int


class _LogEnded(Struct, frozen=True):
    tail: _PodAttempt


class _AbandonedError(Exception):
    """The consumer is gone, so the thread ends."""


class WorkloadFollower:
    """Follows one workload once, with the log lines that `logs` selects, at most until `deadline`."""

    def __init__(
        self, client: "Stoker", name: str, logs: LogSelection | None = None, *, deadline: float | None = None
    ) -> None:
        self._client = client
        self._name = name
        self._selection = logs
        self._deadline = deadline
        self._queue: queue.Queue[LogOutput | WorkloadEvent | _LogEnded | Exception] = queue.Queue(QUEUE_SIZE)
        self._positions: dict[_PodAttempt, ReadPosition] = {}
        self._open_tails: set[_PodAttempt] = set()
        self._first_attempt = 0
        self._events_received = False
        self._closed = False

    def __iter__(self) -> Iterator[WorkloadDetailView | LogOutput]:
        """Ends when the workload has finished and its logs were read; raises TimeoutError at the deadline."""
        self._start_thread(self._receive_events)
        try:
            yield from self._follow()
        finally:
            self._closed = True

    def _follow(self) -> Iterator[WorkloadDetailView | LogOutput]:
        while True:
            detail = self._fetch_detail()
            yield detail
            self._start_pod_readers(detail)
            fetched_at, has_events, is_stale = time.monotonic(), False, False
            while not is_stale:
                if not self._open_tails and self._is_finished(detail):
                    return
                match self._next_item():
                    case LogOutput() as output:
                        yield output
                    case _LogEnded(tail):
                        self._open_tails.discard(tail)
                    case WorkloadEvent():
                        self._events_received = has_events = True
                    case Exception() as error:
                        raise error
                    case None:
                        is_stale = True
                settled = self._queue.empty() or time.monotonic() - fetched_at > DEBOUNCE_SECONDS
                is_stale = is_stale or (has_events and settled)  # one fetch covers a burst of events

    def _is_finished(self, detail: WorkloadDetailView) -> bool:
        attempt = self._selection.attempt if self._selection else None
        return detail.is_finished or (attempt is not None and attempt < detail.dispatch_count)

    def _next_item(self) -> LogOutput | WorkloadEvent | _LogEnded | Exception | None:
        """The next item; None when it is time to fetch the detail again."""
        seconds = POLL_SECONDS if self._events_received else POLL_SECONDS_WITHOUT_EVENTS
        left = seconds if self._deadline is None else self._deadline - time.monotonic()
        try:
            return self._queue.get(timeout=max(0.0, min(seconds, left)))
        except queue.Empty:
            if left <= seconds and self._deadline is not None:
                raise TimeoutError from None
            return None

    def _fetch_detail(self) -> WorkloadDetailView:
        return self._retry_unreachable(lambda: self._client.workloads.get(self._name))

    def _start_pod_readers(self, detail: WorkloadDetailView) -> None:
        """Start to read pods that are not read yet, and pods that replaced one of the same name."""
        selection = self._selection
        if selection is None or not detail.dispatch_count:
            return
        newest = selection.attempt or detail.dispatch_count
        first = self._first_attempt = self._first_attempt or (1 if selection.all_attempts else newest)
        for attempt in range(first, newest + 1):
            for pod in detail.pods:
                tail = _PodAttempt(pod.pod_id, attempt)
                replaced = attempt == newest and not pod.is_finished and not detail.is_finished
                if (
                    selection.pod in {"", tail.pod}
                    and tail not in self._open_tails
                    and (tail not in self._positions or replaced)
                ):
                    self._open_tails.add(tail)
                    position = self._positions.setdefault(tail, ReadPosition())
                    self._start_thread(lambda tail=tail, position=position: self._read_pod(tail, position, selection))

    def _read_pod(self, tail: _PodAttempt, position: ReadPosition, selection: LogSelection) -> None:
        """Enqueue the lines of one pod after the read position."""

        def read_lines() -> None:
            lines = self._client.workloads.follow_logs(
                self._name,
                tail.pod,
                tail_lines=MAX_LOG_LINES if position.count else selection.tail,
                since_seconds=None if position.count else selection.since_seconds(),
                grep=selection.grep,
                attempt=tail.attempt,
            )
            for line in position.skip_seen(lines):
                self._enqueue(LogOutput(tail.pod, tail.attempt, line))

        try:
            self._retry_unreachable(read_lines)
        except StokerError as error:  # the pod may have been replaced in the meantime
            if error.code is not ErrorCode.NOT_FOUND:
                raise
        self._enqueue(_LogEnded(tail))

    def _receive_events(self) -> None:
        """Enqueue every event of the workload. If events fail, the periodic fetch remains."""
        try:
            for event in reconnecting_events(self._client, self._name, 0):
                self._enqueue(event)
        except (StokerError, msgspec.DecodeError):
            self._events_received = False

    def _retry_unreachable(self, action: Callable[[], T]) -> T:
        """Repeat the action while the server is unreachable."""
        policy = ReconnectPolicy()
        while True:
            try:
                return action()
            except Unreachable as error:
                policy.wait(error)

    def _start_thread(self, action: Callable[[], None]) -> None:
        def run() -> None:
            with contextlib.suppress(_AbandonedError):
                try:
                    action()
                except Exception as error:
                    self._enqueue(error)

        threading.Thread(target=run, daemon=True).start()

    def _enqueue(self, item: LogOutput | WorkloadEvent | _LogEnded | Exception) -> None:
        """Put an item into the queue, waiting while it is full."""
        while not self._closed:
            try:
                return self._queue.put(item, timeout=1)
            except queue.Full:
                continue
        raise _AbandonedError
