"""Filters as SQL. Those on what there are few different values of say which values, and hold for the counts of
workloads as well as for workloads; the others say what must hold for a column."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from stoker.domain.inventory import FRAMEWORKS, Field, Filter, Operator, Value, class_of, holds
from stoker.domain.workload import CATEGORY, Kind, Phase
from stoker.store.base import Transaction
from stoker.store.listing import escaped

WORKSPACES = """
SELECT workspace.id, workspace.name, workspace.department_id, department.name
FROM workspace
JOIN department ON department.id = workspace.department_id
"""
HELD_IN = "SELECT DISTINCT workspace_id FROM workload_count"
HOMELESS = """
SELECT DISTINCT workspace_id, '', 0, ''
FROM workload_count
WHERE workspace_id NOT IN (SELECT id FROM workspace)
"""
CLUSTERS = "SELECT id FROM cluster"
DISTINCT = "SELECT DISTINCT {} FROM workload_count"
COLUMNS = {
    Field.KIND: "kind",
    Field.CATEGORY: "kind",
    Field.FRAMEWORK: "kind",
    Field.PHASE: "phase",
    Field.CLUSTER: "cluster_id",
    Field.WORKSPACE_ID: "workspace_id",
    Field.WORKSPACE: "workspace_id",
    Field.DEPARTMENT_ID: "workspace_id",
    Field.DEPARTMENT: "workspace_id",
    Field.PRIORITY: "priority",
    Field.PRIORITY_CLASS: "priority",
    Field.POOLS: "pools",
    Field.USER: "user_name",
}
"""The columns that workloads are counted by. Where several fields share one, each is made from its values."""
HOMES = {
    Field.WORKSPACE_ID: "CAST(workspace_id AS TEXT)",
    Field.WORKSPACE: "workspace.name",
    Field.DEPARTMENT_ID: "CAST(workspace.department_id AS TEXT)",
    Field.DEPARTMENT: "department.name",
}
HOMES_OF = {
    Field.WORKSPACE_ID: "CAST(workload.workspace_id AS TEXT)",
    Field.WORKSPACE: "COALESCE(workspace.name, '')",
    Field.DEPARTMENT_ID: "COALESCE(CAST(workspace.department_id AS TEXT), '0')",
    Field.DEPARTMENT: "COALESCE(department.name, '')",
}
"""The same of a workload `AT_HOME`."""
AT_HOME = """
LEFT JOIN workspace ON workspace.id = workload.workspace_id
LEFT JOIN department ON department.id = workspace.department_id
"""
NOTHING = frozenset({Field.APPLICATION_ID, Field.APPLICATION})
"""Fields that no workload has a value of."""
NUMERIC = frozenset(
    {
        "workspace_id",
        "priority",
        "submitted_at",
        "started_at",
        "ended_at",
        "phase_at",
        "deleted_at",
        "guaranteed_until",
    }
)

LIVE = "workload.deleted_at IS NULL"
LEAVING = "workload.phase = 'Deleting'"
GONE = "workload.deleted_at IS NOT NULL AND workload.phase <> 'Deleting'"
ALIKE = """
(
    SELECT DISTINCT cluster_id, namespace, kind, phase, user_id, priority, pools
    FROM workload_count
    WHERE {condition}
) AS alike
CROSS JOIN workload
"""  # index workload_alike
SAME = """
workload.cluster_id = alike.cluster_id
  AND workload.namespace = alike.namespace
  AND workload.kind = alike.kind
  AND workload.phase = alike.phase
  AND workload.user_id = alike.user_id
  AND workload.priority = alike.priority
  AND workload.pools = alike.pools
"""

ALLOCATED = "COALESCE((SELECT allocated_milli FROM workload_use WHERE workload_uid = workload.uid), 0)"
IDLE = "COALESCE((SELECT idle_milli FROM workload_use WHERE workload_uid = workload.uid), 0)"
HOLDS = "EXISTS (SELECT 1 FROM workload_use WHERE workload_uid = workload.uid)"
IDLES = "EXISTS (SELECT 1 FROM workload_use WHERE workload_uid = workload.uid AND idle_milli > 0)"
AMONG_HOLDERS = {
    ALLOCATED: "workload_use.allocated_milli",
    IDLE: "workload_use.idle_milli",
    HOLDS: "1 = 1",
    IDLES: "workload_use.idle_milli > 0",
}
"""The same where only those are looked at that hold something, beside what they hold."""
GPUS = "(workload.gpu_milli * workload.replicas)"
TIME_COLUMNS = {
    Field.CREATED: "submitted_at",
    Field.STARTED: "started_at",
    Field.ENDED: "ended_at",
    Field.PHASE_CHANGED: "phase_at",
    Field.DELETED: "deleted_at",
    Field.GUARANTEED: "guaranteed_until",
}
COMPARED = {
    Operator.EQUAL: "=",
    Operator.NOT_EQUAL: "<>",
    Operator.AT_MOST: "<=",
    Operator.AT_LEAST: ">=",
}


class Time(Struct, frozen=True):
    """A time that has added up, and goes on while something holds. Each part has an index: by what has added up, and by
    when it would have begun had it never paused."""

    over: str
    added_up: str
    goes_on: str
    began: str

    @property
    def now(self) -> str:
        """In milliseconds, of any workload."""
        return f"(CASE WHEN {self.goes_on} THEN :now - {self.began} ELSE {self.added_up} END)"

    def between(self, least: str | None, most: str | None) -> tuple[str, str]:
        """What holds for each part when it is at least the one, and less than the other."""
        over = [self.over, *([f"{self.added_up} >= {least}"] if least else [])]
        over += [f"{self.added_up} < {most}"] if most else []
        goes_on = [self.goes_on, *([f"{self.began} <= :now - {least}"] if least else [])]
        goes_on += [f"{self.began} > :now - {most}"] if most else []
        return " AND ".join(over), " AND ".join(goes_on)


TIMES = {
    Field.RUNNING: Time(
        "workload.running_since IS NULL",
        "workload.ran_ms",
        "workload.running_since IS NOT NULL",
        "(workload.running_since - workload.ran_ms)",
    ),
    Field.PENDING: Time(
        "workload.phase NOT IN ('Pending', 'Resuming')",
        "workload.waited_ms",
        "workload.phase IN ('Pending', 'Resuming')",
        "(workload.phase_at - workload.waited_ms)",
    ),
}


class Clause(Struct, frozen=True):
    """`sql` has `{}` where its column is, if it is about one. `narrow` is set where an index finds what it asks for,
    and `scan` where all that it looks at lies close together in the index of names."""

    sql: str
    params: Mapping[str, object] = {}
    column: str = ""
    narrow: bool = False
    scan: bool = False
    field: Field | None = None
    parts: tuple[str, ...] = ()
    """The same for each part of a time."""

    def on(self, table: str = "workload") -> str:
        return self.sql.replace("{}", f"{table}.{self.column}") if self.column else self.sql

    def aside(self) -> str:
        """The same in a form that keeps an index on its column from being used."""
        if not self.column:
            return self.sql
        return self.sql.replace("{}", past(self.column))


def past(column: str) -> str:
    """A column of workloads in a form that no index has."""
    return f"(workload.{column} + 0)" if column in NUMERIC else f"(workload.{column} || '')"


NEVER = Clause("1 = 0")
Values = dict[object, Value | tuple[str, ...] | None]


def values_of(transaction: Transaction, field: Field) -> Values:
    """What a field is for each value of its column."""
    match field:
        case Field.KIND:
            return {kind: str(kind) for kind in Kind}
        case Field.CATEGORY:
            return {kind: str(CATEGORY[kind]) for kind in Kind}
        case Field.FRAMEWORK:
            return {kind: FRAMEWORKS.get(kind) for kind in Kind}
        case Field.PHASE:
            return {phase: str(phase) for phase in Phase}
        case Field.CLUSTER:
            return {row[0]: row[0] for row in transaction.all(CLUSTERS)}
        case Field.PRIORITY | Field.PRIORITY_CLASS:
            found = [row[0] for row in transaction.all(DISTINCT.format("priority"))]
            return {each: each if field is Field.PRIORITY else class_of(each) for each in found}
        case Field.POOLS:
            return {row[0]: tuple(row[0].split(",")) for row in transaction.all(DISTINCT.format("pools"))}
        case Field.USER:
            return {row[0]: row[0] for row in transaction.all(DISTINCT.format("user_name"))}
        case _:
            place = {Field.WORKSPACE_ID: 0, Field.WORKSPACE: 1, Field.DEPARTMENT_ID: 2, Field.DEPARTMENT: 3}[field]
            rows = (*transaction.all(WORKSPACES), *transaction.all(HOMELESS))
            return {row[0]: str(row[place]) for row in rows}


def in_order(values: Values, *, descending: bool) -> list[list[object]]:
    """The keys of equal values together, by value; those without one last."""
    known: dict[Any, list[object]] = {}
    for key, value in values.items():
        known.setdefault(",".join(value) if isinstance(value, tuple) else value, []).append(key)
    missing = known.pop(None, [])
    ordered = [known[value] for value in sorted(known, reverse=descending)]
    return [*ordered, *([missing] if missing else [])]


def one_of(column: str, values: Iterable[object], tag: str) -> Clause:
    """`column IN (…)`; nothing is in an empty list."""
    params = {f"{tag}_{number}": value for number, value in enumerate(values)}
    if not params:
        return NEVER
    return Clause(f"{{}} IN ({', '.join(f':{name}' for name in params)})", params, column)


def counted(transaction: Transaction, asked: Filter, tag: str) -> Clause | None:
    """A filter on a field that workloads are counted by; None when it keeps everything."""
    if asked.field is Field.USER:
        return text("user_name", asked.operator, str(asked.value), tag)
    if asked.field in HOMES:
        return _of_workspaces(transaction, asked, tag)
    values = values_of(transaction, asked.field)
    kept = [key for key, value in values.items() if holds(value, asked.operator, asked.value)]
    return None if len(kept) == len(values) else one_of(COLUMNS[asked.field], kept, tag)


def _of_workspaces(transaction: Transaction, asked: Filter, tag: str) -> Clause | None:
    """By a workspace or its department. Of a workspace that was deleted nothing but its number is known."""
    meant = text("", asked.operator, str(asked.value), tag)
    without = asked.field is not Field.WORKSPACE_ID and holds("", asked.operator, str(asked.value))
    condition = f"{'NOT ' if without else ''}({meant.sql.replace('{}', HOMES[asked.field])})"
    source = HELD_IN if asked.field is Field.WORKSPACE_ID else WORKSPACES
    found = one_of(
        "workspace_id", (row[0] for row in transaction.all(f"{source} WHERE {condition}", meant.params)), tag
    )
    if not without:
        return found
    return Clause(f"NOT ({found.sql})", found.params, found.column) if found.params else None


def other(asked: Filter, tag: str) -> Clause | None:
    """A filter on a field that each workload has a value of its own of; None when it keeps everything."""
    field, operator, value = asked.field, asked.operator, asked.value
    if field in NOTHING:
        return None if holds(None, operator, value) else NEVER
    if field is Field.NAME:
        return text("name", operator, str(value), tag)
    if field in TIME_COLUMNS:
        return _moment(field, operator, value, tag)
    if field in TIMES:
        return _seconds(field, operator, value, tag)
    if field is Field.IDLE_WHOLE:
        return _number(f"(({IDLE} + 999) / 1000)", operator, value, tag, whole=True)
    return _number(ALLOCATED if field is Field.ALLOCATED else IDLE, operator, value, tag, whole=False)


def text(column: str, operator: Operator, value: str, tag: str) -> Clause:
    """On a column that is in lower case."""
    scan = column == "name"
    folded = value.casefold()
    match operator:
        case Operator.CONTAINS:
            return Clause(f"instr({{}}, :{tag}) > 0", {tag: folded}, column, scan=scan)
        case Operator.LACKS:
            return Clause(f"instr({{}}, :{tag}) = 0", {tag: folded}, column)
        case Operator.STARTS:
            params = {f"{tag}_from": folded, f"{tag}_to": folded + "\U0010ffff"}
            return Clause(f"({{}} >= :{tag}_from AND {{}} < :{tag}_to)", params, column, narrow=True)
        case Operator.ENDS:
            params = {tag: folded, f"{tag}_end": f"%{escaped(value)}"}
            return Clause(f"(instr({{}}, :{tag}) > 0 AND {{}} LIKE :{tag}_end ESCAPE '!')", params, column, scan=scan)
        case _:
            narrow = operator is not Operator.NOT_EQUAL
            return Clause(f"{{}} {COMPARED[operator]} :{tag}", {tag: value}, column, narrow=narrow)


def _moment(field: Field, operator: Operator, value: Value, tag: str) -> Clause:
    column = TIME_COLUMNS[field]
    if operator is Operator.NOT_EQUAL:
        return Clause(f"({{}} IS NULL OR {{}} <> :{tag})", {tag: value}, column)
    return Clause(f"{{}} {COMPARED[operator]} :{tag}", {tag: value}, column, narrow=True)


def _seconds(field: Field, operator: Operator, value: Value, tag: str) -> Clause:
    """Whole seconds of a time: those from the first millisecond of one to the last of another."""
    time = TIMES[field]
    if operator.on_text or operator is Operator.NOT_EQUAL or isinstance(value, str):
        return _number(f"({time.now} / 1000)", operator, value, tag, whole=True)
    least = None if operator is Operator.AT_MOST else f":{tag}_least"
    most = None if operator is Operator.AT_LEAST else f":{tag}_most"
    if operator is Operator.EQUAL and value != math.floor(value):
        return NEVER
    bounds = {f"{tag}_least": math.ceil(value) * 1000, f"{tag}_most": (math.floor(value) + 1) * 1000}
    params = {name: bound for name, bound in bounds.items() if f":{name}" in {least, most}}
    parts = time.between(least, most)
    return Clause(f"({' OR '.join(f'({part})' for part in parts)})", params, narrow=True, field=field, parts=parts)


def _number(expression: str, operator: Operator, value: Value, tag: str, *, whole: bool) -> Clause:
    """A number, in thousandths unless it is whole; narrow when what holds nothing is not meant."""
    sparse = "workload_use" in expression and not holds(0, operator, value)
    if not operator.on_text:
        scaled = value if whole or isinstance(value, str) else value * 1000
        return Clause(f"{expression} {COMPARED[operator]} :{tag}", {tag: scaled}, narrow=sparse)
    shown = f"CAST({expression} AS TEXT)" if whole else _shown(expression)
    pattern = text("", operator, str(value), tag)
    if operator is Operator.STARTS:
        pattern = Clause(f"{{}} LIKE :{tag} ESCAPE '!'", {tag: f"{escaped(str(value))}%"})
    return Clause(pattern.sql.replace("{}", shown), pattern.params, narrow=sparse)


def _shown(milli: str) -> str:
    """A number of thousandths as it is written: `8`, `0.5`."""
    rest = f"RTRIM(SUBSTR(CAST(1000 + {milli} % 1000 AS TEXT), 2), '0')"
    return f"(CAST({milli} / 1000 AS TEXT) || CASE WHEN {milli} % 1000 = 0 THEN '' ELSE '.' || {rest} END)"
