"""Probes whether replicas are ready: by their port if they have one, else by how long they have run.

A run is probed until it is ready and periodically afterwards; one that stops answering is no longer ready.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Generic

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.clock import Clock
from stoker.engines.proxy.tcp import ReplicaAddress
from stoker.engines.replicas.replica import P, ReadinessProbe

MIN_READY_SECONDS = 2.0
"""After how long a running replica without a port is ready."""
_INITIAL_BACKOFF_SECONDS = 0.1
_MAX_BACKOFF_SECONDS = 1.0
_PROBE_PERIOD_SECONDS = 5.0
_FAILURE_THRESHOLD = 3
"""After this many failures in a row a ready replica is no longer ready."""
_UNREADY_REPORT_SECONDS = 10.0
"""After how long the reason why a replica is not ready is reported."""
_PROBE_TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)


class ReadinessProber(Generic[P]):
    """`settle_seconds` is for how long a connection has to stay open: a proxy between here and the pod accepts
    connections before it knows whether the pod does."""

    def __init__(
        self, clock: Clock, changed: Callable[[P], None], ready_seconds: float, settle_seconds: float = 0.0
    ) -> None:
        self._clock = clock
        self._on_change = changed
        self._min_ready_seconds = ready_seconds
        self._settle_seconds = settle_seconds
        self._runs: dict[str, tuple[int, asyncio.Task[None]]] = {}

    def on_pod_change(self, pod: P) -> None:
        """Start to probe a new run of a pod, and stop to probe one that is over."""
        if pod.record.check is None:
            return
        uid, since = pod.record.uid, None if pod.is_finished else pod.running_since
        if uid in self._runs and self._runs[uid][0] != since:
            self._runs.pop(uid)[1].cancel()
            pod.unready_reason = ""
        if since is not None and uid not in self._runs:
            self._runs[uid] = (since, asyncio.create_task(self._run(pod, pod.record.check, since)))

    async def close(self) -> None:
        tasks = [task for _, task in self._runs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, pod: P, check: ReadinessProbe, since: int) -> None:
        """Probe until the run is over. A probe that fails unexpectedly is repeated with back-off."""
        for failures in itertools.count(1):
            try:
                await self._probe_loop(pod, check, since)
                return
            except Exception:
                log.exception("Probing pod %s has failed", pod.record.name)
            await self._clock.sleep(
                backoff_seconds(failures, first=_INITIAL_BACKOFF_SECONDS, longest=_MAX_BACKOFF_SECONDS)
            )

    async def _probe_loop(self, pod: P, check: ReadinessProbe, since: int) -> None:
        if not check.port:
            left = self._min_ready_seconds - (self._clock.now() - since) / 1000
            await self._clock.sleep(min(self._min_ready_seconds, max(0.0, left)))
            self._set_result(pod, "")
            return
        failures = 0
        while True:
            problem = await probe(pod.address, check, self._settle_seconds)
            failures = failures + 1 if problem else 0
            if not problem or not pod.is_ready or failures >= _FAILURE_THRESHOLD:
                self._set_result(pod, problem, silent=self._clock.now() - since >= _UNREADY_REPORT_SECONDS * 1000)
            again = backoff_seconds(failures, first=_INITIAL_BACKOFF_SECONDS, longest=_MAX_BACKOFF_SECONDS)
            await self._clock.sleep(_PROBE_PERIOD_SECONDS if pod.is_ready and not problem else again)

    def _set_result(self, pod: P, problem: str, *, silent: bool = False) -> None:
        said = problem if silent else ""
        if pod.is_ready is not bool(problem) and pod.unready_reason == said:
            return
        pod.unready_reason = said
        if pod.is_ready is bool(problem):
            pod.set_ready(not problem)
        self._on_change(pod)


async def probe(address: ReplicaAddress | None, check: ReadinessProbe, settle_seconds: float = 0.0) -> str:
    """Why the probe has failed; empty if it has succeeded."""
    where = f"port {check.port}, which it has in $PORT"
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
            if address is None:
                return f"It does not answer on {where}."
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                if not check.path:
                    return "" if await _stays_open(reader, settle_seconds) else f"It does not answer on {where}."
                writer.write(_http_request(address, check))
                words = (await reader.readline()).split(maxsplit=2)
            finally:
                writer.close()
    except (OSError, ValueError):  # no connection, a timeout, or a line that is too long
        return f"It does not answer on {where}."
    status = words[1].decode("ascii", "replace") if len(words) > 1 and words[0].startswith(b"HTTP/") else ""
    if status[:1] in {"2", "3"}:
        return ""
    answer = f"answers {status}" if status else "does not answer in HTTP"
    return f"GET {check.path} on {where}, {answer}."


async def _stays_open(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Whether the connection is still open after this time, or something was sent over it."""
    if not seconds:
        return True
    try:
        async with asyncio.timeout(seconds):
            return bool(await reader.read(1))
    except TimeoutError:
        return True


def _http_request(address: ReplicaAddress, check: ReadinessProbe) -> bytes:
    head = f"GET {check.path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nUser-Agent: stoker-readiness\r\n"
    return f"{head}Accept: */*\r\nConnection: close\r\n\r\n".encode()
