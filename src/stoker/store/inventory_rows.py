"""Workloads of a page with everything that is shown of them, in a few statements for all of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from stoker.domain.inventory import Held, Listed
from stoker.domain.workload import Condition, ConditionType
from stoker.store import workloads
from stoker.store.base import Transaction
from stoker.store.keys import by_keys

HELD = """
SELECT workload_uid, COUNT(*), SUM(CASE WHEN phase = 'Running' THEN 1 ELSE 0 END), SUM(cpu_milli), SUM(memory_bytes)
FROM pod
WHERE workload_uid IN (:keys)
  AND released_at IS NULL
GROUP BY workload_uid
"""
USE = "SELECT workload_uid, allocated_milli, idle_milli FROM workload_use WHERE workload_uid IN (:keys)"
CONDITIONS = """
SELECT workload_uid, type, reason, message, at
FROM condition
WHERE workload_uid IN (:keys)
ORDER BY workload_uid, version, place
"""
HOMES = """
SELECT workspace.id, workspace.name, department.id, department.name
FROM workspace
JOIN department ON department.id = workspace.department_id
WHERE workspace.id IN (:keys)
"""
OF_CLUSTER = "SELECT workload_uid, idle_milli FROM workload_use WHERE cluster_id = :cluster_id AND idle_milli > 0"
SET_IDLE = """
UPDATE workload_use
SET idle_milli = :idle_milli
WHERE workload_uid = :uid
"""


SPANS = """
SELECT gpu_milli, from_at, to_at
FROM allocation
WHERE workload_uid = :uid
ORDER BY from_at
"""


class HeldSpan(Struct, frozen=True):
    gpu_milli: int
    from_at: int
    to_at: int | None


class Home(Struct, frozen=True):
    workspace: str = ""
    department_id: int = 0
    department: str = ""


def read(transaction: Transaction, uids: Sequence[str]) -> list[Listed]:
    """In the order of the uids."""
    found = workloads.by_uid(transaction, uids)
    homes = {
        row[0]: Home(*row[1:]) for row in by_keys(transaction, HOMES, {each.workspace_id for each in found.values()})
    }
    said = conditions(transaction, uids)
    held = holdings(transaction, uids)
    return [
        Listed(workload, home.workspace, home.department_id, home.department, said.get(uid, ()), held.get(uid, Held()))
        for uid in uids
        if (workload := found.get(uid)) is not None
        for home in (homes.get(workload.workspace_id, Home()),)
    ]


def conditions(transaction: Transaction, uids: Sequence[str]) -> dict[str, list[Condition]]:
    """Oldest first."""
    said: dict[str, list[Condition]] = defaultdict(list)
    for uid, kind, reason, message, at in by_keys(transaction, CONDITIONS, dict.fromkeys(uids)):
        said[uid].append(Condition(ConditionType(kind), reason, message, at))
    return said


def holdings(transaction: Transaction, uids: Sequence[str]) -> dict[str, Held]:
    held = {row[0]: Held(row[1], int(row[2]), 0, int(row[3]), int(row[4])) for row in by_keys(transaction, HELD, uids)}
    for uid, allocated, idle in by_keys(transaction, USE, uids):
        held[uid] = structs.replace(held.get(uid, Held()), gpu_milli=allocated, idle_milli=idle)
    return held


def set_idle(transaction: Transaction, cluster_id: str, idle_milli: Mapping[str, int]) -> None:
    """These workloads of a cluster, and no others, have GPUs that nobody has used for long."""
    before = dict(transaction.all(OF_CLUSTER, {"cluster_id": cluster_id}))
    now = {uid: idle_milli.get(uid, 0) for uid in before.keys() | idle_milli.keys()}
    changed = [{"uid": uid, "idle_milli": idle} for uid, idle in now.items() if idle != before.get(uid, 0)]
    transaction.many(SET_IDLE, changed)


def held_spans(transaction: Transaction, uid: str) -> list[HeldSpan]:
    """What a workload held from when to when, in all its life."""
    return [HeldSpan(*row) for row in transaction.all(SPANS, {"uid": uid})]
