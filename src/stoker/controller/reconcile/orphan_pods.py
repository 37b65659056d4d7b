"""Terminates orphan pods: pods that run although the store does not expect them, because it was restored from a backup
or has recorded their end. Until they are gone their resources are not allocated and their workload is not started.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

from stoker.concurrency.retry import backoff_seconds
from stoker.controller.runtime.lease import LeaseLostError, assert_leader
from stoker.domain.clock import Clock
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.errors import StokerError
from stoker.domain.workload.model import DEFAULT_GRACE_SECONDS
from stoker.domain.workload.pod import Pod
from stoker.engines.model import Delta, FullSync, ObservedPod, SyncReport, WorkloadRef
from stoker.engines.protocol import Engine
from stoker.store.db.base import Store

INITIAL_BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 60.0
ALL_DEVICES = tuple(range(1024))
"""Assumed for a pod whose devices are not reported."""

log = logging.getLogger("stoker.controller")


class OrphanPodReaper:
    def __init__(self, store: Store, engine: Engine, clock: Clock) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._orphans: dict[str, ObservedPod] = {}
        self._terminating: set[str] = set()
        self._due = asyncio.Event()

    def update(self, report: SyncReport, unknown: Iterable[ObservedPod]) -> bool:
        """Update the orphans from a report and the unexpected pods in it. Returns whether the set of orphans has
        changed."""
        before = self._orphans.keys()
        orphans = {pod.uid: pod for pod in unknown}
        if isinstance(report, FullSync):
            self._orphans = orphans
            self._terminating.clear()
        else:
            outdated = {pod.uid for pod in report.pods}.union(_deleted(report))
            remaining = {uid: pod for uid, pod in self._orphans.items() if uid not in outdated}
            self._orphans = remaining | orphans
        self._terminating &= self._orphans.keys()
        if self._orphans.keys() - self._terminating:
            self._due.set()
        return self._orphans.keys() != before

    def as_pods(self) -> list[Pod]:
        """The orphans as pods that hold resources."""
        return [_as_pod(observed) for observed in self._orphans.values()]

    async def run(self) -> None:
        """Terminate orphans; calls that fail are repeated with back-off."""
        failures = 0
        self._terminating.clear()
        while True:
            await self._due.wait()
            self._due.clear()
            left = [pod for uid, pod in self._orphans.items() if uid not in self._terminating]
            if await self._terminate(left):
                failures = 0
                continue
            failures += 1
            await self._clock.sleep(
                backoff_seconds(failures, first=INITIAL_BACKOFF_SECONDS, longest=MAX_BACKOFF_SECONDS)
            )
            self._due.set()

    async def _terminate(self, pods: Collection[ObservedPod]) -> bool:
        """Returns whether the engine accepted all calls."""
        attempts: dict[tuple[str, int], set[str]] = defaultdict(set)
        for pod in pods:
            attempts[pod.workload_uid, pod.attempt].add(pod.uid)
        for (workload_uid, attempt), uids in sorted(attempts.items()):
            log.warning(
                "terminating %s of workload %s: the store does not have them",
                humanize_count(len(uids), "pod"),
                workload_uid,
            )
            await self._store.read_inline(assert_leader)
            try:
                ref = WorkloadRef(uid=workload_uid, attempt=attempt)
                await self._engine.terminate(ref, grace_seconds=DEFAULT_GRACE_SECONDS, only=uids)
            except LeaseLostError:
                raise
            except StokerError as error:
                log.warning("they could not be ended, and the engine is asked again: %s", error.message)
            else:
                self._terminating |= uids
        return all(uid in self._terminating for uids in attempts.values() for uid in uids)


def _deleted(report: SyncReport) -> tuple[str, ...]:
    return report.gone if isinstance(report, Delta) else ()


def _as_pod(observed: ObservedPod) -> Pod:
    known = observed.devices is not None
    return Pod(
        uid=observed.uid,
        workload_uid=observed.workload_uid,
        name=observed.name,
        attempt=observed.attempt,
        revision=observed.revision,
        rank=0,
        node=observed.node,
        resources=observed.resources
        if known
        else Resources(MILLI, observed.resources.cpu_milli, observed.resources.memory_bytes),
        devices=_device_indexes(observed),
        created_at=0,
    )


def _device_indexes(observed: ObservedPod) -> tuple[int, ...]:
    if observed.devices is None:
        return ALL_DEVICES
    return tuple(device.index for device in observed.devices if device.index is not None)
