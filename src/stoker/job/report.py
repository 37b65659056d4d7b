"""`stoker.report(step, loss=...)`: reports training metrics to Stoker.

A call adds its values to a queue and returns. A thread sends the queue, retries while the server is unreachable, and
sends a last time at exit. A rejected batch is split, so that only invalid reports are dropped. No failure reaches the
caller: each kind is warned about once.
"""

import atexit
import json
import logging
import math
import os
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any, NamedTuple

BATCH_INTERVAL_SECONDS = 0.5
SEND_BATCH_SIZE = 1000
MAX_QUEUED_REPORTS = 20_000
"""Reports queued while the server is unreachable; the oldest are dropped beyond this."""
MAX_METRICS_PER_REPORT = 64
REQUEST_TIMEOUT_SECONDS = 5.0
SHUTDOWN_TIMEOUT_SECONDS = 6.0
SHUTDOWN_RETRY_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 30.0
BAD_REQUEST = 400
TOO_LARGE = 413
PERMANENT_FAILURE_STATUSES = frozenset({BAD_REQUEST, 401, 403, 404, 409, TOO_LARGE, 422})

QueuedReport = tuple[int | None, int, dict[str, float]]
"""Step, epoch milliseconds, metrics."""

log = logging.getLogger("stoker.report")


def report(step: int | None = None, **metrics: Any) -> None:
    """Report metrics of a step: numbers, or anything that `float` accepts. Values that are not finite are left out."""
    try:
        _get_reporter().add(step, metrics)
    except Exception as error:  # whatever the error, training continues
        _warn_once("unreported", f"training metrics are not reported: {error}")


class Reporter:
    """The reporter of one process; after a fork the child starts a new one."""

    def __init__(self, url: str, token: str) -> None:
        self.pid = os.getpid()
        self._url = url
        self._token = token
        rank = os.environ.get("RANK", "")
        self._rank = {"rank": int(rank)} if rank.isdecimal() else {}
        self._queue: deque[QueuedReport] = deque(maxlen=MAX_QUEUED_REPORTS)
        self._has_reports = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stoker-report", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def add(self, step: int | None, metrics: dict[str, Any]) -> None:
        values: dict[str, float] = {}
        for name, value in metrics.items():
            number = float(value)
            if math.isfinite(number):
                values[name] = number
        if len(values) > MAX_METRICS_PER_REPORT:
            raise ValueError(f"a report holds {len(values)} metrics; {MAX_METRICS_PER_REPORT} are allowed")
        if values:
            self._queue.append((None if step is None else int(step), time.time_ns() // 1_000_000, values))
            if not self._has_reports.is_set():
                self._has_reports.set()

    def close(self) -> None:
        """Send the remaining reports, for a few seconds at most."""
        if self.pid == os.getpid():
            self._closing.set()
            self._has_reports.set()
            self._thread.join(SHUTDOWN_TIMEOUT_SECONDS)

    def _run(self) -> None:
        pause = BATCH_INTERVAL_SECONDS
        while not self._closing.is_set() or self._queue:
            self._has_reports.wait()
            self._closing.wait(pause)
            if not self._closing.is_set():
                self._has_reports.clear()
            sent = [self._queue.popleft() for _ in range(min(SEND_BATCH_SIZE, len(self._queue)))]
            left = self._send_batch(sent)
            if not left:
                pause = BATCH_INTERVAL_SECONDS
                if self._queue:
                    self._has_reports.set()
                continue
            room = MAX_QUEUED_REPORTS - len(self._queue)
            self._queue.extendleft(reversed(left[len(left) - min(room, len(left)) :]))
            self._has_reports.set()
            pause = min(MAX_BACKOFF_SECONDS, pause * 2)
            if self._closing.is_set():
                time.sleep(SHUTDOWN_RETRY_SECONDS)  # until the process exits, which waits for a short time

    def _send_batch(self, held: list[QueuedReport]) -> list[QueuedReport]:
        """Send reports; returns those that have to be sent again. Accepted reports are never among them."""
        if not held:
            return []
        refusal = self._post(held)
        if refusal is None:
            return []
        if refusal.is_splittable and len(held) > 1:
            middle = len(held) // 2
            left = self._send_batch(held[:middle])
            return left + held[middle:] if left else self._send_batch(held[middle:])
        if not refusal.is_permanent:
            _warn_once("away", f"training metrics cannot be sent now: {refusal.message}")
            return held
        which = f"{len(held)} reports" if len(held) > 1 else f"the report of step {held[0][0]}"
        _warn_once("refused", f"training metrics are lost: the server refused {which}: {refusal.message}")
        return []

    def _post(self, held: list[QueuedReport]) -> "_SendFailure | None":
        """Send one request; returns None if it was accepted."""
        from urllib.error import HTTPError
        from urllib.request import ProxyHandler, Request, build_opener

        reports = [
            {"step": step, "at": _format_rfc3339(at), "metrics": values, **self._rank} for step, at, values in held
        ]
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = Request(self._url, json.dumps(reports).encode(), headers)  # noqa: S310 - the address that Stoker set
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=REQUEST_TIMEOUT_SECONDS):
                return None
        except HTTPError as error:
            with error:
                message = error.read(500).decode("utf-8", "replace") or f"{error.code} {error.reason}"
            return _SendFailure(
                message, error.code in PERMANENT_FAILURE_STATUSES, error.code in {BAD_REQUEST, TOO_LARGE}
            )
        except Exception as error:
            # a server that rejects a large body before reading it may close the connection before the response is read
            cause = getattr(error, "reason", error)
            return _SendFailure(str(error), False, isinstance(cause, ConnectionResetError | BrokenPipeError))


class _SendFailure(NamedTuple):
    """Why reports were not accepted. `final`: a retry cannot succeed; `divisible`: smaller batches may succeed."""

    message: str
    is_permanent: bool
    is_splittable: bool


_lock = threading.Lock()
_active_reporter: Reporter | None = None
_warned: set[str] = set()


def _get_reporter() -> Reporter:
    global _active_reporter
    if _active_reporter is not None and _active_reporter.pid == os.getpid():
        return _active_reporter
    with _lock:
        if _active_reporter is None or _active_reporter.pid != os.getpid():
            url, token = os.environ.get("STOKER_REPORT_URL"), os.environ.get("STOKER_REPORT_TOKEN")
            if not url or not token:
                raise RuntimeError("this does not run in a pod of Stoker that can be reported from")
            _active_reporter = Reporter(url, token)
        return _active_reporter


def _warn_once(kind: str, message: str) -> None:
    if kind not in _warned:
        _warned.add(kind)
        log.warning("%s", message)


def _format_rfc3339(at: int) -> str:
    return f"{datetime.fromtimestamp(at // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
