"""All pods of this machine, kept true by their keepers' news. A pod enters once and leaves when it is forgotten."""

import asyncio
import logging
from collections.abc import Callable

from stoker.engines.local import cgroups
from stoker.engines.local.feed import Mailbox
from stoker.engines.local.link import connect
from stoker.engines.local.places import Places
from stoker.engines.local.pods import Pod, read_pod
from stoker.engines.local.survivors import end_survivors

log = logging.getLogger(__name__)


class Roster:
    def __init__(self, places: Places, on_change: Callable[[Pod], None]) -> None:
        self.pods: dict[str, Pod] = {}
        self.observers: set[Mailbox] = set()
        self.log_readers: set[Mailbox] = set()
        self._places = places
        self._on_change = on_change
        self._ends: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Find the pods that are on disk, link up with those that live, and see which were lost."""
        found = [pod for path in sorted(self._places.pods.iterdir()) if (pod := read_pod(path))]
        lost = []
        for pod in found:
            self.pods[pod.record.uid] = pod
            if pod.ended:
                cgroups.remove(pod.record.groups)
            elif not self.link(pod) and pod.started and not pod.keeper_lives():
                pod.look()
                if not pod.ended:
                    lost.append(pod)
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

    def changed(self, pod: Pod) -> None:
        """Tell everyone who listens."""
        if pod.ended and pod.link is not None:
            pod.link.close()
            pod.link = None
        if pod.ended:
            cgroups.remove(pod.record.groups)
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
        for task in self._ends:
            task.cancel()
        await asyncio.gather(*self._ends, return_exceptions=True)

    def _news(self, pod: Pod, news: str) -> None:
        if news == "s":
            pod.look()
            self.changed(pod)
        if news == "l" or pod.ended:
            for mailbox in self.log_readers:
                mailbox.put(pod.record.uid)

    def _died(self, pod: Pod) -> None:
        pod.link = None
        pod.look()
        if pod.ended:
            self.changed(pod)
            return
        task = asyncio.create_task(self.lose([pod]))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
