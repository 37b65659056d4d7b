"""Workloads, and the GPUs they hold, added up by what they have in common: from what is counted already, and from the
few that hold GPUs or wait."""

from collections.abc import Sequence

from msgspec import Struct

from stoker.store.base import Transaction
from stoker.store.inventory_filters import Clause, one_of

COLUMNS = ("cluster_id", "workspace_id", "kind", "phase", "pools")
COUNTED = """
SELECT {columns}, SUM(workloads)
FROM workload_count
WHERE hidden < 2 AND {condition}
GROUP BY {columns}
HAVING SUM(workloads) > 0
"""
ALLOCATED = """
SELECT {columns}, SUM(workload_use.allocated_milli)
FROM workload_use
CROSS JOIN workload
WHERE workload.uid = workload_use.workload_uid AND {condition}
GROUP BY {columns}
"""
WAITING = """
SELECT {columns}, bucket, COUNT(*)
FROM (
    SELECT {columns}, CASE {cases} ELSE {last} END AS bucket
    FROM workload
    WHERE workload.deleted_at IS NULL AND workload.phase = 'Pending' AND {condition}
) AS waiting
GROUP BY {columns}, bucket
"""  # index workload_by_phase


class TotalsQuery(Struct, frozen=True):
    """Empty means all; `workspace_ids` and `phases` of None too."""

    cluster_id: str = ""
    pool: str = ""
    workspace_ids: tuple[int, ...] | None = None
    phases: tuple[str, ...] | None = None


class Total(Struct, frozen=True):
    """`bucket` is the place of the time waited among the limits that were given."""

    cluster_id: str
    workspace_id: int
    kind: str
    phase: str
    pools: str
    bucket: int
    amount: int


def counted(transaction: Transaction, query: TotalsQuery) -> list[Total]:
    """How many workloads there are."""
    return _read(transaction, COUNTED, query, "workload_count")


def allocated(transaction: Transaction, query: TotalsQuery) -> list[Total]:
    """How many milli-GPUs are held."""
    return _read(transaction, ALLOCATED, query, "workload")


def waiting(transaction: Transaction, query: TotalsQuery, now: int, limits_ms: Sequence[int]) -> list[Total]:
    """How many workloads have waited for less than each of these times, and for longer than the last."""
    cases = " ".join(f"WHEN :now - workload.phase_at < {limit} THEN {place}" for place, limit in enumerate(limits_ms))
    sql = WAITING.replace("{cases}", cases).replace("{last}", str(len(limits_ms)))
    condition, params = _condition(query, "workload")
    rows = transaction.all(sql.format(columns=", ".join(COLUMNS), condition=condition), {**params, "now": now})
    return [Total(*row[:6], amount=int(row[6])) for row in rows]


def _read(transaction: Transaction, sql: str, query: TotalsQuery, table: str) -> list[Total]:
    condition, params = _condition(query, table)
    columns = ", ".join(f"{table}.{column}" for column in COLUMNS)
    rows = transaction.all(sql.format(columns=columns, condition=condition), params)
    return [Total(*row[:5], bucket=0, amount=int(row[5])) for row in rows]


def _condition(query: TotalsQuery, table: str) -> tuple[str, dict[str, object]]:
    clauses: list[Clause] = []
    if query.cluster_id:
        clauses.append(Clause("{} = :cluster_id", {"cluster_id": query.cluster_id}, "cluster_id"))
    if query.pool:
        held = "(',' || {} || ',') LIKE :pool ESCAPE '!'"
        clauses.append(Clause(held, {"pool": f"%,{_plain(query.pool)},%"}, "pools"))
    if query.workspace_ids is not None:
        clauses.append(one_of("workspace_id", query.workspace_ids, "workspace"))
    if query.phases is not None:
        clauses.append(one_of("phase", query.phases, "phase"))
    params = {name: value for clause in clauses for name, value in clause.params.items()}
    return " AND ".join(clause.on(table) for clause in clauses) or "1 = 1", params


def _plain(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
