"""`stoker.report(step, loss=...)`: tells Stoker how training goes.

A call puts its values in a queue and returns. A thread sends what has gathered, again if the server is away, and a last
time at the end. Nothing that goes wrong here reaches the caller: it is a warning, once.
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
from typing import Any

GATHER_SECONDS = 0.5
MOST_SENT = 1000
MOST_HELD = 20_000
"""Reports that wait while the server is away; of more, the oldest are dropped."""
MOST_METRICS = 64
SEND_SECONDS = 5.0
END_SECONDS = 6.0
AGAIN_AT_END_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0
BAD_REQUEST = 400
GIVEN_UP = frozenset({BAD_REQUEST, 401, 403, 404, 409, 413, 422})

Held = tuple[int | None, int, dict[str, float]]
"""Step, epoch milliseconds, metrics."""

log = logging.getLogger("stoker.report")


def report(step: int | None = None, **metrics: Any) -> None:
    """Report metrics of a step: numbers, or anything that `float` takes. What is not finite is left out."""
    try:
        _reporter().add(step, metrics)
    except Exception as error:  # whatever it is, training goes on
        _warn_once(f"training metrics are not reported: {error}")


class Reporter:
    """Belongs to one process: after a fork the child begins anew."""

    def __init__(self, url: str, token: str) -> None:
        self.process = os.getpid()
        self._url = url
        self._token = token
        rank = os.environ.get("RANK", "")
        self._rank = {"rank": int(rank)} if rank.isdecimal() else {}
        self._held: deque[Held] = deque(maxlen=MOST_HELD)
        self._news = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stoker-report", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def add(self, step: int | None, metrics: dict[str, Any]) -> None:
        values: dict[str, float] = {}
        for name, value in metrics.items():
            number = float(value)
            if math.isfinite(number):
                values[name] = number
        if len(values) > MOST_METRICS:
            raise ValueError(f"a report holds {len(values)} metrics; {MOST_METRICS} are allowed")
        if values:
            self._held.append((None if step is None else int(step), time.time_ns() // 1_000_000, values))
            if not self._news.is_set():
                self._news.set()

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        if self.process == os.getpid():
            self._ending.set()
            self._news.set()
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        pause = GATHER_SECONDS
        while not self._ending.is_set() or self._held:
            self._news.wait()
            self._ending.wait(pause)
            if not self._ending.is_set():
                self._news.clear()
            sent = [self._held.popleft() for _ in range(min(MOST_SENT, len(self._held)))]
            if not sent or self._send(sent):
                pause = GATHER_SECONDS
                if self._held:
                    self._news.set()
                continue
            room = MOST_HELD - len(self._held)
            self._held.extendleft(reversed(sent[len(sent) - min(room, len(sent)) :]))
            self._news.set()
            pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
            if self._ending.is_set():
                time.sleep(AGAIN_AT_END_SECONDS)  # until the process, which waits a little, has ended

    def _send(self, held: list[Held]) -> bool:
        """Whether these are done with: taken, or refused for good."""
        from urllib.error import HTTPError
        from urllib.request import ProxyHandler, Request, build_opener

        reports = [{"step": step, "at": _rfc3339(at), "metrics": values, **self._rank} for step, at, values in held]
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = Request(self._url, json.dumps(reports).encode(), headers)  # noqa: S310 - the address Stoker gave
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=SEND_SECONDS):
                return True
        except HTTPError as error:
            with error:
                _warn_once(f"training metrics were not taken: {error.read(500).decode('utf-8', 'replace')}")
            if error.code == BAD_REQUEST and len(held) > 1:  # only what is wrong is left out
                middle = len(held) // 2
                return self._send(held[:middle]) and self._send(held[middle:])
            return error.code in GIVEN_UP
        except Exception as error:
            _warn_once(f"training metrics cannot be sent now: {error}")
            return False


_lock = threading.Lock()
_current: Reporter | None = None
_warned = False


def _reporter() -> Reporter:
    global _current
    if _current is not None and _current.process == os.getpid():
        return _current
    with _lock:
        if _current is None or _current.process != os.getpid():
            url, token = os.environ.get("STOKER_REPORT_URL"), os.environ.get("STOKER_REPORT_TOKEN")
            if not url or not token:
                raise RuntimeError("this does not run in a pod of Stoker that can be reported from")
            _current = Reporter(url, token)
        return _current


def _warn_once(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        log.warning("%s", message)


def _rfc3339(at: int) -> str:
    return f"{datetime.fromtimestamp(at // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
