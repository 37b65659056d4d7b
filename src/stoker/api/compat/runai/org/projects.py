"""Projects and departments: our workspaces, and what they are grouped by."""

from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import Params
from stoker.api.runai.shelf import Shelf, ShelfParams, everything
from stoker.api.runai.words import number
from stoker.domain.clock import parse_rfc3339, rfc3339
from stoker.domain.errors import not_found
from stoker.domain.identity import Department, Quota, Workspace
from stoker.domain.listing import WorkspaceQuery
from stoker.domain.node import DEFAULT_POOL
from stoker.domain.permissions import Action
from stoker.domain.quantity import MIB
from stoker.domain.resources import Resources
from stoker.services.totals import HeldTotal

UNLIMITED = -1
NOTHING = HeldTotal(0, Resources())


class ProjectPath(Params, frozen=True, kw_only=True, rename="camel"):
    project_id: Annotated[str, Meta(min_length=1, max_length=100)]


class DepartmentPath(Params, frozen=True, kw_only=True, rename="camel"):
    department_id: Annotated[str, Meta(min_length=1, max_length=100)]


class Deserved(Struct, frozen=True, rename="camel"):
    """What is owed; null is no limit. Above it only what is preemptible may go."""

    deserved: float | None
    limit: float | None = None
    over_quota_weight: float | None = None


class DeservedGpu(Struct, frozen=True, rename="camel"):
    """-1 is no limit."""

    deserved: float
    limit: float = UNLIMITED
    over_quota_weight: float = 1


class DeservedMemory(Struct, frozen=True, rename="camel"):
    deserved: float | None
    units: str = "Mib"
    limit: float | None = None
    over_quota_weight: float | None = None


class PoolRef(Struct, frozen=True):
    id: str
    name: str


class PoolQuota(Struct, frozen=True, rename="camel"):
    node_pool: PoolRef
    gpu: DeservedGpu
    cpu: Deserved
    memory: DeservedMemory


class QuotaSums(Struct, frozen=True, rename="camel"):
    gpu_quota: float
    cpu_quota: float | None
    memory_quota: float | None


class ResourceData(Struct, frozen=True):
    quota: float
    allocated: float


class PoolNow(Struct, frozen=True, kw_only=True, rename="camel"):
    number_of_pending_workloads: int
    gpu: ResourceData
    cpu: ResourceData
    memory: ResourceData
    nodepool_name: str


class ProjectNow(Struct, frozen=True):
    resources: list[PoolNow]


class ProjectMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    project_id: int
    project_name: str
    department_id: int
    department_name: str
    cluster_id: str
    cluster_name: str


class Parent(Struct, frozen=True):
    id: str
    name: str
    type: str = "department"


class ProjectStatus(Struct, frozen=True, rename="camel"):
    namespace: str
    phase: str = "Ready"


class Project(Struct, frozen=True, kw_only=True, rename="camel"):
    """`metadata` and `current` are what the vendor's models read, the rest is what its documents show."""

    id: str
    name: str
    description: str
    cluster_id: str
    parent_id: str
    parent: Parent
    requested_namespace: str
    default_node_pools: list[str]
    total_resources: QuotaSums
    resources: list[PoolQuota]
    status: ProjectStatus
    created_at: str
    updated_at: str
    metadata: ProjectMetadata
    current: ProjectNow


class ProjectsAnswer(Struct, frozen=True):
    projects: list[Project]
    next: int | None


class Child(Struct, frozen=True):
    id: str
    name: str


class DepartmentRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """A department is owed what its projects are owed together."""

    id: str
    name: str
    description: str
    cluster_id: str
    created_at: str
    updated_at: str
    children: list[Child]
    total_resources: QuotaSums
    resources: list[PoolQuota]


class DepartmentsAnswer(Struct, frozen=True):
    departments: list[DepartmentRow]
    next: int | None


class CountAnswer(Struct, frozen=True):
    count: int


PROJECTS: Shelf[Workspace] = Shelf(
    {
        "name": lambda row: row.name,
        "id": lambda row: str(row.id),
        "clusterId": lambda row: row.cluster_id,
        "departmentId": lambda row: str(row.department_id),
        "parentId": lambda row: str(row.department_id),
        "parentName": lambda row: row.department,
        "phase": lambda row: "Ready",
        "totalGpuQuota": lambda row: None if row.quota.gpu_milli is None else number(row.quota.gpu_milli),
        "createdAt": lambda row: row.created_at,
    },
    frozenset({"createdAt"}),
)
DEPARTMENTS: Shelf[DepartmentRow] = Shelf(
    {
        "name": lambda row: row.name,
        "id": lambda row: row.id,
        "clusterId": lambda row: row.cluster_id,
        "totalGpuQuota": lambda row: row.total_resources.gpu_quota,
        "createdAt": lambda row: parse_rfc3339(row.created_at),
    },
    frozenset({"createdAt"}),
)


@endpoint("GET", "/api/v1/org-unit/projects", family=RUNAI, action=Action.WORKSPACE_LIST, params=ShelfParams)
async def list_projects(call: Call[ShelfParams]) -> ProjectsAnswer:
    """The caller's projects, by name: each is one of our workspaces."""
    rows, after = PROJECTS.page(await _workspaces(call), call.params)
    return ProjectsAnswer(await _projects(call, rows), after)


@endpoint("GET", "/api/v1/org-unit/projects/count", family=RUNAI, action=Action.WORKSPACE_LIST, params=ShelfParams)
async def count_projects(call: Call[ShelfParams]) -> CountAnswer:
    """How many projects there are."""
    return CountAnswer(len(PROJECTS.chosen(await _workspaces(call), call.params)))


@endpoint(
    "GET", "/api/v1/org-unit/projects/{projectId}", family=RUNAI, action=Action.WORKSPACE_READ, params=ProjectPath
)
async def read_project(call: Call[ProjectPath]) -> Project:
    """One project."""
    found = await call.services.workspaces.numbered(call.actor, call.params.project_id)
    return (await _projects(call, [found]))[0]


@endpoint("GET", "/api/v1/org-unit/departments", family=RUNAI, action=Action.DEPARTMENT_READ, params=ShelfParams)
async def list_departments(call: Call[ShelfParams]) -> DepartmentsAnswer:
    """The departments, by name, with those of their projects that the caller may see."""
    return DepartmentsAnswer(*DEPARTMENTS.page(await _departments(call), call.params))


@endpoint("GET", "/api/v1/org-unit/departments/count", family=RUNAI, action=Action.DEPARTMENT_READ, params=ShelfParams)
async def count_departments(call: Call[ShelfParams]) -> CountAnswer:
    """How many departments there are."""
    return CountAnswer(len(DEPARTMENTS.chosen(await _departments(call), call.params)))


@endpoint(
    "GET",
    "/api/v1/org-unit/departments/{departmentId}",
    family=RUNAI,
    action=Action.DEPARTMENT_READ,
    params=DepartmentPath,
)
async def read_department(call: Call[DepartmentPath]) -> DepartmentRow:
    """One department."""
    for row in await _departments(call):
        if row.id == call.params.department_id:
            return row
    raise not_found("department", call.params.department_id)


async def _workspaces(call: Call) -> list[Workspace]:
    return await everything(lambda window: call.services.workspaces.browse(call.actor, WorkspaceQuery(), window))


async def _projects(call: Call, rows: list[Workspace]) -> list[Project]:
    held, counted = await call.services.totals.held(), await call.services.totals.read()
    waiting = {queue.workspace: queue.workloads for queue in counted.queues}
    return [_project(row, held.get(row.id, NOTHING), waiting.get(row.name, 0)) for row in rows]


def _project(row: Workspace, held: HeldTotal, waiting: int) -> Project:
    department = str(row.department_id)
    return Project(
        id=str(row.id),
        name=row.name,
        description=row.description,
        cluster_id=row.cluster_id,
        parent_id=department,
        parent=Parent(department, row.department),
        requested_namespace=row.namespace,
        default_node_pools=[DEFAULT_POOL],
        total_resources=_sums([row.quota]),
        resources=[_pool_quota([row.quota])],
        status=ProjectStatus(row.namespace),
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
        metadata=ProjectMetadata(
            project_id=row.id,
            project_name=row.name,
            department_id=row.department_id,
            department_name=row.department,
            cluster_id=row.cluster_id,
            cluster_name=row.cluster,
        ),
        current=ProjectNow([_now(row.quota, held, waiting)]),
    )


async def _departments(call: Call) -> list[DepartmentRow]:
    found: list[Department] = await everything(lambda window: call.services.departments.browse(call.actor, "", window))
    rows = await _workspaces(call)
    default = (await call.services.clusters.read(call.actor, call.services.settings.default_cluster)).id
    return [_department(each, [row for row in rows if row.department_id == each.id], default) for each in found]


def _department(found: Department, rows: list[Workspace], default_cluster: str) -> DepartmentRow:
    quotas = [row.quota for row in rows]
    return DepartmentRow(
        id=str(found.id),
        name=found.name,
        description=found.description,
        cluster_id=rows[0].cluster_id if rows else default_cluster,
        created_at=rfc3339(found.created_at),
        updated_at=rfc3339(found.updated_at),
        children=[Child(str(row.id), row.name) for row in rows],
        total_resources=_sums(quotas),
        resources=[_pool_quota(quotas)],
    )


def _now(quota: Quota, held: HeldTotal, waiting: int) -> PoolNow:
    used = held.resources
    return PoolNow(
        number_of_pending_workloads=waiting,
        gpu=ResourceData(_limit(quota.gpu_milli, 1000), number(used.gpu_milli)),
        cpu=ResourceData(_limit(quota.cpu_milli, 1000), number(used.cpu_milli)),
        memory=ResourceData(_limit(quota.memory_bytes, MIB), used.memory_bytes / MIB),
        nodepool_name=DEFAULT_POOL,
    )


def _pool_quota(quotas: list[Quota]) -> PoolQuota:
    sums = _sums(quotas)
    return PoolQuota(
        PoolRef(DEFAULT_POOL, DEFAULT_POOL),
        DeservedGpu(sums.gpu_quota),
        Deserved(sums.cpu_quota),
        DeservedMemory(sums.memory_quota),
    )


def _sums(quotas: list[Quota]) -> QuotaSums:
    """Together there is no limit as soon as one has none."""
    gpu, cpu, memory = (
        _together([getattr(quota, name) for quota in quotas]) for name in ("gpu_milli", "cpu_milli", "memory_bytes")
    )
    return QuotaSums(_limit(gpu, 1000), None if cpu is None else number(cpu), None if memory is None else memory / MIB)


def _together(amounts: list[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _limit(amount: int | None, unit: int) -> float:
    return UNLIMITED if amount is None else amount / unit
