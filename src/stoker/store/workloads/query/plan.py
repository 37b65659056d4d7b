"""Plans a workload query: its filters as predicates, and how many workloads they can match.

Predicates on group columns apply to the table of counts as well, so an upper bound of the matches is known before any
workload is read.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct, structs

from stoker.domain.queries.filters import FilterOperator
from stoker.domain.queries.workload_query import WorkloadField, WorkloadFilter, WorkloadQuery
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.workloads.query.fields import DELETED, GROUP_COLUMNS, NOT_DELETED
from stoker.store.workloads.query.predicates import Predicate, group_predicate, in_list, row_predicate
from stoker.store.workloads.query.search import search_predicate

CREATION_ORDERED_COLUMNS = ("phase", "kind", "workspace_id", "user_id")
"""Columns whose index holds the workloads of one value in the order of creation."""
COUNT_BY_GROUP = "SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE {condition}"
COUNT_BY_VISIBILITY = "SELECT visibility, SUM(workloads) FROM workload_count GROUP BY visibility"
EXISTING, DELETING, GONE = 0, 1, 2
"""Values of `workload_count.visibility`."""


class SourceKind(Enum):
    """The tables that candidates are read from."""

    TABLE = "workload"
    GROUPS = "workload by its group columns"
    ALLOCATIONS = "workload by its allocation"
    UIDS = "workload by a list of uids"
    UNION = "workload by the union of two index ranges"


class CandidateSource(Struct, frozen=True):
    """A FROM clause and a condition that yield all workloads a query can match, and few others.

    `defeat_other_indexes` keeps the remaining predicates from diverting the database from the index of the condition.
    """

    kind: SourceKind
    from_clause: str
    condition: str
    params: Mapping[str, object] = {}
    defeat_other_indexes: bool = False

    @property
    def joins_allocation(self) -> bool:
        return self.kind is SourceKind.ALLOCATIONS

    def where(self, plan: "QueryPlan") -> str:
        if self.joins_allocation:
            predicates = [predicate.with_allocation_joined() for predicate in plan.predicates]
            return " AND ".join((self.condition, *(predicates or ["1 = 1"])))
        return f"{self.condition} AND {plan.where(unindexed=self.defeat_other_indexes)}"


class QueryPlan(Struct, frozen=True):
    """A query as predicates. `visibility` selects the counts and `base_condition` the workloads of its scope.

    `unfiltered_total` counts the workloads of the scope, `deleting_total` those among them that are being deleted, and
    `group_total` those that the group predicates match.
    """

    deleted: bool
    visibility: str
    base_condition: str
    unfiltered_total: int
    deleting_total: int
    group_total: int
    group_predicates: tuple[Predicate, ...]
    row_predicates: tuple[Predicate, ...]
    search: str
    params: dict[str, object]
    uid_list_cache: list[CandidateSource | None]
    """The result of scanning all names, which happens at most once for a query; empty before."""

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        return (*self.group_predicates, *self.row_predicates)

    @property
    def creation_ordered(self) -> Predicate | None:
        """A predicate on one value whose workloads an index holds in the order of creation."""
        if self.deleted:
            return None
        return next(
            (
                predicate
                for predicate in self.group_predicates
                if predicate.column in CREATION_ORDERED_COLUMNS and predicate.is_single_value
            ),
            None,
        )

    def with_group(self, column: str, values: Sequence[object], tag: str, total: int) -> "QueryPlan":
        """The plan restricted to some values of a group column."""
        predicate = in_list(column, values, tag)
        return structs.replace(
            self,
            group_predicates=(*self.group_predicates, predicate),
            params={**self.params, **predicate.params},
            group_total=total,
        )

    def with_row_predicate(self, predicate: Predicate) -> "QueryPlan":
        return structs.replace(self, row_predicates=(*self.row_predicates, predicate))

    def where(self, *, unindexed: bool = False) -> str:
        predicates = self.predicates
        return " AND ".join(each.unindexed() if unindexed else each.on_table() for each in predicates) or "1 = 1"

    def group_condition(self) -> str:
        return self._on_counts(self.visibility)

    def existing_group_condition(self) -> str:
        """The group condition without workloads that are being deleted."""
        return self._on_counts(f"visibility = {EXISTING}")

    def _on_counts(self, visibility: str) -> str:
        return " AND ".join((visibility, *(each.on_table("workload_count") for each in self.group_predicates)))


def plan_query(transaction: Transaction, query: WorkloadQuery, now: int) -> QueryPlan:
    """Raises "not found" if the cluster of the scope does not exist."""
    group_predicates, row_predicates = _build_predicates(transaction, query)
    params: dict[str, object] = {"now": now}
    for predicate in (*group_predicates, *row_predicates):
        params |= predicate.params
    deleted = query.scope.deleted
    with_deleting = query.scope.include_deleting and not deleted
    totals = {visibility: int(total) for visibility, total in transaction.fetch_all(COUNT_BY_VISIBILITY)}
    deleting_total = totals.get(DELETING, 0) if with_deleting else 0
    unfiltered_total = totals.get(GONE, 0) if deleted else totals.get(EXISTING, 0) + deleting_total
    visibility = f"= {GONE}" if deleted else f"< {GONE}" if with_deleting else f"= {EXISTING}"
    plan = QueryPlan(
        deleted=deleted,
        visibility=f"visibility {visibility}",
        base_condition=DELETED if deleted else NOT_DELETED,
        unfiltered_total=unfiltered_total,
        deleting_total=deleting_total,
        group_total=unfiltered_total,
        group_predicates=tuple(group_predicates),
        row_predicates=tuple(row_predicates),
        search=query.search,
        params=params,
        uid_list_cache=[],
    )
    if not group_predicates:
        return plan
    total = fetch_int(transaction, COUNT_BY_GROUP.format(condition=plan.group_condition()), params)
    # Group predicates that every workload satisfies would only slow the statements down.
    kept = plan.group_predicates if total < unfiltered_total else ()
    return structs.replace(plan, group_total=total, group_predicates=kept)


def fetch_int(transaction: Transaction, sql: str, params: Mapping[str, object]) -> int:
    row = transaction.fetch_one(sql, params)
    return int(row[0]) if row else 0


def _build_predicates(transaction: Transaction, query: WorkloadQuery) -> tuple[list[Predicate], list[Predicate]]:
    """The predicates on group columns, and the others."""
    group_predicates: list[Predicate] = []
    row_predicates: list[Predicate] = []
    if query.scope.workspace_ids is not None:
        group_predicates.append(in_list("workspace_id", query.scope.workspace_ids, "visible"))
    filters = query.filters
    if query.scope.cluster:
        cluster_id = clusters.get(transaction, query.scope.cluster).id
        filters = (*filters, WorkloadFilter(WorkloadField.CLUSTER_ID, FilterOperator.EQUAL, cluster_id))
    for number, condition in enumerate(filters):
        if condition.field in GROUP_COLUMNS:
            predicate = group_predicate(transaction, condition, f"group_filter_{number}")
            group_predicates += [predicate] if predicate else []
        else:
            predicate = row_predicate(condition, f"row_filter_{number}")
            row_predicates += [predicate] if predicate else []
    if query.search:
        row_predicates.append(search_predicate(transaction, query.search))
    return group_predicates, row_predicates
