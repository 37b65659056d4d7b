"""Endpoints for departments."""

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params
from stoker.api.native.mapping import department_view, to_page_view
from stoker.api.native.params import SearchParams
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.services.identity.departments import CreateDepartmentInput
from stoker.wire.base import Name
from stoker.wire.identity import CreateDepartment, DepartmentView, EditDepartment
from stoker.wire.pages import PageView


class DepartmentPath(Params, frozen=True, kw_only=True):
    name: Name


@endpoint("GET", "/api/stoker/v1/departments", family=NATIVE, action=Action.DEPARTMENT_READ, params=SearchParams)
async def list_departments(call: Call[SearchParams]) -> PageView[DepartmentView]:
    """Departments, by name."""
    params = call.params
    found = await call.services.departments.list_departments(call.actor, params.name, params.page_request)
    return to_page_view(found, params.page_request, department_view)


@endpoint(
    "POST",
    "/api/stoker/v1/departments",
    family=NATIVE,
    action=Action.DEPARTMENT_CREATE,
    body=CreateDepartment,
    body_example={"name": "research", "description": "Everything that is not yet a product"},
    status=201,
    errors=(ErrorCode.ALREADY_EXISTS,),
    idempotent=True,
)
async def create_department(call: Call[NoParams]) -> DepartmentView:
    """Add a department."""
    body: CreateDepartment = call.body
    new = CreateDepartmentInput(name=body.name, description=body.description)
    return department_view(await call.services.departments.create(call.actor, new, call.idempotency_key))


@endpoint(
    "GET", "/api/stoker/v1/departments/{name}", family=NATIVE, action=Action.DEPARTMENT_READ, params=DepartmentPath
)
async def read_department(call: Call[DepartmentPath]) -> DepartmentView:
    """One department."""
    return department_view(await call.services.departments.read(call.actor, call.params.name))


@endpoint(
    "PATCH",
    "/api/stoker/v1/departments/{name}",
    family=NATIVE,
    action=Action.DEPARTMENT_UPDATE,
    params=DepartmentPath,
    body=EditDepartment,
)
async def edit_department(call: Call[DepartmentPath]) -> DepartmentView:
    """Change the description of a department."""
    body: EditDepartment = call.body
    return department_view(
        await call.services.departments.set_description(call.actor, call.params.name, body.description)
    )


@endpoint(
    "DELETE",
    "/api/stoker/v1/departments/{name}",
    family=NATIVE,
    action=Action.DEPARTMENT_DELETE,
    params=DepartmentPath,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def delete_department(call: Call[DepartmentPath]) -> None:
    """Remove a department that has no workspaces."""
    await call.services.departments.delete(call.actor, call.params.name)
