"""Hours are written whole, can be written again, and are counted; the same on both databases."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import LoopRun
from tests.integration.controller.usage.test_rollup import RollupHarness

from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuFault
from stoker.domain.usage.hours import ClusterHour, HourRollups, WorkloadHour
from stoker.domain.usage.ledger import GPU_HOUR, HOUR_MS, CostOwner, LedgerEntry, UsageCategory
from stoker.store.cluster import gpu_availability
from stoker.store.cluster.gpu_availability import GpuInterval, GpuIntervalState
from stoker.store.db.base import Store, Transaction
from stoker.store.usage import closed_hours, reports
from stoker.store.usage.closed_hours import ClosedHour

CLUSTER = "c1"
HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS
STATS: dict[str, Any] = {
    "utilization": 5000,
    "min_utilization": 1,
    "max_utilization": 9000,
    "samples": 240,
    "p50": 5000,
    "p95": 8000,
}


def workload(uid: str, namespace: str = "ml", kind: str = "Job") -> WorkloadHour:
    return WorkloadHour(
        hour_at=HOUR,
        uid=uid,
        slug=f"{uid}-slug",
        name=uid,
        kind=kind,
        namespace=namespace,
        phase="Running",
        allocated=GPU_HOUR,
        requested_milli=1000,
        **STATS,
        memory_used=1,
        max_memory=2,
        memory_size=3,
        replicas_milli=1000,
        max_replicas=1,
        min_replicas=1,
        labels={"team": "ümlaut"},
        annotations={},
    )


def put(store: Store, loop_run: LoopRun, *rows: WorkloadHour, at: int = HOUR + HOUR_MS) -> None:
    cluster = ClusterHour(hour_at=HOUR, gpus=8, capacity=8 * GPU_HOUR, allocated=len(rows) * GPU_HOUR, **STATS)
    entries = [LedgerEntry(row.uid, "H100", UsageCategory.BUSY, GPU_HOUR) for row in rows]
    entries.append(LedgerEntry("", "H100", UsageCategory.FREE, (8 - len(rows)) * GPU_HOUR))
    payers = {
        row.uid: CostOwner(
            row.uid, row.slug, row.name, row.kind, row.namespace, 7, "u1", row.phase, 1000, row.labels, {}
        )
        for row in rows
    }

    def write(tx: Transaction) -> None:
        closed_hours.mark_due(tx, CLUSTER, [HOUR])
        closed_hours.write_hours(tx, CLUSTER, [ClosedHour(HourRollups(cluster, (), (), rows), entries, payers)], at)
        closed_hours.mark_closed(tx, CLUSTER, closed_hours.due_hours(tx, CLUSTER, HOUR + 1)[0], at)

    loop_run(store.write(write))


def seen(store: Store, loop_run: LoopRun, sql: str) -> list[Any]:
    return loop_run(store.read(lambda tx: tx.fetch_all(sql)))


def test_an_hour_that_is_closed_again_keeps_its_ids_and_loses_what_is_not_in_it(
    store: Store, loop_run: LoopRun
) -> None:
    put(store, loop_run, workload("a"), workload("b"))
    first = seen(store, loop_run, "SELECT uid, id, created_at FROM workload_hour ORDER BY uid")
    put(store, loop_run, workload("b"), workload("c"), at=HOUR + 2 * HOUR_MS)
    again = seen(store, loop_run, "SELECT uid, id, created_at, updated_at FROM workload_hour ORDER BY uid")
    assert [row[0] for row in again] == ["b", "c"]
    assert again[0] == (*first[1], HOUR + 2 * HOUR_MS)
    assert again[1][2] == HOUR + 2 * HOUR_MS
    assert len({row[1] for row in [*first, *again]}) == 3
    assert seen(store, loop_run, "SELECT close_count, due FROM usage_hour") == [(2, 0)]


def test_the_ledger_of_an_hour_adds_up_to_its_capacity_after_a_correction(store: Store, loop_run: LoopRun) -> None:
    put(store, loop_run, workload("a"), workload("b"))
    put(store, loop_run, workload("a"))
    total = "SELECT CAST(SUM(busy + idle + free + faulty + starting + unmeasured) AS BIGINT) FROM ledger"
    assert seen(store, loop_run, total) == [(8 * GPU_HOUR,)]
    busy = "SELECT workload_uid, workspace_id, busy FROM ledger ORDER BY workload_uid"
    assert seen(store, loop_run, busy)[1] == ("a", 7, GPU_HOUR)


def test_totals_are_kept_by_namespace_and_kind(store: Store, loop_run: LoopRun) -> None:
    put(store, loop_run, workload("a"), workload("b", kind="Deployment"), workload("c", "web", "Deployment"))
    put(store, loop_run, workload("a"), workload("c", "web", "Deployment"))
    rows = seen(store, loop_run, "SELECT namespace, kind, workloads FROM workload_hour_count ORDER BY namespace, kind")
    assert rows == [
        ("", "", 2),
        ("", "Deployment", 1),
        ("", "Job", 1),
        ("ml", "", 1),
        ("ml", "Job", 1),
        ("web", "", 1),
        ("web", "Deployment", 1),
    ]


def test_hours_are_due_until_they_are_closed_and_again_when_something_comes_late(
    store: Store, loop_run: LoopRun
) -> None:
    def due() -> list[int]:
        return [
            each.hour_at
            for each in loop_run(store.read(lambda tx: closed_hours.due_hours(tx, CLUSTER, HOUR + 9 * HOUR_MS)))
        ]

    hours = [HOUR, HOUR + HOUR_MS]
    loop_run(store.write(lambda tx: closed_hours.mark_due(tx, CLUSTER, hours)))
    put(store, loop_run, workload("a"))
    assert due() == [HOUR + HOUR_MS]
    loop_run(store.write(lambda tx: closed_hours.mark_due_again(tx, CLUSTER, HOUR + 5, HOUR + 9 * HOUR_MS)))
    assert due() == hours


@pytest.mark.parametrize(
    "come",
    [
        lambda tx: closed_hours.mark_due(tx, CLUSTER, [HOUR]),
        lambda tx: closed_hours.mark_due_again(tx, CLUSTER, HOUR + 5, HOUR + 6),
    ],
)
def test_what_comes_late_while_an_hour_is_closed_is_not_forgotten(
    come: Callable[[Transaction], None], store: Store, loop_run: LoopRun
) -> None:
    loop_run(store.write(lambda tx: closed_hours.mark_due(tx, CLUSTER, [HOUR])))
    read = loop_run(store.read(lambda tx: closed_hours.due_hours(tx, CLUSTER, HOUR + 1)))[0]
    loop_run(store.write(come))
    loop_run(store.write(lambda tx: closed_hours.mark_closed(tx, CLUSTER, read, HOUR + HOUR_MS)))
    assert [
        each.hour_at for each in loop_run(store.read(lambda tx: closed_hours.due_hours(tx, CLUSTER, HOUR + 1)))
    ] == [HOUR]


def test_a_user_who_is_gone_is_named_as_workloads_remember_even_those_that_are_gone_too(
    store: Store, loop_run: LoopRun
) -> None:
    scene = RollupHarness(store, loop_run)

    def names() -> dict[str, str]:
        return loop_run(store.read(lambda tx: reports.user_names(tx, ["u1", "u2"])))

    assert names() == {"u1": "ann"}
    loop_run(store.write(lambda tx: tx.execute("UPDATE workload SET deleted_at = :at", {"at": scene.clock.at})))
    assert names() == {"u1": "ann"}


def test_a_workspace_that_is_gone_is_named_by_its_namespace(store: Store, loop_run: LoopRun) -> None:
    put(store, loop_run, workload("a"))
    assert loop_run(store.read(lambda tx: reports.workspace_names(tx, [7, 8]))) == {"7": "ml"}


def test_spans_follow_what_nodes_look_like(store: Store, loop_run: LoopRun) -> None:
    def look(at: int, *devices: Device, **node: Any) -> None:
        now = Node("n1", 1000, 1, devices, **node)
        loop_run(store.write(lambda tx: gpu_availability.sync_intervals(tx, CLUSTER, [now], at)))

    def spans(first: int, last: int) -> list[GpuInterval]:
        return loop_run(store.read(lambda tx: gpu_availability.intervals_in_range(tx, CLUSTER, first, last)))

    good, bad = Device(0, "u0", "H100", 80), Device(0, "u0", "H100", 80, fault="XID 79")
    look(100, good)
    look(150, good)
    look(200, bad)
    look(300, good)
    look(400, good, ready=False)
    look(500)
    assert spans(0, 1000) == [
        GpuInterval("n1", 0, GpuIntervalState.FAULTY, 200, 300, "H100", 80, "u0"),
        GpuInterval("n1", 0, GpuIntervalState.FAULTY, 400, 500, "H100", 80, "u0"),
        GpuInterval("n1", 0, GpuIntervalState.PRESENT, 100, 500, "H100", 80, "u0"),
    ]
    assert [span.state for span in spans(320, 400)] == [GpuIntervalState.PRESENT]


def test_a_fault_that_a_gpu_reports_lasts_until_it_is_no_longer_reported(store: Store, loop_run: LoopRun) -> None:
    def report(at: int, *devices: int) -> None:
        faults = [GpuFault("n1", device, "XID 79") for device in devices]
        loop_run(store.write(lambda tx: gpu_availability.sync_reported_faults(tx, CLUSTER, faults, at)))

    node = Node("n1", 1000, 1, (Device(0, "u0", "H100", 80),))
    loop_run(store.write(lambda tx: gpu_availability.sync_intervals(tx, CLUSTER, [node], 100)))
    report(200, 0)
    loop_run(store.write(lambda tx: gpu_availability.sync_intervals(tx, CLUSTER, [node], 250)))
    report(300, 0)
    report(400)
    spans = loop_run(store.read(lambda tx: gpu_availability.intervals_in_range(tx, CLUSTER, 0, 1000)))
    assert [(span.state, span.from_at, span.to_at) for span in spans] == [
        (GpuIntervalState.PRESENT, 100, 1000),
        (GpuIntervalState.REPORTED, 200, 400),
    ]
