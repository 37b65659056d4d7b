"""Endpoints for workspaces and their members."""

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params
from stoker.api.native.mapping import member_view, to_page_view, workspace_view
from stoker.api.native.params import PageParams, SearchParams
from stoker.domain.access.identity import MemberRole, Quota
from stoker.domain.access.permission_rules import Action
from stoker.domain.cluster.quantity import parse_bytes, parse_milli
from stoker.domain.errors import ErrorCode
from stoker.domain.queries.pages import WorkspaceQuery
from stoker.domain.workload.idle import IdlePolicy
from stoker.services.identity.workspaces import CreateWorkspaceInput, UpdateWorkspaceInput
from stoker.wire.base import Name
from stoker.wire.identity import CreateWorkspace, EditWorkspace, MemberView, SetMember, WorkspaceView
from stoker.wire.pages import PageView


class WorkspaceListParams(SearchParams, frozen=True, kw_only=True):
    department: str = ""
    cluster: str = ""


class WorkspacePath(Params, frozen=True, kw_only=True):
    name: Name


class MemberListParams(PageParams, frozen=True, kw_only=True):
    name: Name
    role: MemberRole | None = None


class MemberPath(Params, frozen=True, kw_only=True):
    name: Name
    user: Name


@endpoint("GET", "/api/stoker/v1/workspaces", family=NATIVE, action=Action.WORKSPACE_LIST, params=WorkspaceListParams)
async def list_workspaces(call: Call[WorkspaceListParams]) -> PageView[WorkspaceView]:
    """Workspaces that the caller can see, by name."""
    params = call.params
    query = WorkspaceQuery(params.name, params.department, params.cluster)
    return to_page_view(
        await call.services.workspaces.list_workspaces(call.actor, query, params.page_request),
        params.page_request,
        workspace_view,
    )


@endpoint(
    "POST",
    "/api/stoker/v1/workspaces",
    family=NATIVE,
    action=Action.WORKSPACE_CREATE,
    body=CreateWorkspace,
    body_example={"name": "vision", "quota": {"gpu": "16", "memory": "2Ti"}, "queuePolicy": "balance"},
    status=201,
    errors=(ErrorCode.ALREADY_EXISTS,),
    idempotent=True,
)
async def create_workspace(call: Call[NoParams]) -> WorkspaceView:
    """Add a workspace."""
    body: CreateWorkspace = call.body
    new = CreateWorkspaceInput(
        name=body.name,
        description=body.description,
        department=body.department,
        cluster=body.cluster,
        namespace=body.namespace,
        quota=Quota(
            gpu_milli=None if body.quota.gpu is None else parse_milli(body.quota.gpu, "quota.gpu"),
            cpu_milli=None if body.quota.cpu is None else parse_milli(body.quota.cpu, "quota.cpu"),
            memory_bytes=None if body.quota.memory is None else parse_bytes(body.quota.memory, "quota.memory"),
        ),
        queue_policy=body.queue_policy,
        preemption=body.preemption,
        idle=IdlePolicy(
            body.idle_policy.action,
            body.idle_policy.threshold,
            body.idle_policy.window_seconds,
            body.idle_policy.grace_seconds,
        ),
        guaranteed_seconds=body.guaranteed_seconds,
    )
    return workspace_view(await call.services.workspaces.create(call.actor, new, call.idempotency_key))


@endpoint("GET", "/api/stoker/v1/workspaces/{name}", family=NATIVE, action=Action.WORKSPACE_READ, params=WorkspacePath)
async def read_workspace(call: Call[WorkspacePath]) -> WorkspaceView:
    """One workspace."""
    return workspace_view(await call.services.workspaces.read(call.actor, call.params.name))


@endpoint(
    "PATCH",
    "/api/stoker/v1/workspaces/{name}",
    family=NATIVE,
    action=Action.WORKSPACE_UPDATE,
    params=WorkspacePath,
    body=EditWorkspace,
    body_example={"quota": {"gpu": "32"}, "idlePolicy": {"action": "stop", "windowSeconds": 3600}},
)
async def edit_workspace(call: Call[WorkspacePath]) -> WorkspaceView:
    """Change the given fields; a quota of null removes the limit."""
    body: EditWorkspace = call.body
    quota = body.quota
    edit = UpdateWorkspaceInput(
        description=body.description,
        queue_policy=body.queue_policy,
        preemption=body.preemption,
        department=body.department,
        gpu_milli=parse_milli(quota.gpu, "quota.gpu") if isinstance(quota.gpu, str) else quota.gpu,
        cpu_milli=parse_milli(quota.cpu, "quota.cpu") if isinstance(quota.cpu, str) else quota.cpu,
        memory_bytes=parse_bytes(quota.memory, "quota.memory") if isinstance(quota.memory, str) else quota.memory,
        idle_action=body.idle_policy.action,
        idle_threshold=body.idle_policy.threshold,
        idle_window_seconds=body.idle_policy.window_seconds,
        idle_grace_seconds=body.idle_policy.grace_seconds,
        guaranteed_seconds=body.guaranteed_seconds,
    )
    return workspace_view(await call.services.workspaces.update(call.actor, call.params.name, edit))


@endpoint(
    "DELETE",
    "/api/stoker/v1/workspaces/{name}",
    family=NATIVE,
    action=Action.WORKSPACE_DELETE,
    params=WorkspacePath,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def delete_workspace(call: Call[WorkspacePath]) -> None:
    """Remove a workspace without running or pending workloads, with its memberships."""
    await call.services.workspaces.delete(call.actor, call.params.name)


@endpoint(
    "GET", "/api/stoker/v1/workspaces/{name}/members", family=NATIVE, action=Action.MEMBER_LIST, params=MemberListParams
)
async def list_members(call: Call[MemberListParams]) -> PageView[MemberView]:
    """Members of a workspace, by name."""
    params = call.params
    found = await call.services.workspaces.list_members(call.actor, params.name, params.role, params.page_request)
    return to_page_view(found, params.page_request, member_view)


@endpoint(
    "PUT",
    "/api/stoker/v1/workspaces/{name}/members/{user}",
    family=NATIVE,
    action=Action.MEMBER_SET,
    params=MemberPath,
    body=SetMember,
    body_example={"role": "member"},
)
async def set_member(call: Call[MemberPath]) -> MemberView:
    """Add a user to a workspace, or change its role in it."""
    body: SetMember = call.body
    params = call.params
    return member_view(await call.services.workspaces.set_member(call.actor, params.name, params.user, body.role))


@endpoint(
    "DELETE",
    "/api/stoker/v1/workspaces/{name}/members/{user}",
    family=NATIVE,
    action=Action.MEMBER_REMOVE,
    params=MemberPath,
    status=204,
)
async def remove_member(call: Call[MemberPath]) -> None:
    """Remove a user from a workspace."""
    await call.services.workspaces.remove_member(call.actor, call.params.name, call.params.user)
