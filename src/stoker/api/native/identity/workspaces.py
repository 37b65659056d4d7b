"""Workspaces and their members."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import (
    MemberView,
    Name,
    Page,
    PageParams,
    SearchParams,
    Text,
    WorkspaceView,
    member_view,
    paged,
    workspace_view,
)
from stoker.api.params import NoParams, Params
from stoker.domain.errors import ErrorCode
from stoker.domain.identity import MemberRole, QueuePolicy, Quota
from stoker.domain.idleness import IdleAction, IdlePolicy
from stoker.domain.listing import WorkspaceQuery
from stoker.domain.permissions import Action
from stoker.domain.quantity import bytes_of, milli
from stoker.services.workspaces import NewWorkspace, WorkspaceEdit

Count = Annotated[str, Meta(max_length=64, description='A quantity such as "8" or "500m"; null is no limit.')]
Memory = Annotated[str, Meta(max_length=64, description='A quantity such as "256Gi"; null is no limit.')]
Percent = Annotated[
    float, Meta(ge=0, le=100, description="A GPU that is used no more than this is idle; null is the server's setting.")
]
Window = Annotated[
    int, Meta(ge=1, le=31_622_400, description="How long all its GPUs are idle before anything is done.")
]
Grace = Annotated[
    int, Meta(ge=0, le=31_622_400, description="How long it stays idle after a warning before it is stopped.")
]

Guarantee = Annotated[
    int,
    Meta(
        ge=0,
        le=2_592_000,
        description="How long a preemptible workload keeps its place before it may be preempted; 0 is no guarantee.",
    ),
]


class WorkspaceList(SearchParams, frozen=True, kw_only=True):
    department: str = ""
    cluster: str = ""


class WorkspacePath(Params, frozen=True, kw_only=True):
    name: Name


class QuotaBody(Body, frozen=True, kw_only=True):
    gpu: Count | None = None
    cpu: Count | None = None
    memory: Memory | None = None


class IdlePolicyBody(Body, frozen=True, kw_only=True):
    """What is done about workloads whose GPUs nobody uses."""

    action: IdleAction = IdleAction.OFF
    threshold: Percent | None = None
    window_seconds: Window = 1800
    grace_seconds: Grace = 900


class CreateWorkspace(Body, frozen=True, kw_only=True):
    """Department, cluster and namespace may be left out: `default`, the default cluster, the workspace's name."""

    name: Name
    description: Text = ""
    department: Name = "default"
    cluster: Annotated[str, Meta(max_length=63)] = ""
    namespace: Annotated[str, Meta(max_length=63)] = ""
    quota: QuotaBody = QuotaBody()
    queue_policy: QueuePolicy = QueuePolicy.FIFO
    preemption: bool = True
    idle_policy: IdlePolicyBody = IdlePolicyBody()
    guaranteed_seconds: Guarantee = 0


class EditQuota(Body, frozen=True, kw_only=True):
    gpu: Count | UnsetType | None = UNSET
    cpu: Count | UnsetType | None = UNSET
    memory: Memory | UnsetType | None = UNSET


class EditIdlePolicy(Body, frozen=True, kw_only=True):
    action: IdleAction | UnsetType = UNSET
    threshold: Percent | UnsetType | None = UNSET
    window_seconds: Window | UnsetType = UNSET
    grace_seconds: Grace | UnsetType = UNSET


class EditWorkspace(Body, frozen=True, kw_only=True):
    """Quota, guarantee and department are for admins, the rest for managers of the workspace too."""

    description: Text | UnsetType = UNSET
    queue_policy: QueuePolicy | UnsetType = UNSET
    preemption: bool | UnsetType = UNSET
    department: Name | UnsetType = UNSET
    quota: EditQuota = EditQuota()
    idle_policy: EditIdlePolicy = EditIdlePolicy()
    guaranteed_seconds: Guarantee | UnsetType = UNSET


class MemberList(PageParams, frozen=True, kw_only=True):
    name: Name
    role: MemberRole | None = None


class MemberPath(Params, frozen=True, kw_only=True):
    name: Name
    user: Name


class SetMember(Body, frozen=True, kw_only=True):
    role: MemberRole


@endpoint("GET", "/api/stoker/v1/workspaces", family=NATIVE, action=Action.WORKSPACE_LIST, params=WorkspaceList)
async def list_workspaces(call: Call[WorkspaceList]) -> Page[WorkspaceView]:
    """The workspaces the caller can see, by name."""
    asked = call.params
    query = WorkspaceQuery(asked.name, asked.department, asked.cluster)
    return paged(await call.services.workspaces.browse(call.actor, query, asked.window), asked.window, workspace_view)


@endpoint(
    "POST",
    "/api/stoker/v1/workspaces",
    family=NATIVE,
    action=Action.WORKSPACE_CREATE,
    body=CreateWorkspace,
    body_example={"name": "vision", "quota": {"gpu": "16", "memory": "2Ti"}, "queuePolicy": "balance"},
    status=201,
    errors=(ErrorCode.EXISTS,),
    creates=True,
)
async def create_workspace(call: Call[NoParams]) -> WorkspaceView:
    """Add a workspace."""
    body: CreateWorkspace = call.body
    new = NewWorkspace(
        name=body.name,
        description=body.description,
        department=body.department,
        cluster=body.cluster,
        namespace=body.namespace,
        quota=Quota(
            gpu_milli=None if body.quota.gpu is None else milli(body.quota.gpu, "quota.gpu"),
            cpu_milli=None if body.quota.cpu is None else milli(body.quota.cpu, "quota.cpu"),
            memory_bytes=None if body.quota.memory is None else bytes_of(body.quota.memory, "quota.memory"),
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
    return workspace_view(await call.services.workspaces.create(call.actor, new, call.once))


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
    """Change what is given; a quota of null is no limit."""
    body: EditWorkspace = call.body
    quota = body.quota
    edit = WorkspaceEdit(
        description=body.description,
        queue_policy=body.queue_policy,
        preemption=body.preemption,
        department=body.department,
        gpu_milli=milli(quota.gpu, "quota.gpu") if isinstance(quota.gpu, str) else quota.gpu,
        cpu_milli=milli(quota.cpu, "quota.cpu") if isinstance(quota.cpu, str) else quota.cpu,
        memory_bytes=bytes_of(quota.memory, "quota.memory") if isinstance(quota.memory, str) else quota.memory,
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
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def delete_workspace(call: Call[WorkspacePath]) -> None:
    """Remove a workspace in which nothing runs or waits, with its memberships."""
    await call.services.workspaces.delete(call.actor, call.params.name)


@endpoint(
    "GET", "/api/stoker/v1/workspaces/{name}/members", family=NATIVE, action=Action.MEMBER_LIST, params=MemberList
)
async def list_members(call: Call[MemberList]) -> Page[MemberView]:
    """Who belongs to a workspace, by name."""
    asked = call.params
    found = await call.services.workspaces.members(call.actor, asked.name, asked.role, asked.window)
    return paged(found, asked.window, member_view)


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
    """Add a user to a workspace, or change its role there."""
    body: SetMember = call.body
    asked = call.params
    return member_view(await call.services.workspaces.set_member(call.actor, asked.name, asked.user, body.role))


@endpoint(
    "DELETE",
    "/api/stoker/v1/workspaces/{name}/members/{user}",
    family=NATIVE,
    action=Action.MEMBER_REMOVE,
    params=MemberPath,
    status=204,
)
async def remove_member(call: Call[MemberPath]) -> None:
    """Take a user out of a workspace."""
    await call.services.workspaces.remove_member(call.actor, call.params.name, call.params.user)
