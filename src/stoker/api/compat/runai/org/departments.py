"""Departments, which group projects."""

from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.compat.runai.in_memory_list import InMemoryListParams, ListSchema, fetch_all
from stoker.api.compat.runai.org.projects import CountAnswer, fetch_workspaces
from stoker.api.compat.runai.org.quota_mapping import PoolQuota, QuotaSums, to_pool_quota, to_quota_sums
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import Params
from stoker.domain.access.identity import Department, Workspace
from stoker.domain.access.permissions import Action
from stoker.domain.clock import format_rfc3339, parse_rfc3339
from stoker.domain.errors import not_found


class RunaiDepartmentPath(Params, frozen=True, kw_only=True, rename="camel"):
    department_id: Annotated[str, Meta(min_length=1, max_length=100)]


class ChildRef(Struct, frozen=True):
    id: str
    name: str


class DepartmentRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """The quota of a department is the sum of the quotas of its projects."""

    id: str
    name: str
    description: str
    cluster_id: str
    created_at: str
    updated_at: str
    children: list[ChildRef]
    total_resources: QuotaSums
    resources: list[PoolQuota]


class DepartmentsAnswer(Struct, frozen=True):
    departments: list[DepartmentRow]
    next: int | None


DEPARTMENT_LIST: ListSchema[DepartmentRow] = ListSchema(
    {
        "name": lambda row: row.name,
        "id": lambda row: row.id,
        "clusterId": lambda row: row.cluster_id,
        "totalGpuQuota": lambda row: row.total_resources.gpu_quota,
        "createdAt": lambda row: parse_rfc3339(row.created_at),
    },
    frozenset({"createdAt"}),
)


@endpoint("GET", "/api/v1/org-unit/departments", family=RUNAI, action=Action.DEPARTMENT_READ, params=InMemoryListParams)
async def list_departments(call: Call[InMemoryListParams]) -> DepartmentsAnswer:
    """The departments, sorted by name, with the projects that the caller may see."""
    return DepartmentsAnswer(*DEPARTMENT_LIST.page(await _list_departments(call), call.params))


@endpoint(
    "GET", "/api/v1/org-unit/departments/count", family=RUNAI, action=Action.DEPARTMENT_READ, params=InMemoryListParams
)
async def count_departments(call: Call[InMemoryListParams]) -> CountAnswer:
    """The number of departments."""
    return CountAnswer(len(DEPARTMENT_LIST.select(await _list_departments(call), call.params)))


@endpoint(
    "GET",
    "/api/v1/org-unit/departments/{departmentId}",
    family=RUNAI,
    action=Action.DEPARTMENT_READ,
    params=RunaiDepartmentPath,
)
async def read_department(call: Call[RunaiDepartmentPath]) -> DepartmentRow:
    """One department."""
    for row in await _list_departments(call):
        if row.id == call.params.department_id:
            return row
    raise not_found("department", call.params.department_id)


async def _list_departments(call: Call) -> list[DepartmentRow]:
    departments: list[Department] = await fetch_all(
        lambda page: call.services.departments.list_departments(call.actor, "", page)
    )
    rows = await fetch_workspaces(call)
    default = (await call.services.clusters.read(call.actor, call.services.settings.default_cluster)).id
    return [
        _to_department(department, [row for row in rows if row.department_id == department.id], default)
        for department in departments
    ]


def _to_department(department: Department, rows: list[Workspace], default_cluster: str) -> DepartmentRow:
    quotas = [row.quota for row in rows]
    return DepartmentRow(
        id=str(department.id),
        name=department.name,
        description=department.description,
        cluster_id=rows[0].cluster_id if rows else default_cluster,
        created_at=format_rfc3339(department.created_at),
        updated_at=format_rfc3339(department.updated_at),
        children=[ChildRef(str(row.id), row.name) for row in rows],
        total_resources=to_quota_sums(quotas),
        resources=[to_pool_quota(quotas)],
    )
