"""Looks at every reading for workloads whose GPUs nobody uses, and does what the policy of their workspace says.

What was seen, what is told and what is stopped are written in one transaction, by the policies and the phases of that
moment: a policy that was switched off stops nothing, and after a restart it goes on where it was.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

from stoker.domain.clock import Clock
from stoker.domain.events import Event, IdleNoted, StopAsked
from stoker.domain.identity import Workspace
from stoker.domain.idleness import REPORTED, WARNED, IdleAction, IdlePolicy, IdleSpan, IdleStep, duration, look
from stoker.domain.lifecycle import Change, transition
from stoker.domain.workload import Phase, Workload
from stoker.store import idle_watch, workloads, workspaces
from stoker.store.base import Store, Transaction

USED = frozenset({Phase.RUNNING, Phase.DEGRADED})
"""Whose GPUs could be used; one that begins or rolls is left in peace."""


class IdleWatch:
    def __init__(self, store: Store, cluster_id: str, clock: Clock, period_ms: int, idle_percent: float) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._period_ms = period_ms
        self._idle_percent = idle_percent
        self._anyone = True  # as far as one knows before the first look

    async def look(self, at: int, most_used: Callable[[Collection[str]], Mapping[str, float | None]]) -> None:
        """See what a reading says; `most_used` gives how much the most used GPU of each workload of these namespaces
        is used, None where one of them has no reading."""
        watched = await self._store.peek(self._watched)
        if watched or self._anyone:
            used = await asyncio.to_thread(most_used, watched)
            self._anyone = await self._store.write(lambda tx: self._look(tx, at, used))

    def _watched(self, transaction: Transaction) -> set[str]:
        return {workspace.namespace for workspace in workspaces.watched(transaction, self._cluster_id)}

    def _look(self, transaction: Transaction, at: int, used: Mapping[str, float | None]) -> bool:
        """Whether anyone is idle now."""
        places = {each.id: each for each in workspaces.watched(transaction, self._cluster_id)}
        before = idle_watch.read(transaction, self._cluster_id)
        spans: dict[str, IdleSpan] = {}
        changes: list[tuple[Workload, Change]] = []
        for workload in self._perhaps_idle(transaction, places.values(), before, used):
            place = places.get(workload.workspace_id)
            if place is None or workload.phase not in USED or workload.running_since is None:
                continue
            idle = self._is_idle(place.idle, used[workload.uid])
            known = before.get(workload.uid)
            span, step = look(place.idle, known, workload.running_since, idle, at, self._period_ms)
            if span is None:
                continue
            spans[workload.uid] = span
            if change := self._change(workload, place, span, step):
                changes.append((workload, change))
        workloads.apply_all(transaction, changes)
        if spans != before:
            idle_watch.put(transaction, self._cluster_id, at, spans)
        return bool(spans)

    def _perhaps_idle(
        self,
        transaction: Transaction,
        places: Iterable[Workspace],
        before: Collection[str],
        used: Mapping[str, float | None],
    ) -> Iterable[Workload]:
        """Those that were idle, or are by the most patient policy; the others are not read."""
        most = max((self._threshold(place.idle) for place in places), default=-1.0)
        found = [uid for uid, share in used.items() if uid in before or (share is not None and share * 100 <= most)]
        return workloads.by_uid(transaction, found).values()

    def _is_idle(self, policy: IdlePolicy, most: float | None) -> bool | None:
        return None if most is None else most * 100 <= self._threshold(policy)

    def _threshold(self, policy: IdlePolicy) -> float:
        return self._idle_percent if policy.threshold is None else policy.threshold

    def _change(self, workload: Workload, place: Workspace, span: IdleSpan, step: IdleStep) -> Change | None:
        now, seen = self._clock.now(), self._words(place.idle, span)
        events: dict[IdleStep, Event] = {
            IdleStep.REPORT: IdleNoted(now, REPORTED, seen),
            IdleStep.WARN: IdleNoted(now, WARNED, f"{seen}; {self._warning(place.idle)}"),
            IdleStep.STOP: StopAsked(now, f"the idle policy of workspace {place.name}: {seen}"),
        }
        return transition(workload, events[step]) if step in events else None

    def _words(self, policy: IdlePolicy, span: IdleSpan) -> str:
        return f"no GPU was used more than {self._threshold(policy):g} % for {duration(span.idle_ms // 1000)}"

    def _warning(self, policy: IdlePolicy) -> str:
        if policy.action is IdleAction.STOP:
            return f"it is stopped after {duration(policy.grace_seconds)} more of that"
        return "use them or stop it"
