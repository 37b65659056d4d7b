"""Workloads of the whole fleet, read fast at any number of them: totals come from counts that are kept, and a page
either walks the index of its order or gathers what is alike and sorts it, whichever touches fewer rows."""

from collections import defaultdict
from collections.abc import Sequence

from stoker.domain.listing import Listing, Window
from stoker.domain.monitoring import Facets, Watched, WatchedQuery
from stoker.domain.series import Holding
from stoker.domain.workload import Phase
from stoker.store import clusters
from stoker.store.base import Params, Row, Transaction
from stoker.store.listing import substring, where

COLUMNS = """
workload.uid, workload.slug, workload.kind, workload.namespace, workload.cluster_id, workload.phase,
workload.attempt, workload.replicas, workload.started_at, workload.ended_at, workload.gpu_milli,
workload.name
"""
BY_REF = f"""
SELECT {COLUMNS}
FROM workload
WHERE (workload.uid = :ref OR workload.slug = :ref)
  AND workload.deleted_at IS NULL
"""
ALIKE = """
FROM (
    SELECT cluster_id, namespace, kind, phase
    FROM workload_count
    {condition}
    GROUP BY cluster_id, namespace, kind, phase
    HAVING SUM(workloads) > 0
) AS alike
CROSS JOIN workload
WHERE workload.cluster_id = alike.cluster_id
  AND workload.namespace = alike.namespace
  AND workload.kind = alike.kind
  AND workload.phase = alike.phase
  AND workload.deleted_at IS NULL
"""
NAMED = """
FROM (
    SELECT uid
    FROM workload
    WHERE deleted_at IS NULL
      AND folded_name LIKE :text ESCAPE '!'
) AS named
CROSS JOIN workload
WHERE workload.uid = named.uid
"""
COUNTED = "SELECT COALESCE(SUM(workloads), 0) FROM workload_count"
NAMESPACES = """
SELECT namespace
FROM workload_count
{condition}
GROUP BY namespace
HAVING SUM(workloads) > 0
ORDER BY namespace
"""
KINDS = """
SELECT kind
FROM workload_count
{condition}
GROUP BY kind
HAVING SUM(workloads) > 0
ORDER BY kind
"""
# A pod that takes the place of another holds the same GPU as it: a GPU counts once. Of what has ended, the newest pod
# of each rank counts.
GPUS = """
SELECT workload_uid, model, SUM(milli)
FROM (
    SELECT allocation.workload_uid, allocation.node, allocation.device, allocation.model,
        MAX(allocation.gpu_milli) AS milli
    FROM workload
    JOIN allocation ON allocation.workload_uid = workload.uid
    JOIN pod ON pod.uid = allocation.pod_uid
    WHERE workload.uid IN ({uids})
      AND (
          allocation.to_at IS NULL
          OR workload.ended_at IS NOT NULL
          AND pod.attempt = workload.attempt
          AND pod.rank < workload.replicas
          AND NOT EXISTS (
              SELECT 1
              FROM pod AS newer
              WHERE newer.workload_uid = workload.uid
                AND newer.attempt = pod.attempt
                AND newer.rank = pod.rank
                AND newer.created_at > pod.created_at
          )
      )
    GROUP BY allocation.workload_uid, allocation.node, allocation.device, allocation.model
) AS held
GROUP BY workload_uid, model
ORDER BY workload_uid, model
"""
HOLDINGS = """
SELECT node, device, from_at, to_at
FROM allocation
WHERE workload_uid = :uid
  AND from_at <= :end
  AND (to_at IS NULL OR to_at > :start)
ORDER BY node, device, from_at
"""
HOLDINGS_OF_POD = HOLDINGS.replace("workload_uid = :uid", "pod_uid = :uid")


def find(transaction: Transaction, ref: str) -> Watched | None:
    """A workload without its GPUs, by uid or slug; None when it is absent or deleted."""
    row = transaction.one(BY_REF, {"ref": ref})
    return _built(row, _engines(transaction), {}) if row else None


def browse(transaction: Transaction, query: WatchedQuery, cluster_id: str, window: Window) -> Listing[Watched]:
    """One page, with the GPUs of that page alone."""
    params = _params(query, cluster_id, window)
    total = _total(transaction, query, cluster_id, params)
    if window.offset >= total:
        return Listing([], total)
    direction = "DESC" if query.descending else "ASC"
    gathered = _is_rare(transaction, query, total, window)
    rows = transaction.all(
        f"""
        SELECT {COLUMNS}
        {_gathered(query, cluster_id) if gathered else _walked(query, cluster_id)}
        ORDER BY {"+" if gathered else ""}workload.{query.sort} {direction} NULLS LAST, workload.uid {direction}
        LIMIT :limit OFFSET :offset
        """,
        params,
    )
    # Only what asked for GPUs and was placed once can hold any.
    gpus = held_gpus(transaction, [row[0] for row in rows if row[10] and row[6]])
    engines = _engines(transaction)
    return Listing([_built(row, engines, gpus.get(row[0], {})) for row in rows], total)


def held_gpus(transaction: Transaction, uids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Milli-GPUs by workload and model: what is held now, and of what has ended what its last attempt held."""
    if not uids:
        return {}
    params = {f"uid_{number}": uid for number, uid in enumerate(uids)}
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for uid, model, held in transaction.all(GPUS.format(uids=", ".join(f":{name}" for name in params)), params):
        found[uid][model] = int(held)
    return found


def facets(transaction: Transaction, cluster_id: str) -> Facets:
    condition = where("hidden = 0", "cluster_id = :cluster_id" if cluster_id else None)
    params = {"cluster_id": cluster_id}
    return Facets(
        [row[0] for row in transaction.all(NAMESPACES.format(condition=condition), params)],
        [row[0] for row in transaction.all(KINDS.format(condition=condition), params)],
    )


def holdings(transaction: Transaction, uid: str, start: int, end: int) -> list[Holding]:
    """The GPUs that a workload held at any time of a range."""
    return [Holding(*row) for row in transaction.all(HOLDINGS, {"uid": uid, "start": start, "end": end})]


def holdings_of_pod(transaction: Transaction, uid: str, start: int, end: int) -> list[Holding]:
    return [Holding(*row) for row in transaction.all(HOLDINGS_OF_POD, {"uid": uid, "start": start, "end": end})]


def _params(query: WatchedQuery, cluster_id: str, window: Window) -> dict[str, object]:
    return {
        "cluster_id": cluster_id,
        "namespace": query.namespace,
        "kind": query.kind,
        **{f"phase_{number}": phase for number, phase in enumerate(query.phases)},
        "text": f"{substring(query.text)}\n%",
        "limit": window.limit,
        "offset": window.offset,
    }


def _alike(column: str, query: WatchedQuery, cluster_id: str) -> list[str]:
    """What the counts are kept by, as clauses on the counts or on the workloads."""
    wanted = {"cluster_id": cluster_id, "namespace": query.namespace, "kind": query.kind}
    clauses = [f"{column.format(name)} = :{name}" for name, value in wanted.items() if value]
    if query.phases:
        words = ", ".join(f":phase_{number}" for number in range(len(query.phases)))
        clauses.append(f"{column.format('phase')} IN ({words})")
    return clauses


def _total(transaction: Transaction, query: WatchedQuery, cluster_id: str, params: Params) -> int:
    if not query.text:
        return _counted(transaction, query, cluster_id, params)
    if query.phases:
        return _number(transaction, f"SELECT COUNT(*) {_gathered(query, cluster_id)}", params)
    return _number(transaction, f"SELECT COUNT(*) {_walked(query, cluster_id)}", params)


def _counted(transaction: Transaction, query: WatchedQuery, cluster_id: str, params: Params) -> int:
    return _number(transaction, f"{COUNTED} {where('hidden = 0', *_alike('{}', query, cluster_id))}", params)


def _is_rare(transaction: Transaction, query: WatchedQuery, total: int, window: Window) -> bool:
    """Whether sorting everything that is asked for touches fewer rows than walking past what is not."""
    if not query.filters:
        return False
    return total * total <= _number(transaction, f"{COUNTED} WHERE hidden = 0", {}) * (window.offset + window.limit)


def _walked(query: WatchedQuery, cluster_id: str) -> str:
    """Every workload, filtered as it comes: what is put behind a column keeps its index from being used."""
    return "FROM workload " + where(
        "workload.deleted_at IS NULL",
        "workload.folded_name LIKE :text ESCAPE '!'" if query.text else None,
        *_alike("workload.{} || ''", query, cluster_id),
    )


def _gathered(query: WatchedQuery, cluster_id: str) -> str:
    """Only what is asked for, in no order."""
    if not query.text:
        return ALIKE.format(condition=where("hidden = 0", *_alike("{}", query, cluster_id)))
    return " AND ".join([NAMED, *_alike("workload.{}", query, cluster_id)])


def _number(transaction: Transaction, sql: str, params: Params) -> int:
    row = transaction.one(sql, params)
    return int(row[0]) if row else 0


def _engines(transaction: Transaction) -> dict[str, str]:
    return {cluster.id: cluster.engine for cluster in clusters.every(transaction)}


def _built(row: Row, engines: dict[str, str], gpus: dict[str, int]) -> Watched:
    return Watched(
        uid=row[0],
        slug=row[1],
        name=row[11],
        kind=row[2],
        namespace=row[3],
        cluster_id=row[4],
        engine=engines.get(row[4], ""),
        phase=Phase(row[5]),
        attempt=row[6],
        replicas=row[7],
        started_at=row[8],
        ended_at=row[9],
        gpus=gpus,
    )
