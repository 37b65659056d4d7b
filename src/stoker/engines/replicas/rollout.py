"""From the pods of one revision to those of the next: one by one, or all at once. Can be begun again at any point."""

import asyncio
import contextlib

from stoker.domain.clock import Clock
from stoker.engines.base import Order
from stoker.engines.local.pods import Pod
from stoker.engines.local.roster import Roster
from stoker.engines.local.starter import Starter

UP_SECONDS = 1.0
"""How long a new pod must have been up before the next old one is stopped."""


class Rollout:
    def __init__(self, roster: Roster, starter: Starter, clock: Clock) -> None:
        self._roster = roster
        self._starter = starter
        self._clock = clock

    def outdated(self, order: Order) -> list[Pod]:
        """Living pods of the attempt that the order does not want."""
        wanted = {pod.uid for pod in order.pods}
        return [
            pod
            for pod in self._roster.of(order.workload_uid, order.attempt)
            if pod.record.uid not in wanted and not pod.ended
        ]

    async def run(self, order: Order) -> None:
        """Replace what is outdated. A new pod that fails stops this, and the old ones that are left stay up."""
        if not order.rolling:
            await self._end(self.outdated(order), order.grace_seconds)
            await self.start_all(order)
            return
        for wanted in sorted(order.pods, key=lambda pod: pod.rank):
            await self._end(
                [pod for pod in self.outdated(order) if pod.record.rank == wanted.rank], order.grace_seconds
            )
            if not await self._up(await self._starter.start(order, wanted)):
                return
        await self._end(self.outdated(order), order.grace_seconds)

    async def start_all(self, order: Order) -> None:
        """Start what is missing; one that cannot be made does not keep the others from starting."""
        done = await asyncio.gather(
            *(self._starter.start(order, wanted) for wanted in order.pods), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result

    async def _end(self, pods: list[Pod], grace_seconds: float) -> None:
        for pod in pods:
            await self._roster.stop(pod, grace_seconds, "It was replaced before it began.")
        for pod in pods:
            while not pod.ended:
                await pod.change()

    async def _up(self, pod: Pod) -> bool:
        """Wait until the pod has been up for a while; False if it ends instead."""
        while not pod.ended:
            if pod.up_since is None:
                await pod.change()
                continue
            left = UP_SECONDS - (self._clock.now() - pod.up_since) / 1000
            if left <= 0:
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await pod.change()
        return False
