"""Follows a workload to its end: what it is each time it changes, and every line that its pods print.

The server tells when there is something to look at; a look every now and then sees what it does not tell, such as
why a workload waits. A server that is gone for a while is waited for, and no line comes twice after that.
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

from stoker.client.exchange import Unreachable
from stoker.client.patience import Patience, lasting_events
from stoker.client.workload_shapes import LogLine, WorkloadDetail, WorkloadEvent
from stoker.domain.errors import ErrorCode, StokerError

if TYPE_CHECKING:
    from stoker.client.client import Stoker

T = TypeVar("T")
MOST_LINES = 100_000
LOOK_SECONDS = 2.0
UNTOLD_LOOK_SECONDS = 0.25
"""How often to look while the server has not told anything."""
SETTLE_SECONDS = 0.2
WAITING = 10_000


class Output(Struct, frozen=True):
    pod: str
    attempt: int
    line: LogLine


class LogChoice(Struct, frozen=True, kw_only=True):
    """Which lines: of one pod or all, the last ones or those since, of one attempt or from the newest on."""

    pod: str = ""
    tail: int = MOST_LINES
    since: datetime | None = None
    grep: str = ""
    attempt: int | None = None
    every_attempt: bool = False

    def since_seconds(self) -> int | None:
        if self.since is None:
            return None
        return max(1, round((datetime.now(UTC) - self.since).total_seconds()))


class Seen(Struct):
    """How far a log was read: the time of the last line, and how many lines have that time."""

    at: int = -1
    count: int = 0

    def unseen(self, lines: Iterator[LogLine]) -> Iterator[LogLine]:
        """What is new in a log that is read from its beginning again."""
        before, known, again = self.at if self.count else None, self.count, 0
        for line in lines:
            if before is not None:
                again += line.at == before
                if line.at < before or (line.at == before and again <= known):
                    continue
                before = None
            self.count = self.count + 1 if line.at == self.at else 1
            self.at = line.at
            yield line


class _Tail(Struct, frozen=True, eq=True):
    pod: str
    attempt: int


class _Over(Struct, frozen=True):
    tail: _Tail


class _Left(Exception):  # noqa: N818 - it says what the reader did
    """Nobody takes anything any more: the thread may end."""


class Follow:
    """One workload, followed once. Its lines too when `logs` says which; not longer than until `deadline`."""

    def __init__(
        self, client: "Stoker", name: str, logs: LogChoice | None = None, *, deadline: float | None = None
    ) -> None:
        self._client = client
        self._name = name
        self._logs = logs
        self._deadline = deadline
        self._queue: queue.Queue[Output | WorkloadEvent | _Over | Exception] = queue.Queue(WAITING)
        self._seen: dict[_Tail, Seen] = {}
        self._open: set[_Tail] = set()
        self._first_attempt = 0
        self._told = False
        self._closed = False

    def __iter__(self) -> Iterator[WorkloadDetail | Output]:
        """Ends when the workload has ended and everything it printed was read; TimeoutError at the deadline."""
        self._start(self._listen)
        try:
            yield from self._follow()
        finally:
            self._closed = True

    def _follow(self) -> Iterator[WorkloadDetail | Output]:
        while True:
            detail = self._look()
            yield detail
            self._read_pods(detail)
            looked, news, stale = time.monotonic(), False, False
            while not stale:
                if not self._open and self._is_over(detail):
                    return
                match self._next():
                    case Output() as output:
                        yield output
                    case _Over(tail):
                        self._open.discard(tail)
                    case WorkloadEvent():
                        self._told = news = True
                    case Exception() as error:
                        raise error
                    case None:
                        stale = True
                settled = self._queue.empty() or time.monotonic() - looked > SETTLE_SECONDS
                stale = stale or (news and settled)  # of many changes at once only the last matters

    def _is_over(self, detail: WorkloadDetail) -> bool:
        chosen = self._logs.attempt if self._logs else None
        return detail.ended or (chosen is not None and chosen < detail.dispatch_count)

    def _next(self) -> Output | WorkloadEvent | _Over | Exception | None:
        """What came; None when it is time to look again."""
        seconds = LOOK_SECONDS if self._told else UNTOLD_LOOK_SECONDS
        left = seconds if self._deadline is None else self._deadline - time.monotonic()
        try:
            return self._queue.get(timeout=max(0.0, min(seconds, left)))
        except queue.Empty:
            if left <= seconds and self._deadline is not None:
                raise TimeoutError from None
            return None

    def _look(self) -> WorkloadDetail:
        return self._patiently(lambda: self._client.workloads.get(self._name))

    def _read_pods(self, detail: WorkloadDetail) -> None:
        """Begin to read the pods that are not read yet, and those that were replaced by one of the same name."""
        chosen = self._logs
        if chosen is None or not detail.dispatch_count:
            return
        newest = chosen.attempt or detail.dispatch_count
        first = self._first_attempt = self._first_attempt or (1 if chosen.every_attempt else newest)
        for attempt in range(first, newest + 1):
            for pod in detail.pods:
                tail = _Tail(pod.pod_id, attempt)
                replaced = attempt == newest and not pod.ended and not detail.ended
                if chosen.pod in {"", tail.pod} and tail not in self._open and (tail not in self._seen or replaced):
                    self._open.add(tail)
                    seen = self._seen.setdefault(tail, Seen())
                    self._start(lambda tail=tail, seen=seen: self._read(tail, seen, chosen))

    def _read(self, tail: _Tail, seen: Seen, chosen: LogChoice) -> None:
        """Every line of one pod, from where it was read to."""

        def lines() -> None:
            found = self._client.workloads.follow_logs(
                self._name,
                tail.pod,
                tail_lines=MOST_LINES if seen.count else chosen.tail,
                since_seconds=None if seen.count else chosen.since_seconds(),
                grep=chosen.grep,
                attempt=tail.attempt,
            )
            for line in seen.unseen(found):
                self._put(Output(tail.pod, tail.attempt, line))

        try:
            self._patiently(lines)
        except StokerError as error:  # a pod that was there a moment ago may have been replaced
            if error.code is not ErrorCode.NOT_FOUND:
                raise
        self._put(_Over(tail))

    def _listen(self) -> None:
        """Every change from the first on. Without them a look every now and then has to do."""
        try:
            for event in lasting_events(self._client, self._name, 0):
                self._put(event)
        except (StokerError, msgspec.DecodeError):
            self._told = False

    def _patiently(self, act: Callable[[], T]) -> T:
        """Do it again while the server is not there."""
        patience = Patience()
        while True:
            try:
                return act()
            except Unreachable as error:
                patience.bear(error)

    def _start(self, act: Callable[[], None]) -> None:
        def run() -> None:
            with contextlib.suppress(_Left):
                try:
                    act()
                except Exception as error:
                    self._put(error)

        threading.Thread(target=run, daemon=True).start()

    def _put(self, item: Output | WorkloadEvent | _Over | Exception) -> None:
        """Wait for room."""
        while not self._closed:
            try:
                return self._queue.put(item, timeout=1)
            except queue.Full:
                continue
        raise _Left
