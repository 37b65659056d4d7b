"""All pods of this machine, kept true by their keepers' news. A pod enters once and leaves when it is forgotten."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.domain.clock import Clock
from stoker.engines.feed import Mailbox
from stoker.engines.local import cgroups
from stoker.engines.local.link import connect
from stoker.engines.local.places import Places
from stoker.engines.local.pods import Pod, read_pod
from stoker.engines.local.survivors import end_survivors

_PAUSES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

log = logging.getLogger(__name__)


class Roster:
    def __init__(self, places: Places, clock: Clock, on_change: Callable[[Pod], None]) -> None:
        self.pods: dict[str, Pod] = {}
        self.observers: set[Mailbox] = set()
        self.log_readers: set[Mailbox] = set()
        self._places = places
        self._clock = clock
        self._on_change = on_change
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Find the pods that are on disk, link up with those that live, and see which were lost."""
        found = [pod for path in sorted(self._places.pods.iterdir()) if (pod := read_pod(path))]
        lost = []
        for pod in found:
            self.pods[pod.record.uid] = pod
            if pod.ended:
                cgroups.remove(pod.record.groups)
            elif not self.link(pod):
                if pod.keeper_lives():
                    self._later(self.meet(pod, "Its keeper died before the command began."))
                elif pod.started:
                    pod.look()
                    lost += [] if pod.ended else [pod]
        await self.lose(lost)
        log.info("Found %d pods, %d of them running and %d lost", len(found), len(self.living()), len(lost))

    def of(self, workload_uid: str, attempt: int) -> list[Pod]:
        """All pods of an attempt, in the order of their ranks."""
        found = [
            pod
            for pod in self.pods.values()
            if pod.record.workload_uid == workload_uid and pod.record.attempt == attempt
        ]
        return sorted(found, key=lambda pod: (pod.record.rank, pod.record.revision))

    def living(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.link is not None]

    def add(self, pod: Pod) -> None:
        self.pods[pod.record.uid] = pod
        self.changed(pod)

    def drop(self, pod: Pod) -> None:
        """Let go of a pod that has ended."""
        del self.pods[pod.record.uid]
        self.changed(pod)

    def link(self, pod: Pod) -> bool:
        """Link up with the pod's keeper; False if there is none."""
        if pod.link is None:
            pod.link = connect(pod.path, lambda news: self._news(pod, news), lambda: self._died(pod))
        return pod.link is not None

    async def meet(self, pod: Pod, reason: str) -> None:
        """Link up with a keeper that may need a moment until it listens; where there is none, the pod is over."""
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            pod.look()
            if pod.ended or self.link(pod):
                break
            if not pod.keeper_lives():
                pod.never(reason, self._clock.now())
                if not pod.ended:
                    await self.lose([pod])
                break
        self.changed(pod)

    async def stop(self, pod: Pod, grace_seconds: float, reason: str) -> None:
        """Ask a pod to end; one that has not begun never will, for this reason."""
        if pod.link is None and not pod.ended:
            await self.meet(pod, reason)
        if pod.link is not None:
            pod.link.stop(grace_seconds)

    def changed(self, pod: Pod) -> None:
        """Tell everyone who listens."""
        if pod.ended and pod.link is not None:
            pod.link.close()
            pod.link = None
        if pod.ended:
            cgroups.remove(pod.record.groups)
            self._log_grown(pod)
        self._on_change(pod)
        pod.wake()
        for mailbox in self.observers:
            mailbox.put(pod.record.uid)

    async def lose(self, pods: list[Pod]) -> None:
        """Their keepers have died: nothing of them may be left when that is told."""
        if open_ones := [(pod.record.uid, pod.record.groups) for pod in pods if not pod.record.namespaces]:
            await asyncio.to_thread(end_survivors, open_ones)
        for pod in pods:
            pod.lost = True
            log.warning("Pod %s was lost: its keeper has died", pod.record.name)
            self.changed(pod)

    async def close(self) -> None:
        for pod in self.living():
            if pod.link is not None:
                pod.link.close()
                pod.link = None
        for mailbox in self.observers | self.log_readers:
            mailbox.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _news(self, pod: Pod, news: str) -> None:
        if news == "s":
            pod.look()
            self.changed(pod)
        else:
            self._log_grown(pod)

    def _log_grown(self, pod: Pod) -> None:
        for mailbox in self.log_readers:
            mailbox.put(pod.record.uid)

    def _died(self, pod: Pod) -> None:
        pod.link = None
        pod.look()
        if pod.ended:
            self.changed(pod)
            return
        self._later(self.lose([pod]))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
