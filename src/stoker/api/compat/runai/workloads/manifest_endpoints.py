"""Workloads as Kubernetes manifests: submitted, read, changed and deleted."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import NoParams, Params
from stoker.api.runai.actions import Accepted
from stoker.api.runai.manifest_shapes import GROUPS, KINDS, AnyManifest, Job, PyTorchJob
from stoker.api.runai.manifests import manifest_of, read_manifest, spec_of_manifest
from stoker.api.runai.submissions import difference, in_our_words, priority_of
from stoker.api.runai.submit import ERRORS, Id, desired_phase, home_of, workspace_of
from stoker.api.runai.words import API_V2, NOT_PREEMPTED, TENANT_ID, moment, priority_class
from stoker.api.safe.shapes import DisplayName
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.identity import Workspace
from stoker.domain.permissions import Action
from stoker.domain.workload import CATEGORY, Phase, Workload
from stoker.services.submission import NewWorkload, WorkloadEdit

PATH = "/api/v2/workloads"
Encoded = Annotated[str, Meta(max_length=350_000, description="The manifest as YAML, in Base64.")]


class ManifestMetadata(Body, frozen=True, kw_only=True):
    """`name` may be left to the manifest."""

    project_id: Id
    cluster_id: Id | None = None
    name: DisplayName | None = None
    use_given_name_as_prefix: bool | None = None
    priority: str | None = None
    category: str | None = None
    preemptibility: Literal["preemptible", "non-preemptible"] | None = None


class ManifestBody(Body, frozen=True, kw_only=True):
    metadata: ManifestMetadata
    manifest: dict[str, Any] | None = None
    manifest_base64_encoded: Encoded | None = None


class ManifestChanges(Body, frozen=True, kw_only=True):
    priority: str | None = None
    category: str | None = None


class ManifestUpdate(Body, frozen=True, kw_only=True):
    metadata: ManifestChanges = ManifestChanges()
    manifest: dict[str, Any] | None = None
    manifest_base64_encoded: Encoded | None = None


class ManifestPath(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(min_length=1, max_length=100)]


class GroupKind(Struct, frozen=True):
    group: str
    version: str
    kind: str


class WorkloadMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    project_id: str
    priority: str
    category: str
    preemptibility: str
    id: str
    gvk: GroupKind
    project_name: str
    cluster_id: str
    tenant_id: int
    department_id: str
    department_name: str
    created_at: str
    created_by: str
    updated_at: str
    updated_by: str
    deleted_at: str | None


class ManifestWorkload(Struct, frozen=True, kw_only=True, rename="camel"):
    """Both manifests are made from what is kept; either would make the workload again."""

    metadata: WorkloadMetadata
    desired_phase: str
    workload_manifest: dict[str, Any]
    raw_manifest: dict[str, Any]


class SyncInfo(Struct, frozen=True):
    status: str
    message: str


class ManifestRead(Struct, frozen=True, rename="camel"):
    workload: ManifestWorkload
    sync_info: SyncInfo


@endpoint(
    "POST",
    PATH,
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=ManifestBody,
    result=ManifestWorkload,
    status=202,
    errors=ERRORS,
    creates=True,
)
async def create_from_manifest(call: Call[NoParams]) -> ManifestWorkload:
    """Submit a Deployment, StatefulSet, Job, PyTorchJob or Notebook as a manifest, in JSON or as YAML in Base64."""
    body: ManifestBody = call.body
    asked = body.metadata
    manifest = read_manifest(body.manifest, body.manifest_base64_encoded)
    name = asked.name or manifest.metadata.name
    if not name:
        raise bad_request("metadata.name", "it is required, here or in the metadata of the manifest.")
    workspace = await workspace_of(call, asked.project_id, asked.cluster_id, "metadata.clusterId")
    kind = KINDS[type(manifest)]
    _check_category(asked.category, manifest)
    priority = priority_of(asked.priority, kind, "metadata.priority")
    ends = _ends(manifest)
    new = NewWorkload(
        name=name,
        kind=kind,
        workspace=workspace.name,
        spec=spec_of_manifest(manifest),
        priority=priority,
        preemptible=asked.preemptibility == "preemptible" if asked.preemptibility else priority < NOT_PREEMPTED,
        timeout_seconds=ends[0],
        max_retry=ends[1],
        origin_api=API_V2,
    )
    try:
        return _shown(await call.services.workloads.create(call.actor, new, call.once), workspace)
    except StokerError as error:
        raise in_our_words(error) from error


@endpoint(
    "GET", f"{PATH}/{{workloadId}}", family=RUNAI, action=Action.WORKLOAD_READ, params=ManifestPath, result=ManifestRead
)
async def read_as_manifest(call: Call[ManifestPath]) -> ManifestRead:
    """A workload as a manifest, however it was submitted."""
    workload = await _found(call)
    return ManifestRead(_shown(workload, await home_of(call, workload)), _sync(workload))


@endpoint(
    "PUT",
    f"{PATH}/{{workloadId}}",
    family=RUNAI,
    action=Action.WORKLOAD_UPDATE,
    params=ManifestPath,
    body=ManifestUpdate,
    result=ManifestWorkload,
    status=202,
    errors=(*ERRORS, ErrorCode.STATE_FORBIDS),
)
async def update_from_manifest(call: Call[ManifestPath]) -> ManifestWorkload:
    """Change the priority, or what runs; the kind stays, and so do labels and ports."""
    body: ManifestUpdate = call.body
    workload = await _found(call)
    edit = WorkloadEdit()
    if body.manifest is not None or body.manifest_base64_encoded is not None:
        manifest = read_manifest(body.manifest, body.manifest_base64_encoded)
        if KINDS[type(manifest)] is not workload.kind:
            raise bad_request("manifest.kind", f"it is a {GROUPS[workload.kind][1]}, and stays one.")
        edit = difference(workload.spec, spec_of_manifest(manifest))
    if body.metadata.priority is not None:
        priority = priority_of(body.metadata.priority, workload.kind, "metadata.priority")
        edit = structs.replace(edit, priority=priority)
    await call.services.workloads.edit(call.actor, workload.uid, edit)
    return _shown(await _found(call), await home_of(call, workload))


@endpoint(
    "DELETE", f"{PATH}/{{workloadId}}", family=RUNAI, action=Action.WORKLOAD_DELETE, params=ManifestPath, status=202
)
async def delete_manifest(call: Call[ManifestPath]) -> Accepted:
    """Stop a workload and hide it."""
    await call.services.workloads.delete(call.actor, (await _found(call)).uid)
    return Accepted(202, "The workload is deleted once its pods have gone.")


async def _found(call: Call[ManifestPath]) -> Workload:
    return (await call.services.workloads.read(call.actor, call.params.workload_id)).entry.workload


def _check_category(asked: str | None, manifest: AnyManifest) -> None:
    known = CATEGORY[KINDS[type(manifest)]]
    if asked and asked.casefold() != known.casefold():
        raise bad_request("metadata.category", f"a workload of this kind is of the category {known}.")


def _ends(manifest: AnyManifest) -> tuple[int, int]:
    """How long it may run, and how often it is tried again."""
    match manifest:
        case Job():
            return manifest.spec.active_deadline_seconds, manifest.spec.backoff_limit
        case PyTorchJob():
            return manifest.spec.run_policy.active_deadline_seconds, manifest.spec.run_policy.backoff_limit
        case _:
            return 0, 0


def _shown(workload: Workload, workspace: Workspace | None) -> ManifestWorkload:
    group, kind = GROUPS[workload.kind]
    manifest = manifest_of(workload)
    return ManifestWorkload(
        metadata=WorkloadMetadata(
            name=workload.name,
            project_id=str(workload.workspace_id),
            priority=priority_class(workload.priority),
            category=str(workload.category),
            preemptibility="preemptible" if workload.preemptible else "non-preemptible",
            id=workload.uid,
            gvk=GroupKind(group, "v1", kind),
            project_name=workspace.name if workspace else workload.namespace,
            cluster_id=workload.cluster_id,
            tenant_id=TENANT_ID,
            department_id=str(workspace.department_id) if workspace else "1",
            department_name=workspace.department if workspace else "default",
            created_at=rfc3339(workload.submitted_at),
            created_by=workload.user_name,
            updated_at=rfc3339(workload.phase_at),
            updated_by=workload.user_name,
            deleted_at=moment(workload.deleted_at),
        ),
        desired_phase=desired_phase(workload),
        workload_manifest=manifest,
        raw_manifest=manifest,
    )


def _sync(workload: Workload) -> SyncInfo:
    if workload.phase.queued:
        return SyncInfo("Queued", workload.waiting)
    status = {Phase.INITIALIZING: "Applying", Phase.DELETING: "Deleting", Phase.FAILED: "Failed"}
    return SyncInfo(status.get(workload.phase, "Synced"), workload.message)
