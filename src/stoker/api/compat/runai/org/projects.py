"""Projects, which are workspaces in Stoker."""

from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.compat.runai.enums import to_number
from stoker.api.compat.runai.in_memory_list import InMemoryListParams, ListSchema, fetch_all
from stoker.api.compat.runai.org.quota_mapping import (
    PoolQuota,
    ProjectUsage,
    QuotaSums,
    to_pool_quota,
    to_pool_usage,
    to_quota_sums,
)
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import Params
from stoker.domain.access.identity import Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.cluster.node import DEFAULT_POOL
from stoker.domain.cluster.resources import Resources
from stoker.domain.queries.pages import WorkspaceQuery
from stoker.services.fleet.queue_aggregates import WorkspaceAllocation

NO_ALLOCATION = WorkspaceAllocation(0, Resources())


class ProjectPath(Params, frozen=True, kw_only=True, rename="camel"):
    project_id: Annotated[str, Meta(min_length=1, max_length=100)]


class ProjectMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    project_id: int
    project_name: str
    department_id: int
    department_name: str
    cluster_id: str
    cluster_name: str


class ParentRef(Struct, frozen=True):
    id: str
    name: str
    type: str = "department"


class ProjectStatus(Struct, frozen=True, rename="camel"):
    namespace: str
    phase: str = "Ready"


class Project(Struct, frozen=True, kw_only=True, rename="camel"):
    """Run:ai's client models read `metadata` and `current`; its documents show the other fields."""

    id: str
    name: str
    description: str
    cluster_id: str
    parent_id: str
    parent: ParentRef
    requested_namespace: str
    default_node_pools: list[str]
    total_resources: QuotaSums
    resources: list[PoolQuota]
    status: ProjectStatus
    created_at: str
    updated_at: str
    metadata: ProjectMetadata
    current: ProjectUsage


class ProjectsAnswer(Struct, frozen=True):
    projects: list[Project]
    next: int | None


class CountAnswer(Struct, frozen=True):
    count: int


PROJECT_LIST: ListSchema[Workspace] = ListSchema(
    {
        "name": lambda row: row.name,
        "id": lambda row: str(row.id),
        "clusterId": lambda row: row.cluster_id,
        "departmentId": lambda row: str(row.department_id),
        "parentId": lambda row: str(row.department_id),
        "parentName": lambda row: row.department,
        "phase": lambda row: "Ready",
        "totalGpuQuota": lambda row: None if row.quota.gpu_milli is None else to_number(row.quota.gpu_milli),
        "createdAt": lambda row: row.created_at,
    },
    frozenset({"createdAt"}),
)


@endpoint("GET", "/api/v1/org-unit/projects", family=RUNAI, action=Action.WORKSPACE_LIST, params=InMemoryListParams)
async def list_projects(call: Call[InMemoryListParams]) -> ProjectsAnswer:
    """The projects of the caller, sorted by name. A project is a workspace."""
    rows, after = PROJECT_LIST.page(await fetch_workspaces(call), call.params)
    return ProjectsAnswer(await _to_projects(call, rows), after)


@endpoint(
    "GET", "/api/v1/org-unit/projects/count", family=RUNAI, action=Action.WORKSPACE_LIST, params=InMemoryListParams
)
async def count_projects(call: Call[InMemoryListParams]) -> CountAnswer:
    """The number of projects."""
    return CountAnswer(len(PROJECT_LIST.select(await fetch_workspaces(call), call.params)))


@endpoint(
    "GET", "/api/v1/org-unit/projects/{projectId}", family=RUNAI, action=Action.WORKSPACE_READ, params=ProjectPath
)
async def read_project(call: Call[ProjectPath]) -> Project:
    """One project."""
    found = await call.services.workspaces.get_by_id(call.actor, call.params.project_id)
    return (await _to_projects(call, [found]))[0]


async def fetch_workspaces(call: Call) -> list[Workspace]:
    """All workspaces that the caller may see."""
    return await fetch_all(lambda page: call.services.workspaces.list_workspaces(call.actor, WorkspaceQuery(), page))


async def _to_projects(call: Call, rows: list[Workspace]) -> list[Project]:
    allocations = await call.services.queue_aggregates.allocated_by_workspace()
    counts = await call.services.queue_aggregates.read()
    pending = {queue.workspace: queue.workloads for queue in counts.queues}
    return [_to_project(row, allocations.get(row.id, NO_ALLOCATION), pending.get(row.name, 0)) for row in rows]


def _to_project(row: Workspace, allocation: WorkspaceAllocation, pending: int) -> Project:
    department = str(row.department_id)
    return Project(
        id=str(row.id),
        name=row.name,
        description=row.description,
        cluster_id=row.cluster_id,
        parent_id=department,
        parent=ParentRef(department, row.department),
        requested_namespace=row.namespace,
        default_node_pools=[DEFAULT_POOL],
        total_resources=to_quota_sums([row.quota]),
        resources=[to_pool_quota([row.quota])],
        status=ProjectStatus(row.namespace),
        created_at=format_rfc3339(row.created_at),
        updated_at=format_rfc3339(row.updated_at),
        metadata=ProjectMetadata(
            project_id=row.id,
            project_name=row.name,
            department_id=row.department_id,
            department_name=row.department,
            cluster_id=row.cluster_id,
            cluster_name=row.cluster,
        ),
        current=ProjectUsage([to_pool_usage(row.quota, allocation, pending)]),
    )
