"""Departments."""

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import DepartmentView, Name, Page, SearchParams, Text, department_view, paged
from stoker.api.params import NoParams, Params
from stoker.domain.errors import ErrorCode
from stoker.domain.permissions import Action
from stoker.services.departments import NewDepartment


class DepartmentPath(Params, frozen=True, kw_only=True):
    name: Name


class CreateDepartment(Body, frozen=True, kw_only=True):
    name: Name
    description: Text = ""


class EditDepartment(Body, frozen=True, kw_only=True):
    description: Text


@endpoint("GET", "/api/stoker/v1/departments", family=NATIVE, action=Action.DEPARTMENT_READ, params=SearchParams)
async def list_departments(call: Call[SearchParams]) -> Page[DepartmentView]:
    """Departments, by name."""
    asked = call.params
    found = await call.services.departments.browse(call.actor, asked.name, asked.window)
    return paged(found, asked.window, department_view)


@endpoint(
    "POST",
    "/api/stoker/v1/departments",
    family=NATIVE,
    action=Action.DEPARTMENT_CREATE,
    body=CreateDepartment,
    body_example={"name": "research", "description": "Everything that is not yet a product"},
    status=201,
    errors=(ErrorCode.EXISTS,),
    creates=True,
)
async def create_department(call: Call[NoParams]) -> DepartmentView:
    """Add a department."""
    body: CreateDepartment = call.body
    new = NewDepartment(name=body.name, description=body.description)
    return department_view(await call.services.departments.create(call.actor, new, call.once))


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
    """Change its description."""
    body: EditDepartment = call.body
    return department_view(await call.services.departments.describe(call.actor, call.params.name, body.description))


@endpoint(
    "DELETE",
    "/api/stoker/v1/departments/{name}",
    family=NATIVE,
    action=Action.DEPARTMENT_DELETE,
    params=DepartmentPath,
    status=204,
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def delete_department(call: Call[DepartmentPath]) -> None:
    """Remove a department that has no workspaces."""
    await call.services.departments.delete(call.actor, call.params.name)
