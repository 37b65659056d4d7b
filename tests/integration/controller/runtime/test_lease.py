"""Of all servers on one database one drives a cluster; one that was away for too long can do nothing more."""

import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.controller.runtime.lease import LEASE_DURATION_MS, FencedStore, Lease, LeaseLostError, assert_leader
from stoker.store.cluster import leases
from stoker.store.db.base import Store, Transaction

CLUSTER = "c1"


@pytest.fixture
def moment() -> ManualClock:
    return ManualClock(1_000_000)


def lease(store: Store, moment: ManualClock, holder: str, *, takeover: bool = False) -> Lease:
    return Lease(store, CLUSTER, holder, moment, takeover=takeover)


def holder(store: Store, loop_run: LoopRun) -> str:
    found = loop_run(store.read(lambda tx: leases.find(tx, CLUSTER)))
    return found.holder if found else ""


def refused(loop_run: LoopRun, leased: FencedStore) -> None:
    def change(transaction: Transaction) -> None:
        leases.renew(transaction, CLUSTER, 1)

    for attempt in (leased.write(change), leased.read(assert_leader), leased.read_inline(assert_leader)):
        with pytest.raises(LeaseLostError):
            loop_run(attempt)


def test_who_took_over_drives_and_the_one_before_can_neither_look_nor_write(
    store: Store, loop_run: LoopRun, moment: ManualClock
) -> None:
    first = loop_run(lease(store, moment, "one").acquire())
    loop_run(first.read_inline(assert_leader))
    moment.at += LEASE_DURATION_MS
    second = loop_run(lease(store, moment, "two", takeover=True).acquire())
    refused(loop_run, first)
    loop_run(second.write(assert_leader))
    assert holder(store, loop_run) == "two"


def test_a_server_that_starts_again_takes_its_own_lease_and_its_former_self_loses_it(
    store: Store, loop_run: LoopRun, moment: ManualClock
) -> None:
    before = loop_run(lease(store, moment, "one").acquire())
    after = loop_run(lease(store, moment, "one").acquire())
    refused(loop_run, before)
    loop_run(after.read(assert_leader))


@pytest.mark.parametrize(("takeover", "waited"), [(False, 10 * LEASE_DURATION_MS), (True, LEASE_DURATION_MS - 1)])
def test_a_lease_is_not_taken_from_one_that_holds_it(
    store: Store, loop_run: LoopRun, moment: ManualClock, takeover: bool, waited: int
) -> None:
    loop_run(lease(store, moment, "one").acquire())
    moment.at += waited
    until = moment.at + LEASE_DURATION_MS
    grant = loop_run(
        store.write(
            lambda tx: leases.acquire(
                tx, CLUSTER, "two", until - LEASE_DURATION_MS, LEASE_DURATION_MS, takeover=takeover
            )
        )
    )
    assert grant.holder == "one"
