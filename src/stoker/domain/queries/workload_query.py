"""Asking for workloads by anything that is known of them: fields, operators, and what a filter means."""

from collections.abc import Sequence
from enum import Enum, StrEnum

from msgspec import Struct

from stoker.domain.workload import Condition, Kind, Pod, Workload

PRIORITY_CLASSES = {
    "very-low": 25,
    "low": 40,
    "medium-low": 65,
    "medium": 80,
    "medium-high": 90,
    "high": 125,
    "very-high": 150,
}
FRAMEWORKS = {Kind.PYTORCH_JOB: "Pytorch"}
"""The kinds whose pods work together, and by what."""


class Field(StrEnum):
    """What workloads can be filtered and sorted by."""

    KIND = "kind"
    NAME = "name"
    CLUSTER = "cluster_id"
    WORKSPACE_ID = "workspace_id"
    WORKSPACE = "workspace"
    DEPARTMENT_ID = "department_id"
    DEPARTMENT = "department"
    CREATED = "created_at"
    STARTED = "started_at"
    DELETED = "deleted_at"
    USER = "user_name"
    PHASE = "phase"
    ENDED = "ended_at"
    POOLS = "pools"
    FRAMEWORK = "framework"
    GPUS = "gpus"
    ALLOCATED = "allocated_gpus"
    IDLE_WHOLE = "idle_gpus"
    IDLE = "idle_allocated_gpus"
    PHASE_CHANGED = "phase_at"
    CATEGORY = "category"
    PRIORITY = "priority"
    PENDING = "pending_seconds"
    RUNNING = "running_seconds"
    PRIORITY_CLASS = "priority_class"
    GUARANTEED = "guaranteed_until"
    APPLICATION_ID = "application_id"
    APPLICATION = "application"


TIMES = frozenset({Field.CREATED, Field.STARTED, Field.DELETED, Field.ENDED, Field.PHASE_CHANGED, Field.GUARANTEED})
NUMBERS = frozenset(
    {Field.GPUS, Field.ALLOCATED, Field.IDLE_WHOLE, Field.IDLE, Field.PRIORITY, Field.PENDING, Field.RUNNING},
)


class Operator(Enum):
    EQUAL = "=="
    NOT_EQUAL = "!="
    AT_MOST = "<="
    AT_LEAST = ">="
    CONTAINS = "=@"
    LACKS = "!@"
    STARTS = "=^"
    ENDS = "=$"

    @property
    def on_text(self) -> bool:
        """Whether it looks at the letters of a value; the others compare it as a whole."""
        return self in {Operator.CONTAINS, Operator.LACKS, Operator.STARTS, Operator.ENDS}

    @property
    def denies(self) -> bool:
        """Whether it holds for what has no value."""
        return self in {Operator.NOT_EQUAL, Operator.LACKS}


Value = str | int | float


class Filter(Struct, frozen=True):
    """Times are epoch milliseconds; texts that are looked into match in any case."""

    field: Field
    operator: Operator
    value: Value


class InventoryQuery(Struct, frozen=True, kw_only=True):
    """All filters hold. `workspace_ids` of None is every workspace; `deleted` asks for those that are gone;
    `cluster` is the name or the id of the only one that is meant."""

    cluster: str = ""
    filters: tuple[Filter, ...] = ()
    search: str = ""
    deleted: bool = False
    workspace_ids: tuple[int, ...] | None = None
    sort: Field = Field.CREATED
    descending: bool = False


class Held(Struct, frozen=True):
    """What a workload holds now; `idle_milli` of its GPUs have not been used for long."""

    pods: int = 0
    running_pods: int = 0
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    idle_milli: int = 0


class Listed(Struct, frozen=True):
    """A workload with the names of where it is, and what it holds now."""

    workload: Workload
    workspace: str
    department_id: int
    department: str
    conditions: Sequence[Condition]
    held: Held


class Found(Struct, frozen=True):
    """A part of a list; `more` when there is something behind it."""

    items: list[Listed]
    more: bool
    at: int
    """The moment that times in it go up to."""


class Detail(Struct, frozen=True):
    listed: Listed
    pods: Sequence[Pod]
    at: int


def class_of(priority: int) -> str:
    """The name of a priority: the highest class that it reaches."""
    reached = [name for name, least in PRIORITY_CLASSES.items() if priority >= least]
    return reached[-1] if reached else next(iter(PRIORITY_CLASSES))


def holds(value: Value | tuple[str, ...] | None, operator: Operator, wanted: Value) -> bool:
    """Whether a value satisfies a filter. Of several values one is enough, but for what denies; none has no text."""
    if isinstance(value, tuple):
        each = [holds(one, operator, wanted) for one in value]
        return all(each) if operator.denies else any(each)
    if value is None:
        return operator.denies
    if operator.on_text:
        return _holds_text(str(value).casefold(), operator, str(wanted).casefold())
    left, right = (value, wanted) if isinstance(value, str) is isinstance(wanted, str) else (str(value), str(wanted))
    match operator:
        case Operator.EQUAL:
            return left == right
        case Operator.NOT_EQUAL:
            return left != right
        case Operator.AT_MOST:
            return left <= right  # type: ignore[operator]
        case _:
            return left >= right  # type: ignore[operator]


def _holds_text(text: str, operator: Operator, wanted: str) -> bool:
    match operator:
        case Operator.STARTS:
            return text.startswith(wanted)
        case Operator.ENDS:
            return text.endswith(wanted)
        case Operator.LACKS:
            return wanted not in text
        case _:
            return wanted in text
