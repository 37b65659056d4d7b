"""Of all servers on one database one drives a cluster; one that was away for too long can do nothing more."""

import pytest
from tests.conftest import LoopRun

from stoker.controller.lease import Lease, LeasedStore, LeaseLostError, still_ours
from stoker.store import leases
from stoker.store.base import Store, Transaction

CLUSTER = "c1"


class Moment:
    def __init__(self) -> None:
        self.at = 1_000_000

    def now(self) -> int:
        return self.at


@pytest.fixture
def moment() -> Moment:
    return Moment()


def lease(store: Store, moment: Moment, holder: str, *, takeover: bool = False) -> Lease:
    return Lease(store, CLUSTER, holder, moment, takeover=takeover)


def holder(store: Store, loop_run: LoopRun) -> str:
    found = loop_run(store.read(lambda tx: leases.find(tx, CLUSTER)))
    return found.holder if found else ""


def refused(loop_run: LoopRun, leased: LeasedStore) -> None:
    def change(transaction: Transaction) -> None:
        leases.extend(transaction, CLUSTER, 1)

    for attempt in (leased.write(change), leased.read(still_ours), leased.peek(still_ours)):
        with pytest.raises(LeaseLostError):
            loop_run(attempt)


def test_who_took_over_drives_and_the_one_before_can_neither_look_nor_write(
    store: Store, loop_run: LoopRun, moment: Moment
) -> None:
    first = loop_run(lease(store, moment, "one").acquire())
    loop_run(first.peek(still_ours))
    moment.at += leases.HELD_MS
    second = loop_run(lease(store, moment, "two", takeover=True).acquire())
    refused(loop_run, first)
    loop_run(second.write(still_ours))
    assert holder(store, loop_run) == "two"


def test_a_server_that_starts_again_takes_its_own_lease_and_its_former_self_loses_it(
    store: Store, loop_run: LoopRun, moment: Moment
) -> None:
    before = loop_run(lease(store, moment, "one").acquire())
    after = loop_run(lease(store, moment, "one").acquire())
    refused(loop_run, before)
    loop_run(after.read(still_ours))


@pytest.mark.parametrize(("takeover", "waited"), [(False, 10 * leases.HELD_MS), (True, leases.HELD_MS - 1)])
def test_a_lease_is_not_taken_from_one_that_holds_it(
    store: Store, loop_run: LoopRun, moment: Moment, takeover: bool, waited: int
) -> None:
    loop_run(lease(store, moment, "one").acquire())
    moment.at += waited
    until = moment.at + leases.HELD_MS
    grant = loop_run(store.write(lambda tx: leases.take(tx, CLUSTER, "two", until, takeover=takeover)))
    assert grant.holder == "one"
