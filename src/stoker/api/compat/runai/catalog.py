"""Types, categories and priorities of workloads. They are the same in all installations."""

import uuid

from msgspec import Struct

from stoker.api.compat.runai.enums import DEFAULT_PRIORITY, PRIORITIES
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import NoParams, Params
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import not_found
from stoker.domain.workload.spec import CATEGORY_BY_KIND, Category, Kind

UUID_NAMESPACE = uuid.UUID("8c1ee1c1-6a55-4c9a-9d2b-0f4f0a3c6e71")
"""The UUID namespace of the ids, which are derived from names and so equal on all servers."""
API_GROUP_BY_KIND = {
    Kind.PYTORCH_JOB: "kubeflow.org",
    Kind.AUTHORING: "kubeflow.org",
    Kind.JOB: "batch",
    Kind.DEPLOYMENT: "apps",
    Kind.STATEFUL_SET: "apps",
}
CATEGORY_DESCRIPTIONS = {
    Category.BUILD: "Interactive work that is kept up.",
    Category.TRAIN: "Work that runs to its end.",
    Category.DEPLOY: "Services that are kept up.",
}


class TypeRow(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    name: str
    group: str
    category_id: str
    category_name: str
    priority_id: str
    priority_name: str


class TypesAnswer(Struct, frozen=True):
    types: list[TypeRow]


class CategoryRow(Struct, frozen=True):
    id: str
    name: str
    description: str


class CategoriesAnswer(Struct, frozen=True):
    categories: list[CategoryRow]


class PriorityRow(Struct, frozen=True):
    id: str
    name: str
    value: int


class PrioritiesAnswer(Struct, frozen=True):
    priorities: list[PriorityRow]


class TypePath(Params, frozen=True, kw_only=True, rename="camel"):
    workload_type_id: str


class CategoryPath(Params, frozen=True, kw_only=True, rename="camel"):
    category_id: str


def _stable_id(kind: str, name: str) -> str:
    return str(uuid.uuid5(UUID_NAMESPACE, f"{kind} {name}"))


def _to_type_row(kind: Kind) -> TypeRow:
    category = CATEGORY_BY_KIND[kind]
    priority = DEFAULT_PRIORITY[category]
    return TypeRow(
        id=_stable_id("type", kind),
        name=kind,
        group=API_GROUP_BY_KIND[kind],
        category_id=_stable_id("category", category),
        category_name=category,
        priority_id=_stable_id("priority", priority),
        priority_name=priority,
    )


TYPE_ROWS = [_to_type_row(kind) for kind in Kind]
CATEGORY_ROWS = [
    CategoryRow(_stable_id("category", category), category, CATEGORY_DESCRIPTIONS[category]) for category in Category
]
PRIORITY_ROWS = [PriorityRow(_stable_id("priority", name), name, value) for name, value in PRIORITIES.items()]


@endpoint("GET", "/api/v1/workload-types", family=RUNAI, action=Action.WORKLOAD_LIST)
async def list_workload_types(call: Call[NoParams]) -> TypesAnswer:
    """The workload types with their category and default priority."""
    return TypesAnswer(TYPE_ROWS)


@endpoint("GET", "/api/v1/workload-types/{workloadTypeId}", family=RUNAI, action=Action.WORKLOAD_LIST, params=TypePath)
async def read_workload_type(call: Call[TypePath]) -> TypeRow:
    """One workload type."""
    for row in TYPE_ROWS:
        if row.id == call.params.workload_type_id:
            return row
    raise not_found("workload type", call.params.workload_type_id)


@endpoint("GET", "/api/v1/workload-categories", family=RUNAI, action=Action.WORKLOAD_LIST)
async def list_categories(call: Call[NoParams]) -> CategoriesAnswer:
    """The workload categories."""
    return CategoriesAnswer(CATEGORY_ROWS)


@endpoint(
    "GET", "/api/v1/workload-categories/{categoryId}", family=RUNAI, action=Action.WORKLOAD_LIST, params=CategoryPath
)
async def read_category(call: Call[CategoryPath]) -> CategoryRow:
    """One category."""
    for row in CATEGORY_ROWS:
        if row.id == call.params.category_id:
            return row
    raise not_found("category", call.params.category_id)


@endpoint("GET", "/api/v1/workload-priorities", family=RUNAI, action=Action.WORKLOAD_LIST)
async def list_priorities(call: Call[NoParams]) -> PrioritiesAnswer:
    """The priorities, lowest first."""
    return PrioritiesAnswer(PRIORITY_ROWS)
