"""Daily sums always equal the ledger of their hours, whatever is closed and however often."""

import random

from tests.conftest import LoopRun

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.usage.hours import ClusterHour, HourRollups
from stoker.domain.usage.ledger import CostOwner, LedgerEntry, UsageCategory
from stoker.store.db.base import Store, Transaction
from stoker.store.usage import closed_hours
from stoker.store.usage.closed_hours import ClosedHour
from stoker.store.usage.ledger_days import DAY_TABLE_KEYS, LEDGER_AMOUNTS

DAY = 1_700_000_000_000 // DAY_MS * DAY_MS
OF_HOURS = """
SELECT cluster_id, hour_at - hour_at % 86400000, {key}, {sums}
FROM ledger
GROUP BY cluster_id, hour_at - hour_at % 86400000, {key}
ORDER BY cluster_id, hour_at - hour_at % 86400000, {key}
"""
OF_DAYS = "SELECT cluster_id, day_at, {key}, {names} FROM {table} ORDER BY cluster_id, day_at, {key}"


def entries(dice: random.Random) -> list[LedgerEntry]:
    found = [
        LedgerEntry(payer, model, account, dice.randrange(1, 10**6))
        for payer in dice.sample(("a", "b", "c", "lost"), dice.randrange(4))
        for model in dice.sample(("H100", "MI300X"), dice.randrange(1, 3))
        for account in (
            UsageCategory.BUSY,
            UsageCategory.IDLE,
            UsageCategory.FAULTY,
            UsageCategory.STARTING,
            UsageCategory.UNMEASURED,
        )
        if dice.random() < 0.7
    ]
    return [*found, LedgerEntry("", "H100", UsageCategory.FREE, 5), LedgerEntry("", "H100", UsageCategory.FAULTY, 7)]


def payers(dice: random.Random) -> dict[str, CostOwner]:
    """Two workspaces; the user of a workload may be found to be another one later, and `lost` is nobody's."""
    return {
        uid: CostOwner(uid, uid, uid, "Job", space, 7, dice.choice(("u1", "u2")), "Running", 1000, {}, {})
        for uid, space in (("a", "ml"), ("b", "ml"), ("c", "web"))
    }


def test_days_are_the_sum_of_their_hours_however_often_these_are_closed(store: Store, loop_run: LoopRun) -> None:
    dice = random.Random(11)
    stats = {"utilization": 0, "min_utilization": 0, "max_utilization": 0, "samples": 0, "p50": 0, "p95": 0}
    for _ in range(60):
        cluster, hour = dice.choice(("c1", "c2")), DAY + dice.randrange(20, 28) * HOUR_MS

        def change(transaction: Transaction, cluster: str = cluster, hour: int = hour) -> None:
            level = ClusterHour(hour_at=hour, gpus=8, capacity=0, allocated=0, **stats)
            levels = HourRollups(level, (), (), ())
            closed_hours.write_hours(
                transaction, cluster, [ClosedHour(levels, entries(dice), payers(dice))], hour + HOUR_MS
            )

        loop_run(store.write(change))
    for table, key in DAY_TABLE_KEYS.items():
        sums = ", ".join(f"CAST(SUM({amount}) AS BIGINT)" for amount in LEDGER_AMOUNTS.values())
        from_hours = loop_run(store.read(lambda tx, s=sums, k=key: tx.fetch_all(OF_HOURS.format(key=k, sums=s))))
        sql = OF_DAYS.format(key=key, names=", ".join(LEDGER_AMOUNTS), table=table)
        assert len(from_hours) > 10
        assert loop_run(store.read(lambda tx, s=sql: tx.fetch_all(s))) == from_hours
