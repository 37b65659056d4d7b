"""Returns one page of workloads in any order, from any number of workloads.

A small set of candidates is sorted. Otherwise the index of the order is scanned until the page is full; an order
without an index is scanned value by value. Workloads that sort equally are ordered by creation time, unless the index
of the order says otherwise, and then by uid.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from stoker.domain.queries.filters import FilterOperator
from stoker.domain.queries.workload_query import WorkloadField, WorkloadSort
from stoker.store.db.base import Transaction
from stoker.store.workloads.query.candidates import (
    allocated_source,
    candidate_limit,
    count_matches,
    find_candidates,
)
from stoker.store.workloads.query.fields import (
    ACCRUED_TIMES,
    ALLOCATION_SORTS,
    COLUMN_VALUE_FIELDS,
    DELETING,
    FIELDS_WITHOUT_VALUE,
    GROUP_COLUMNS,
    HAS_ALLOCATION,
    HAS_IDLE_ALLOCATION,
    REQUESTED_GPUS_EXPR,
    SORT_COLUMNS,
    TIMESTAMP_COLUMNS,
    WORKLOAD_WORKSPACE_EXPR,
    WORKSPACE_JOIN,
    defeat_index,
)
from stoker.store.workloads.query.groups import GroupValues, group_values, order_groups
from stoker.store.workloads.query.plan import CandidateSource, QueryPlan
from stoker.store.workloads.query.predicates import Predicate

CREATED_AT_COLUMN = "workload.submitted_at"
SORTED_BY_COLUMN = COLUMN_VALUE_FIELDS | {WorkloadField.NODE_POOLS}
"""Fields on group columns that sort as the column does."""
NULLABLE_SORTS = frozenset({WorkloadField.STARTED_AT, WorkloadField.ENDED_AT, WorkloadField.DELETED_AT})


class SortedBranch(Struct, frozen=True):
    """A sorted SELECT of workloads. `index_order` is the ORDER BY in the form that an index serves."""

    from_clause: str
    condition: str
    sort_key: str
    tie_breaker: str = ""
    index_order: str = ""


class Paginator:
    def __init__(self, transaction: Transaction, sort: WorkloadSort) -> None:
        self._transaction = transaction
        self._sort = sort
        self._direction, self._reverse_direction = ("DESC", "ASC") if sort.descending else ("ASC", "DESC")
        self._value_ranks: GroupValues = {value: rank for rank, value in enumerate(sort.value_order)}

    def page(self, plan: QueryPlan, offset: int, limit: int) -> list[str]:
        """The uids of a page."""
        return self._page_by(self._sort.field, plan, offset, limit)

    def _page_by(self, sort: WorkloadField, plan: QueryPlan, offset: int, limit: int) -> list[str]:
        if sort in FIELDS_WITHOUT_VALUE or (sort is WorkloadField.GUARANTEED_UNTIL and plan.deleted):
            sort = WorkloadField.CREATED_AT
        if offset >= plan.group_total:
            return []
        indexed = sort not in GROUP_COLUMNS and sort not in ALLOCATION_SORTS
        if (indexed and not plan.predicates) or (sort is WorkloadField.CREATED_AT and plan.creation_ordered):
            return self._index_scan(plan, sort, offset, limit)
        source = find_candidates(self._transaction, plan, candidate_limit(plan.unfiltered_total, offset + limit), sort)
        if source is not None:
            return self._sort_candidates(plan, source, sort, offset, limit)
        if indexed:
            return self._index_scan(plan, sort, offset, limit)
        scan = self._group_scan if sort in GROUP_COLUMNS else self._allocation_scan
        return scan(plan, sort, offset, limit)

    def _sort_candidates(
        self, plan: QueryPlan, source: CandidateSource, sort: WorkloadField, offset: int, limit: int
    ) -> list[str]:
        branch = self._sorted_branch(
            source.from_clause, source.where(plan), sort, allocation_joined=source.joins_allocation
        )
        return self._fetch_uids(plan, source.params, self._with_deleting(plan, [branch], sort), offset, limit)

    def _index_scan(self, plan: QueryPlan, sort: WorkloadField, offset: int, limit: int) -> list[str]:
        condition = f"{plan.base_condition} AND {_unindexed_condition(plan, sort)}"
        if sort in ACCRUED_TIMES:
            branches = self._accrued_time_branches(plan, sort, condition)
        elif sort is WorkloadField.GUARANTEED_UNTIL or sort in NULLABLE_SORTS:
            branches = self._nullable_branches(plan, sort, condition)
        else:
            key = self._sort_expr(sort)
            condition = " AND ".join((condition, *_implied_conditions(plan, sort)))
            order = f"{key} {self._direction}, workload.uid {self._direction}"
            branches = [SortedBranch("workload", condition, key, "", order)]
        return self._fetch_uids(plan, {}, self._with_deleting(plan, branches, sort), offset, limit)

    def _accrued_time_branches(self, plan: QueryPlan, sort: WorkloadField, condition: str) -> list[SortedBranch]:
        time = ACCRUED_TIMES[sort]
        stopped, running = _accrued_time_conditions(plan, sort)
        uid = f"workload.uid {self._direction}"
        by_accrued = f"{time.accrued} {self._direction}, {uid}"
        by_start = f"{time.virtual_start} {self._reverse_direction}, {uid}"
        return [
            SortedBranch("workload", f"{condition} AND {stopped}", time.accrued, "", by_accrued),
            SortedBranch("workload", f"{condition} AND {running}", time.current, "", by_start),
        ]

    def _nullable_branches(self, plan: QueryPlan, sort: WorkloadField, condition: str) -> list[SortedBranch]:
        """Workloads with a time, and workloads without one."""
        key, uid = self._sort_expr(sort), f"workload.uid {self._direction}"
        known = " AND ".join((condition, f"{key} IS NOT NULL", *_implied_conditions(plan, sort)))
        missing = f"{condition} AND {key} IS NULL"
        if sort is WorkloadField.GUARANTEED_UNTIL:  # its index holds only the few workloads with a value
            created = f"{CREATED_AT_COLUMN} {self._direction}, {uid}"
            order = f"{key} {self._direction}, {created}"
            return [
                SortedBranch("workload", known, key, CREATED_AT_COLUMN, order),
                SortedBranch("workload", missing, key, CREATED_AT_COLUMN, created),
            ]
        nulls = "LAST" if self._sort.descending else "FIRST"  # as the index orders them
        order = f"{key} {self._direction} NULLS {nulls}, {uid}"
        return [SortedBranch("workload", where, key, "", order) for where in (known, missing)]

    def _group_scan(self, plan: QueryPlan, sort: WorkloadField, offset: int, limit: int) -> list[str]:
        """Reads value after value, each by creation time; values before the page are only counted."""
        uids: list[str] = []
        for number, (keys, total) in enumerate(self._groups_in_order(plan, sort)):
            if not plan.row_predicates and offset >= total:
                offset -= total
                continue
            group = plan.with_group(GROUP_COLUMNS[sort], keys, f"group_{number}", total)
            found = self._page_by(WorkloadField.CREATED_AT, group, offset, limit - len(uids))
            offset = 0 if found or not offset else max(0, offset - count_matches(self._transaction, group))
            uids += found
            if len(uids) >= limit:
                break
        return uids

    def _allocation_scan(self, plan: QueryPlan, sort: WorkloadField, offset: int, limit: int) -> list[str]:
        """Reads workloads without an allocation, which are many, by creation time, and sorts the others."""
        held = HAS_ALLOCATION if sort is WorkloadField.ALLOCATED_GPUS else HAS_IDLE_ALLOCATION
        without = plan.with_row_predicate(Predicate(f"NOT {held.sql}", joined_sql=f"NOT {held.joined_sql}"))
        holding = plan.with_row_predicate(Predicate(held.sql, selective=True, joined_sql=held.joined_sql))
        groups: list[tuple[QueryPlan, Callable[[int, int], list[str]]]] = [
            (without, lambda first, most: self._index_scan(without, WorkloadField.CREATED_AT, first, most)),
            (holding, lambda first, most: self._sort_candidates(holding, allocated_source(plan), sort, first, most)),
        ]
        (before, read_first), (_, read_last) = reversed(groups) if self._sort.descending else groups
        uids = read_first(offset, limit)
        if len(uids) < limit:
            skipped = 0 if uids or not offset else max(0, offset - count_matches(self._transaction, before))
            uids += read_last(skipped, limit - len(uids))
        return uids

    def _groups_in_order(self, plan: QueryPlan, sort: WorkloadField) -> Iterator[tuple[list[object], int]]:
        """The keys of the group column for each value of a field, in order, with their number of workloads."""
        column = GROUP_COLUMNS[sort]
        rows = self._transaction.fetch_all(
            f"""
            SELECT {column}, SUM(workloads)
            FROM workload_count
            WHERE {plan.group_condition()}
            GROUP BY {column}
            HAVING SUM(workloads) > 0
            """,
            plan.params,
        )
        totals = {row[0]: int(row[1]) for row in rows}
        values: GroupValues = {key: key for key in totals}
        if self._value_ranks or sort not in SORTED_BY_COLUMN:
            values = self._value_ranks or group_values(self._transaction, sort)
        for keys in order_groups(values, descending=self._sort.descending):
            if total := sum(totals.get(key, 0) for key in keys):
                yield keys, total

    def _sort_column(self, sort: WorkloadField) -> str:
        """The column of `workload` that a field is sorted by; empty if it is sorted by an expression."""
        if sort in SORTED_BY_COLUMN and not self._value_ranks:
            return GROUP_COLUMNS[sort]
        return SORT_COLUMNS.get(sort, "")

    def _sort_expr(self, sort: WorkloadField, *, allocation_joined: bool = False) -> str:
        if column := self._sort_column(sort):
            return f"workload.{column}"
        if sort in ACCRUED_TIMES:
            return ACCRUED_TIMES[sort].current
        if sort in WORKLOAD_WORKSPACE_EXPR:
            return WORKLOAD_WORKSPACE_EXPR[sort]
        if sort in ALLOCATION_SORTS:
            expression = ALLOCATION_SORTS[sort]
            return expression.joined_sql if allocation_joined else expression.sql
        return REQUESTED_GPUS_EXPR if sort is WorkloadField.GPUS else self._rank_expr(sort)

    def _rank_expr(self, sort: WorkloadField) -> str:
        """The rank of a value that is derived from a group column."""
        values = self._value_ranks or group_values(self._transaction, sort)
        known: GroupValues = {key: value for key, value in values.items() if value is not None}
        cases = [
            f"WHEN {_sql_literal(key)} THEN {rank}"
            for rank, keys in enumerate(order_groups(known, descending=False))
            for key in keys
        ]
        return f"CASE workload.{GROUP_COLUMNS[sort]} {' '.join(cases)} END" if cases else CREATED_AT_COLUMN

    def _with_deleting(self, plan: QueryPlan, branches: list[SortedBranch], sort: WorkloadField) -> list[SortedBranch]:
        """Adds the workloads that are being deleted, of which there are never many."""
        if not plan.deleting_total:
            return branches
        condition = f"{DELETING} AND {plan.where(unindexed=True)}"
        return [*branches, self._sorted_branch("workload", condition, sort)]

    def _sorted_branch(
        self, source: str, condition: str, sort: WorkloadField, *, allocation_joined: bool = False
    ) -> SortedBranch:
        """A few workloads, sorted by a key that matches no index, so that the database does not scan one."""
        column = self._sort_column(sort)
        key = defeat_index(column) if column else self._sort_expr(sort, allocation_joined=allocation_joined)
        by_creation = sort in GROUP_COLUMNS or sort in ALLOCATION_SORTS or sort is WorkloadField.GUARANTEED_UNTIL
        from_clause = f"{source} {WORKSPACE_JOIN}" if sort in WORKLOAD_WORKSPACE_EXPR else source
        return SortedBranch(from_clause, condition, key, CREATED_AT_COLUMN if by_creation else "")

    def _fetch_uids(
        self,
        plan: QueryPlan,
        source_params: Mapping[str, object],
        branches: Sequence[SortedBranch],
        offset: int,
        limit: int,
    ) -> list[str]:
        params = {**plan.params, **source_params, "limit": limit, "offset": offset, "most": offset + limit}
        selects = [self._select_sql(branch) for branch in branches]
        if len(selects) == 1:
            rows = self._transaction.fetch_all(f"{selects[0]} LIMIT :limit OFFSET :offset", params)
            return [row[0] for row in rows]
        parts = [f"SELECT * FROM ({select} LIMIT :most) AS part_{n}" for n, select in enumerate(selects)]
        rows = self._transaction.fetch_all(
            f"""
            SELECT uid, place, tie FROM ({" UNION ALL ".join(parts)}) AS together
            ORDER BY place {self._direction} NULLS LAST, tie {self._direction}, uid {self._direction}
            LIMIT :limit OFFSET :offset
            """,
            params,
        )
        return [row[0] for row in rows]

    def _select_sql(self, branch: SortedBranch) -> str:
        tie = f"{branch.tie_breaker} {self._direction}," if branch.tie_breaker else ""
        order = f"{branch.sort_key} {self._direction} NULLS LAST, {tie} workload.uid {self._direction}"
        return f"""
        SELECT workload.uid AS uid, {branch.sort_key} AS place, {branch.tie_breaker or "0"} AS tie
        FROM {branch.from_clause}
        WHERE {branch.condition}
        ORDER BY {branch.index_order or order}
        """


def _unindexed_condition(plan: QueryPlan, sort: WorkloadField) -> str:
    """All predicates, in a form that leaves the index of the order to the database."""
    sort_column = SORT_COLUMNS.get(sort, "")
    leading = plan.creation_ordered if sort is WorkloadField.CREATED_AT else None
    conditions = [
        predicate.on_table() if predicate is leading or predicate.column == sort_column else predicate.unindexed()
        for predicate in plan.predicates
        if predicate.accrued_field is not sort
    ]
    return " AND ".join(conditions) or "1 = 1"


def _accrued_time_conditions(plan: QueryPlan, sort: WorkloadField) -> tuple[str, str]:
    """The conditions for stopped and for running workloads when sorting by an accrued time."""
    time = ACCRUED_TIMES[sort]
    filtered = [predicate.branches for predicate in plan.row_predicates if predicate.accrued_field is sort]
    stopped, running = zip((time.stopped, time.running), *filtered, strict=True)
    return " AND ".join(stopped), " AND ".join(running)


def _implied_conditions(plan: QueryPlan, sort: WorkloadField) -> Iterator[str]:
    """A filter on one time implies a bound for another: nothing happens to a workload before its creation, and it ends
    with its last change of phase."""
    column = TIMESTAMP_COLUMNS.get(sort, "")
    for predicate in plan.row_predicates:
        if predicate.column == column or predicate.column not in TIMESTAMP_COLUMNS.values():
            continue
        if predicate.operator is FilterOperator.NOT_EQUAL:
            continue
        same = {predicate.column, column} == {"ended_at", "phase_at"}
        later = column and predicate.column == "submitted_at" and predicate.operator is FilterOperator.AT_LEAST
        earlier = column == "submitted_at" and predicate.operator is FilterOperator.AT_MOST
        if same or later or earlier:
            yield predicate.on_expression(f"workload.{column}")


def _sql_literal(key: object) -> str:
    return str(key) if isinstance(key, int) else f"'{key}'"
