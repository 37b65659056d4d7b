"""Which rows retention deletes, when, and in which batches."""

import asyncio

import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.controller.policy.retention import purge_once
from stoker.domain.settings.schema import Settings
from stoker.store.db.base import Store, Transaction
from stoker.store.workloads import counts

GROUP = (0, "c1", "ml", "Job", "Running", 1, "ann", "u1", 1, "")
ADD_ATTEMPT = "INSERT INTO login_attempt (id, subject, at) VALUES (:id, 'ann', 1)"
ATTEMPTS = "SELECT COUNT(*) FROM login_attempt"


class RetentionRound:
    """A round of retention that rests on the clock as often as it wants to."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = ManualClock()
        self.rests = 0

    async def finished(self, settings: Settings | None = None) -> int:
        work = asyncio.create_task(purge_once(self.store, settings or Settings(), self.clock))
        while not work.done():
            await asyncio.wait([work], timeout=0.001)  # without a pause the loop would keep the store's threads waiting
            if self.clock.sleepers:
                self.rests += 1
                self.clock.advance(1)
        return work.result()


def creating(monkeypatch: pytest.MonkeyPatch, keys: int) -> list[int]:
    """Others create workloads on connections of their own, always just before counts are folded; the result of every
    fold."""
    folds: list[int] = []
    really = counts.compact

    def fold(transaction: Transaction, limit: int = 500) -> int:
        assert len(folds) < 5000, "it folds for ever"
        alike = dict(zip(counts.GROUP_COLUMNS, GROUP, strict=True), workloads=1)
        transaction.execute_many(
            counts.ADD_TO_COUNT,
            [{**alike, "workspace_id": key, "shard": lane} for key in range(keys) for lane in (1, 2)],
        )
        folds.append(really(transaction, limit))
        return folds[-1]

    monkeypatch.setattr(counts, "compact", fold)
    return folds


def test_a_round_ends_though_workloads_are_created_all_the_time(
    store: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = creating(monkeypatch, keys=3)
    loop_run(RetentionRound(store).finished())
    assert folds == [3], "what is created meanwhile waits for the next round"


def test_a_round_ends_though_there_is_always_more_to_fold_than_fits_into_one_step(
    store: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.controller.policy.retention.DELETE_BATCH_SIZE", 3)
    monkeypatch.setattr("stoker.controller.policy.retention.MAX_BATCHES", 5)
    folds = creating(monkeypatch, keys=4)
    loop_run(RetentionRound(store).finished())
    assert folds == [3] * 5


def test_a_round_rests_on_the_clock_between_two_steps(store: Store, loop_run: LoopRun) -> None:
    rows = [{"id": str(number)} for number in range(1200)]
    loop_run(store.write(lambda tx: tx.execute_many(ADD_ATTEMPT, rows)))
    round_ = RetentionRound(store)
    assert loop_run(round_.finished()) == 1200
    assert round_.rests == 2
    assert loop_run(store.read(lambda tx: tx.fetch_one(ATTEMPTS))) == (0,)
