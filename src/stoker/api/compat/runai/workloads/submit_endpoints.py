"""Submissions: workspaces, trainings, distributed trainings and inferences, each one of our kinds of workloads."""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import NoParams, Params
from stoker.api.runai.specs import AnySpec, DistributedSpec, InferenceSpec, TrainingSpec, WorkspaceSpec
from stoker.api.runai.submissions import in_our_words, new_workload, spec_of
from stoker.api.runai.words import moment
from stoker.api.safe.shapes import DisplayName
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.identity import Workspace
from stoker.domain.permissions import Action
from stoker.domain.workload import Phase, Workload

Id = Annotated[str, Meta(min_length=1, max_length=100)]
Asked = TypeVar("Asked", bound=Params)
ERRORS = (ErrorCode.NEVER_FITS, ErrorCode.NOT_FOUND)


class Submission(Body, frozen=True, kw_only=True):
    """`useGivenNameAsPrefix` is always so: names may be used again, and ids are what tells workloads apart."""

    name: DisplayName
    project_id: Id
    cluster_id: Id
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


class InferenceUpdate(Body, frozen=True, kw_only=True):
    """What is left out stays as it is."""

    spec: InferenceSpec | None = None


class Submitted(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload as it was submitted, with where it stands."""

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
    """Master and workers are alike here."""

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
    errors=ERRORS,
    creates=True,
)
async def create_workspace(call: Call[NoParams]) -> AnySubmitted:
    """Submit a workspace: one pod that is kept up, an idle shell when it has no command."""
    return await _submitted(call, call.body.spec or WorkspaceSpec())


@endpoint(
    "POST",
    "/api/v1/workloads/trainings",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=TrainingBody,
    result=SubmittedTraining,
    status=202,
    errors=ERRORS,
    creates=True,
)
async def create_training(call: Call[NoParams]) -> AnySubmitted:
    """Submit a training: `parallelism` pods that run to their end."""
    return await _submitted(call, call.body.spec or TrainingSpec())


@endpoint(
    "POST",
    "/api/v1/workloads/distributed",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=DistributedBody,
    result=SubmittedDistributed,
    status=202,
    errors=ERRORS,
    creates=True,
)
async def create_distributed(call: Call[NoParams]) -> AnySubmitted:
    """Submit a distributed PyTorch training: a master and `numWorkers` workers, all of them or none."""
    body: DistributedBody = call.body
    if body.master_spec or body.master_spec_same_as_worker is False:
        raise bad_request("masterSpec", "master and workers are alike here. Use masterSpecSameAsWorker true.")
    return await _submitted(call, body.spec or DistributedSpec())


@endpoint(
    "POST",
    "/api/v1/workloads/inferences",
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=InferenceBody,
    result=SubmittedInference,
    status=202,
    errors=ERRORS,
    creates=True,
)
async def create_inference(call: Call[NoParams]) -> AnySubmitted:
    """Submit an inference: a fixed number of replicas behind one port, kept up until it is stopped."""
    return await _submitted(call, call.body.spec or InferenceSpec())


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
    """Not served: a replica that spans several pods has no counterpart here."""
    raise StokerError(
        ErrorCode.BAD_REQUEST,
        "Distributed inference is not served here: a replica is one pod.",
        hint="Submit an inference whose replicas fit on one node each.",
    )


def submitted(workload: Workload, workspace: Workspace | None) -> AnySubmitted:
    """A workload as a submission is answered, and as it is read back."""
    shown: dict[str, Any] = {
        "name": workload.name,
        "requested_name": workload.name,
        "workload_id": workload.uid,
        "project_id": str(workload.workspace_id),
        "department_id": str(workspace.department_id) if workspace else "1",
        "cluster_id": workload.cluster_id,
        "created_by": workload.user_name,
        "created_at": rfc3339(workload.submitted_at),
        "deleted_at": moment(workload.deleted_at),
        "desired_phase": desired_phase(workload),
        "actual_phase": str(workload.phase),
    }
    match spec_of(workload):
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
    return "Stopped" if workload.phase is Phase.STOPPED or workload.then is Phase.STOPPED else "Running"


async def home_of(call: Call[Asked], workload: Workload) -> Workspace | None:
    """The workspace of a workload, if it is still there."""
    try:
        return await call.services.workspaces.numbered(call.actor, str(workload.workspace_id))
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
    return None


async def workspace_of(call: Call[NoParams], project_id: str, cluster_id: str | None, field: str) -> Workspace:
    """The workspace that is meant, in the cluster that is meant."""
    workspace = await call.services.workspaces.numbered(call.actor, project_id)
    if cluster_id is not None and cluster_id not in {workspace.cluster_id, workspace.cluster}:
        where = f'project "{workspace.name}" is in cluster {workspace.cluster_id} ("{workspace.cluster}").'
        raise bad_request(field, where)
    return workspace


async def _submitted(call: Call[NoParams], spec: AnySpec) -> AnySubmitted:
    body: Submission = call.body
    if body.template_id:
        raise bad_request("templateId", "there are no templates here. Send the spec itself.")
    workspace = await workspace_of(call, body.project_id, body.cluster_id, "clusterId")
    try:
        made = await call.services.workloads.create(
            call.actor, new_workload(body.name, workspace.name, spec), call.once
        )
    except StokerError as error:
        raise in_our_words(error) from error
    return submitted(made, workspace)
