"""What workloads can be: types, categories and priorities. They are the same in every installation."""

import uuid

from msgspec import Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import NoParams, Params
from stoker.api.runai.words import DEFAULT_PRIORITY, PRIORITIES
from stoker.domain.errors import not_found
from stoker.domain.permissions import Action
from stoker.domain.workload import CATEGORY, Category, Kind

SPACE = uuid.UUID("8c1ee1c1-6a55-4c9a-9d2b-0f4f0a3c6e71")
"""Ids are made from names in this name space, so that they are the same wherever they are asked for."""
GROUPS = {
    Kind.PYTORCH_JOB: "kubeflow.org",
    Kind.AUTHORING: "kubeflow.org",
    Kind.JOB: "batch",
    Kind.DEPLOYMENT: "apps",
    Kind.STATEFUL_SET: "apps",
}
PURPOSES = {
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


def _id(kind: str, name: str) -> str:
    return str(uuid.uuid5(SPACE, f"{kind} {name}"))


def _type(kind: Kind) -> TypeRow:
    category = CATEGORY[kind]
    priority = DEFAULT_PRIORITY[category]
    return TypeRow(
        id=_id("type", kind),
        name=kind,
        group=GROUPS[kind],
        category_id=_id("category", category),
        category_name=category,
        priority_id=_id("priority", priority),
        priority_name=priority,
    )


TYPE_ROWS = [_type(kind) for kind in Kind]
CATEGORY_ROWS = [CategoryRow(_id("category", category), category, PURPOSES[category]) for category in Category]
PRIORITY_ROWS = [PriorityRow(_id("priority", name), name, value) for name, value in PRIORITIES.items()]


@endpoint("GET", "/api/v1/workload-types", family=RUNAI, action=Action.WORKLOAD_LIST)
async def list_workload_types(call: Call[NoParams]) -> TypesAnswer:
    """Every kind of workload, with the category and the priority it has unless told otherwise."""
    return TypesAnswer(TYPE_ROWS)


@endpoint("GET", "/api/v1/workload-types/{workloadTypeId}", family=RUNAI, action=Action.WORKLOAD_LIST, params=TypePath)
async def read_workload_type(call: Call[TypePath]) -> TypeRow:
    """One kind of workload."""
    for row in TYPE_ROWS:
        if row.id == call.params.workload_type_id:
            return row
    raise not_found("workload type", call.params.workload_type_id)


@endpoint("GET", "/api/v1/workload-categories", family=RUNAI, action=Action.WORKLOAD_LIST)
async def list_categories(call: Call[NoParams]) -> CategoriesAnswer:
    """What workloads are for."""
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
