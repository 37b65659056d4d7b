"""Updates the pending reasons of workloads and missing replicas.

The reason of a newly pending workload is written at once and cleared when it is no longer pending. The reasons of
others may change with every cycle; they are checked in rotation, one batch at a time, so that a long queue costs no
more than a short one.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from msgspec import structs

from stoker.domain.workload.display_names import display_names_for
from stoker.domain.workload.phase import StatusReason
from stoker.domain.workload.status import describe_missing_replicas
from stoker.scheduler import Plan
from stoker.scheduler.cache import ClusterCache
from stoker.scheduler.explain.reasons import PendingReason

REASON_BATCH_SIZE = 200
NO_REASON = StatusReason("", "")
ORPHAN_PODS_REASON = StatusReason(
    "", "Pods of it that the database does not know of still run; they are being ended, and then it can start."
)
BATCH_INTERVAL_MS = 1_000
"""The time between two batches of a queue that is longer than one batch."""


class PendingReasonWriter:
    def __init__(self) -> None:
        self._new: OrderedDict[str, None] = OrderedDict()
        self._no_longer_pending: set[str] | None = None
        self._remaining: list[str] = []
        self._is_rescan_due = True
        self._last_batch_at = 0

    def reset(self) -> None:
        """Have all reasons checked again."""
        self._is_rescan_due = True
        self._no_longer_pending = None

    def mark_pending(self, uids: Iterable[str], no_longer: Iterable[str] = ()) -> None:
        """These workloads are pending or their request has changed; those in `no_longer` are no longer pending. Either
        may change the reasons of others."""
        self._new.update(dict.fromkeys(uids))
        if self._no_longer_pending is not None:
            self._no_longer_pending.update(no_longer)
        self._is_rescan_due = True

    def changed_reasons(self, cache: ClusterCache, plan: Plan, now: int) -> dict[str, StatusReason]:
        """The reasons that differ from the stored ones, for new workloads and for the next batch."""
        if len(cache.pending) <= REASON_BATCH_SIZE:
            uids = list(cache.pending) if self._is_rescan_due else []
            self._new, self._remaining, self._is_rescan_due = OrderedDict(), [], False
        else:
            uids = self._take_new()
            if now >= self._last_batch_at + BATCH_INTERVAL_MS:
                self._last_batch_at = now
                uids += self._take_batch(cache)
        known = cache.workloads
        reasons = {
            uid: StatusReason(wait.reason.code, _message(cache, uid, wait.reason))
            for uid in uids
            if uid in cache.pending and (wait := plan.pending.get(uid)) is not None
        }
        reasons |= self._cleared_reasons(cache) | {
            uid: ORPHAN_PODS_REASON for uid in cache.uids_with_strays if uid in known
        }
        return {
            uid: why
            for uid, why in reasons.items()
            if StatusReason(known[uid].pending_reason, known[uid].pending_message) != why
        }

    def mark_written(self, cache: ClusterCache, reasons: Mapping[str, StatusReason]) -> None:
        """Update the cache with reasons that were stored."""
        for uid, why in reasons.items():
            cache.workloads[uid] = structs.replace(
                cache.workloads[uid], pending_message=why.message, pending_reason=why.code
            )

    def next_at(self, now: int) -> int | None:
        """When the next batch is due without a change."""
        return now + BATCH_INTERVAL_MS if self._new or self._remaining or self._is_rescan_due else None

    def _cleared_reasons(self, cache: ClusterCache) -> dict[str, StatusReason]:
        """Empty reasons for workloads that are no longer pending."""
        no_longer = cache.workloads.keys() if self._no_longer_pending is None else self._no_longer_pending
        self._no_longer_pending = set()
        return {uid: NO_REASON for uid in no_longer if uid in cache.workloads and uid not in cache.pending}

    def _take_new(self) -> list[str]:
        batch = list(itertools.islice(self._new, REASON_BATCH_SIZE))
        for uid in batch:
            del self._new[uid]
        return batch

    def _take_batch(self, cache: ClusterCache) -> list[str]:
        """The next batch of the rotation. A new rotation starts if something has changed since the last one."""
        if not self._remaining and self._is_rescan_due:
            self._remaining, self._is_rescan_due = list(reversed(cache.pending)), False
        batch = self._remaining[-REASON_BATCH_SIZE:]
        del self._remaining[-REASON_BATCH_SIZE:]
        return batch


def _message(cache: ClusterCache, uid: str, reason: PendingReason) -> str:
    workload = cache.workloads[uid]
    sentence = reason.message(display_names_for(workload, cache.workloads))
    if workload.phase.is_pending:
        return sentence
    return describe_missing_replicas(cache.pending[uid].replicas, workload.spec.replicas, sentence)
