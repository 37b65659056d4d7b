"""Finds a small set of workloads that contains all matches of a query, and counts the matches.

Each strategy first checks, with a LIMIT, that its set is small; without a small set the caller scans an index.
"""

import math
from collections.abc import Sequence

from stoker.domain.queries.workload_query import WorkloadField
from stoker.store.db.base import Transaction
from stoker.store.workloads.query.fields import (
    DELETING,
    GROUP_JOIN,
    GROUP_SOURCE,
    SORT_COLUMNS,
    TIMESTAMP_COLUMNS,
)
from stoker.store.workloads.query.plan import CandidateSource, QueryPlan, SourceKind, fetch_int
from stoker.store.workloads.query.predicates import Predicate
from stoker.store.workloads.query.search import search_uids

MIN_CANDIDATE_LIMIT = 12_000
"""This many workloads are always read and sorted rather than scanned in index order."""
MAX_CANDIDATE_LIMIT = 30_000
MAX_UID_LIST = 2_048
UID_LIST_SIZES = (16, 128, MAX_UID_LIST)
"""Lists of uids are padded to the next of these sizes, so that few distinct statements are prepared."""
ALLOCATION_SOURCE = "workload_allocation CROSS JOIN workload"
ALLOCATION_JOIN = "workload.uid = workload_allocation.workload_uid"


def count_matches(transaction: Transaction, plan: QueryPlan) -> int:
    if not plan.row_predicates or not plan.group_total:
        return plan.group_total
    source = find_candidates(transaction, plan, candidate_limit(plan.unfiltered_total, 1), None) or CandidateSource(
        SourceKind.TABLE, "workload", plan.base_condition
    )
    params = {**plan.params, **source.params}
    statement = f"SELECT workload.uid FROM {source.from_clause} WHERE {source.where(plan)}"
    if source.kind is SourceKind.TABLE and any(predicate.covering for predicate in plan.row_predicates):
        statement += " ORDER BY workload.name"  # reads the index of names instead of the table
    matches = fetch_int(transaction, f"SELECT COUNT(*) FROM ({statement}) AS found", params)
    if plan.deleting_total:
        matches += fetch_int(transaction, f"SELECT COUNT(*) FROM workload WHERE {DELETING} AND {plan.where()}", params)
    return matches


def candidate_limit(total: int, wanted: int) -> int:
    """How many candidates are cheaper to sort than an index scan that finds `wanted` matches."""
    return min(MAX_CANDIDATE_LIMIT, max(MIN_CANDIDATE_LIMIT, math.isqrt(total * wanted)))


def find_candidates(
    transaction: Transaction, plan: QueryPlan, limit: int, sort: WorkloadField | None
) -> CandidateSource | None:
    """A source of at most about `limit` workloads; None when no strategy finds one."""
    if plan.unfiltered_total <= limit:
        return CandidateSource(SourceKind.TABLE, "workload", plan.base_condition)
    if not plan.deleted and plan.group_total <= limit and plan.group_predicates:
        groups = CandidateSource(
            SourceKind.GROUPS,
            GROUP_SOURCE.format(condition=plan.existing_group_condition()),
            f"{GROUP_JOIN} AND {plan.base_condition}",
        )
        return _selective_source(transaction, plan, plan.group_total // 4, sort) or groups
    if (source := _selective_source(transaction, plan, limit, sort)) is not None or limit < MAX_UID_LIST:
        return source
    if not plan.uid_list_cache:
        plan.uid_list_cache.append(_uid_list_source(transaction, plan))
    return plan.uid_list_cache[0]


def allocated_source(plan: QueryPlan) -> CandidateSource:
    """Every workload that has an allocation."""
    return CandidateSource(SourceKind.ALLOCATIONS, ALLOCATION_SOURCE, f"{ALLOCATION_JOIN} AND {plan.base_condition}")


def _selective_source(
    transaction: Transaction, plan: QueryPlan, limit: int, sort: WorkloadField | None
) -> CandidateSource | None:
    """The workloads that the predicates on one column, or on one accrued time, match, if they are few."""
    sort_column = SORT_COLUMNS.get(sort, "") if sort else ""
    selective = [predicate for predicate in plan.row_predicates if predicate.selective]
    for column, accrued in dict.fromkeys((each.column, each.accrued_field) for each in selective):
        if (column and column == sort_column) or (accrued and accrued is sort):
            continue
        predicates = [each for each in selective if (each.column, each.accrued_field) == (column, accrued)]
        if column == "submitted_at" and plan.creation_ordered is not None:
            predicates.append(plan.creation_ordered)
        # Workloads that are close in time are close on disk, and cost half as much to read.
        most = 2 * limit if column in TIMESTAMP_COLUMNS.values() else limit
        params: dict[str, object] = {"found_most": most + 1}
        matching_uids = f"SELECT * FROM ({_matching_uids(plan, predicates)}) AS few LIMIT :found_most"
        probe = f"SELECT COUNT(*) FROM ({matching_uids}) AS probe"
        if fetch_int(transaction, probe, {**plan.params, **params}) > most:
            continue
        if column:
            condition = f"{plan.base_condition} AND {_conjunction(predicates)}"
            return CandidateSource(SourceKind.TABLE, "workload", condition, defeat_other_indexes=True)
        if accrued is None:
            return allocated_source(plan)
        return CandidateSource(
            SourceKind.UNION,
            f"({matching_uids}) AS found CROSS JOIN workload",
            f"workload.uid = found.uid AND {plan.base_condition}",
            params,
        )
    return None


def _matching_uids(plan: QueryPlan, predicates: Sequence[Predicate]) -> str:
    """A statement for the uids that predicates on one column, accrued time or allocation match."""
    first = predicates[0]
    if first.branches:
        conditions = [" AND ".join(parts) for parts in zip(*(each.branches for each in predicates), strict=True)]
        return " UNION ALL ".join(
            f"SELECT * FROM ({_select_uids(f'{plan.base_condition} AND {condition}')} LIMIT :found_most) AS part_{n}"
            for n, condition in enumerate(conditions)
        )
    if first.column:
        return _select_uids(f"{plan.base_condition} AND {_conjunction(predicates)}")
    joined = " AND ".join(each.with_allocation_joined() for each in predicates)
    return f"SELECT workload_uid FROM workload_allocation WHERE {joined}"


def _uid_list_source(transaction: Transaction, plan: QueryPlan) -> CandidateSource | None:
    """The workloads whose names match a text filter, or that a search finds, if they are few."""
    uids: list[str] | None = None
    for predicate in plan.row_predicates:
        if predicate.covering and uids is None:
            select = _select_uids(f"{plan.base_condition} AND {predicate.on_table()}")
            params = {**plan.params, "named": MAX_UID_LIST + 1}
            rows = transaction.fetch_all(f"{select} ORDER BY workload.name LIMIT :named", params)
            uids = [row[0] for row in rows] if len(rows) <= MAX_UID_LIST else None
    if uids is None and plan.search:
        uids = search_uids(transaction, plan.search, MAX_UID_LIST, deleted=plan.deleted)
    if uids is None:
        return None
    size = next(size for size in UID_LIST_SIZES if size >= len(uids))
    padded = [*uids, *([uids[-1] if uids else ""] * (size - len(uids)))]
    keys = {f"uid_{position}": uid for position, uid in enumerate(padded)}
    condition = f"workload.uid IN ({', '.join(f':{name}' for name in keys)}) AND {plan.base_condition}"
    return CandidateSource(SourceKind.UIDS, "workload", condition, keys)


def _conjunction(predicates: Sequence[Predicate]) -> str:
    return " AND ".join(predicate.on_table() for predicate in predicates)


def _select_uids(condition: str) -> str:
    return f"SELECT workload.uid FROM workload WHERE {condition}"
