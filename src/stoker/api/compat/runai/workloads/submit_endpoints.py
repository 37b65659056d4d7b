"""Submissions by type: workspaces, trainings, distributed trainings and inferences."""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from stoker.api.compat.management.schemas import DisplayName
from stoker.api.compat.runai.enums import optional_rfc3339
from stoker.api.compat.runai.workloads.submission_view import to_submission_spec
from stoker.api.compat.runai.workloads.submit_mapping import to_new_workload
from stoker.api.compat.runai.workloads.submit_schemas import (
    AnySpec,
    DistributedSpec,
    InferenceSpec,
    TrainingSpec,
    WorkspaceSpec,
)
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import NoParams, Params
from stoker.domain.access.identity import Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.wire.base import RequestBody

ResourceId = Annotated[str, Meta(min_length=1, max_length=100)]
ParamsT = TypeVar("ParamsT", bound=Params)
SUBMIT_ERRORS = (ErrorCode.UNSCHEDULABLE, ErrorCode.NOT_FOUND)


class Submission(RequestBody, frozen=True, kw_only=True):
    """`useGivenNameAsPrefix` has no effect: names need not be unique, ids are."""

    name: DisplayName
    project_id: ResourceId
    cluster_id: ResourceId
    use_given_name_as_prefix: bool | None = None
    template_id: Any = None


class WorkspaceBody(Submission, frozen=True, kw_only=True):
    spec: WorkspaceSpec | None = None


class TrainingBody(Submission, frozen=True, kw_only=True):
    spec: TrainingSpec | None = None


class DistributedBody(Submission, frozen=True, kw_only=True):
    spec: DistributedSpec | None = None
    master_spec_same_as_worker: bool | None = None
    master_spec: Any = None


class InferenceBody(Submission, frozen=True, kw_only=True):
    spec: InferenceSpec | None = None


class InferenceUpdate(RequestBody, frozen=True, kw_only=True):
    """Fields that are left out stay unchanged."""

    spec: InferenceSpec | None = None


class Submitted(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload as it was submitted, with its current status."""

    name: str
    requested_name: str
    workload_id: str
    project_id: str
    department_id: str
    cluster_id: str
    created_by: str
    created_at: str
    deleted_at: str | None
    desired_phase: str
    actual_phase: str


class SubmittedWorkspace(Submitted, frozen=True, kw_only=True, rename="camel"):
    spec: WorkspaceSpec


class SubmittedTraining(Submitted, frozen=True, kw_only=True, rename="camel"):
    spec: TrainingSpec


class SubmittedDistributed(Submitted, frozen=True, kw_only=True, rename="camel"):
    """Master and workers have the same spec."""

    spec: DistributedSpec
    master_spec_same_as_worker: bool = True


class SubmittedInference(Submitted, frozen=True, kw_only=True, rename="camel"):
    spec: InferenceSpec


AnySubmitted = SubmittedWorkspace | SubmittedTraining | SubmittedDistributed | SubmittedInference


@endpoint(
    "POST",
    "/api/v1/workloads/workspaces",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=WorkspaceBody,
    result=SubmittedWorkspace,
    status=202,
    errors=SUBMIT_ERRORS,
    idempotent=True,
)
async def create_workspace(call: Call[NoParams]) -> AnySubmitted:
    """Submit a workspace: one pod that keeps running; without a command it is an idle shell."""
    return await _submit(call, call.body.spec or WorkspaceSpec())


@endpoint(
    "POST",
    "/api/v1/workloads/trainings",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=TrainingBody,
    result=SubmittedTraining,
    status=202,
    errors=SUBMIT_ERRORS,
    idempotent=True,
)
async def create_training(call: Call[NoParams]) -> AnySubmitted:
    """Submit a training: `parallelism` pods that run to completion."""
    return await _submit(call, call.body.spec or TrainingSpec())


@endpoint(
    "POST",
    "/api/v1/workloads/distributed",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=DistributedBody,
    result=SubmittedDistributed,
    status=202,
    errors=SUBMIT_ERRORS,
    idempotent=True,
)
async def create_distributed(call: Call[NoParams]) -> AnySubmitted:
    """Submit a distributed PyTorch training: a master and `numWorkers` workers, scheduled as a gang."""
    body: DistributedBody = call.body
    if body.master_spec or body.master_spec_same_as_worker is False:
        raise bad_request("masterSpec", "master and workers are alike here. Use masterSpecSameAsWorker true.")
    return await _submit(call, body.spec or DistributedSpec())


@endpoint(
    "POST",
    "/api/v1/workloads/inferences",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=InferenceBody,
    result=SubmittedInference,
    status=202,
    errors=SUBMIT_ERRORS,
    idempotent=True,
)
async def create_inference(call: Call[NoParams]) -> AnySubmitted:
    """Submit an inference: a fixed number of replicas behind one port, running until it is stopped."""
    return await _submit(call, call.body.spec or InferenceSpec())


@endpoint(
    "POST",
    "/api/v1/workloads/distributed-inferences",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=dict[str, Any],
    result=Submitted,
    status=202,
)
async def create_distributed_inference(call: Call[NoParams]) -> Submitted:
    """Not supported: replicas that span several pods."""
    raise StokerError(
        ErrorCode.BAD_REQUEST,
        "Distributed inference is not served here: a replica is one pod.",
        hint="Submit an inference whose replicas fit on one node each.",
    )


def to_submitted(workload: Workload, workspace: Workspace | None) -> AnySubmitted:
    """The response of a submission, and of reading it back."""
    shown: dict[str, Any] = {
        "name": workload.name,
        "requested_name": workload.name,
        "workload_id": workload.uid,
        "project_id": str(workload.workspace_id),
        "department_id": str(workspace.department_id) if workspace else "1",
        "cluster_id": workload.cluster_id,
        "created_by": workload.user_name,
        "created_at": format_rfc3339(workload.submitted_at),
        "deleted_at": optional_rfc3339(workload.deleted_at),
        "desired_phase": desired_phase(workload),
        "actual_phase": str(workload.phase.displayed),
    }
    match to_submission_spec(workload):
        case WorkspaceSpec() as spec:
            return SubmittedWorkspace(**shown, spec=spec)
        case TrainingSpec() as spec:
            return SubmittedTraining(**shown, spec=spec)
        case DistributedSpec() as spec:
            return SubmittedDistributed(**shown, spec=spec)
        case InferenceSpec() as spec:
            return SubmittedInference(**shown, spec=spec)


def desired_phase(workload: Workload) -> str:
    if workload.deleted_at is not None:
        return "Deleted"
    return "Stopped" if workload.phase is Phase.STOPPED or workload.next_phase is Phase.STOPPED else "Running"


async def find_workspace(call: Call[ParamsT], workload: Workload) -> Workspace | None:
    """The workspace of a workload, if it still exists."""
    try:
        return await call.services.workspaces.get_by_id(call.actor, str(workload.workspace_id))
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
    return None


async def resolve_workspace(call: Call[NoParams], project_id: str, cluster_id: str | None, field: str) -> Workspace:
    """The workspace of the given project and cluster."""
    workspace = await call.services.workspaces.get_by_id(call.actor, project_id)
    if cluster_id is not None and cluster_id not in {workspace.cluster_id, workspace.cluster}:
        where = f'project "{workspace.name}" is in cluster {workspace.cluster_id} ("{workspace.cluster}").'
        raise bad_request(field, where)
    return workspace


async def _submit(call: Call[NoParams], spec: AnySpec) -> AnySubmitted:
    body: Submission = call.body
    if body.template_id:
        raise bad_request("templateId", "there are no templates here. Send the spec itself.")
    workspace = await resolve_workspace(call, body.project_id, body.cluster_id, "clusterId")
    made = await call.services.workloads.create(
        call.actor, to_new_workload(body.name, workspace.name, spec), call.idempotency_key
    )
    return to_submitted(made, workspace)
