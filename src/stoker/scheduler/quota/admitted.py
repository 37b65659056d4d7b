"""Who holds room: by workload, by workspace, and in the order in which it would be given up.

Lowest priority first, then newest, then smallest, then uid.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from stoker.domain.identity import Quota
from stoker.domain.resources import NONE, Resources
from stoker.scheduler.accounts import Account, borrows
from stoker.scheduler.room import UNKNOWN
from stoker.scheduler.snapshot import Placed, Queue, Snapshot

Rank = tuple[int, int, int, int, str]
Offer = tuple[Rank, Placed, Resources]
"""A workload that may be given up, how soon, and what it holds."""
Row = list[Offer]
NO_QUEUE = Queue(0, "")
"""A workspace that nobody described: no quota, first in, first out."""


def held_by(placed: Placed) -> Resources:
    return sum(placed.sizes, NONE) if placed.sizes else placed.each * len(placed.nodes)


def pods_of(placed: Placed) -> Iterator[tuple[str, int, Resources]]:
    """The node of each pod, the device it shares, and what it holds."""
    pods = len(placed.nodes)
    devices = placed.devices or (UNKNOWN,) * pods
    return zip(placed.nodes, devices, placed.sizes or (placed.each,) * pods, strict=True)


def offer_of(placed: Placed) -> Offer:
    held = held_by(placed)
    return (placed.priority, -placed.placed_at, held.gpu_milli, held.cpu_milli, placed.uid), placed, held


class Holders:
    """All that is placed. `yielding` holds, for each workspace, what may be preempted, first to go first."""

    def __init__(self) -> None:
        self.placed: dict[str, Placed] = {}
        self.leaving: dict[str, Placed] = {}
        self.queues: dict[int, Queue] = {}
        self.accounts: dict[int, Account] = {}
        self.yielding: dict[int, Row] = {}

    def account(self, workspace_id: int) -> Account:
        found = self.accounts.get(workspace_id)
        if found is None:
            found = self.accounts[workspace_id] = Account(Quota())
        return found

    def queue(self, workspace_id: int) -> Queue:
        return self.queues.get(workspace_id, NO_QUEUE)

    def change_queues(self, changed: Iterable[Queue], lost: Iterable[int]) -> None:
        for workspace_id in lost:
            self.queues.pop(workspace_id, None)
            self.account(workspace_id).set_quota(Quota())
        for queue in changed:
            self.queues[queue.workspace_id] = queue
            self.account(queue.workspace_id).set_quota(queue.quota)

    def change(self, changed: Iterable[Placed], gone: Iterable[str]) -> list[Placed]:
        """Take in workloads that are newly placed, that changed, or that hold nothing any more. Gives what was."""
        before = [self._remove(uid) for uid in gone]
        for placed in changed:
            before.append(self._remove(placed.uid))
            self._add(placed)
        return [placed for placed in before if placed is not None]

    def _add(self, placed: Placed) -> None:
        held, account = held_by(placed), self.account(placed.workspace_id)
        self.placed[placed.uid] = placed
        account.used += held
        if placed.leaving:
            self.leaving[placed.uid] = placed
            return
        account.kept += held
        if placed.preemptible:
            insort(self.yielding.setdefault(placed.workspace_id, []), offer_of(placed))

    def _remove(self, uid: str) -> Placed | None:
        placed = self.placed.pop(uid, None)
        if placed is None:
            return None
        held, account = held_by(placed), self.account(placed.workspace_id)
        account.used -= held
        if placed.leaving:
            del self.leaving[uid]
            return placed
        account.kept -= held
        if placed.preemptible:
            row = self.yielding[placed.workspace_id]
            del row[bisect_left(row, offer_of(placed))]
        return placed


def on_borrowed_room(snapshot: Snapshot, uid: str) -> bool:
    """Whether a workload holds room while its workspace is over its quota of what it holds."""
    holders = Holders()
    holders.change_queues(snapshot.queues, ())
    holders.change(snapshot.placed, ())
    placed = holders.placed.get(uid)
    return placed is not None and borrows(held_by(placed), holders.account(placed.workspace_id).excess())
