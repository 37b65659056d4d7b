"""Workloads as Kubernetes manifests: submit, read, change and delete."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from stoker.api.compat.management.schemas import DisplayName
from stoker.api.compat.runai.enums import (
    MIN_NON_PREEMPTIBLE_PRIORITY,
    ORIGIN_V2,
    TENANT_ID,
    optional_rfc3339,
    priority_class,
)
from stoker.api.compat.runai.workloads.actions import Accepted
from stoker.api.compat.runai.workloads.manifest_mapping import parse_manifest, to_manifest, to_spec
from stoker.api.compat.runai.workloads.manifest_schemas import (
    GROUP_AND_NAME_BY_KIND,
    KIND_BY_MANIFEST,
    AnyManifest,
    Job,
    PyTorchJob,
)
from stoker.api.compat.runai.workloads.submit_endpoints import (
    SUBMIT_ERRORS,
    ResourceId,
    desired_phase,
    find_workspace,
    resolve_workspace,
)
from stoker.api.compat.runai.workloads.submit_mapping import resolve_priority
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import NoParams, Params
from stoker.domain.access.identity import Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.errors import ErrorCode, bad_request
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase, StatusReason
from stoker.domain.workload.spec import CATEGORY_BY_KIND
from stoker.services.workloads.spec_diff import diff_specs
from stoker.services.workloads.validation import CreateWorkloadInput, UpdateWorkloadInput
from stoker.wire.base import RequestBody

WORKLOADS_V2_PATH = "/api/v2/workloads"
Base64Manifest = Annotated[str, Meta(max_length=350_000, description="The manifest as YAML, in Base64.")]


class ManifestMetadata(RequestBody, frozen=True, kw_only=True):
    """`name` is optional if the manifest has one."""

    project_id: ResourceId
    cluster_id: ResourceId | None = None
    name: DisplayName | None = None
    use_given_name_as_prefix: bool | None = None
    priority: str | None = None
    category: str | None = None
    preemptibility: Literal["preemptible", "non-preemptible"] | None = None


class ManifestBody(RequestBody, frozen=True, kw_only=True):
    metadata: ManifestMetadata
    manifest: dict[str, Any] | None = None
    manifest_base64_encoded: Base64Manifest | None = None


class ManifestChanges(RequestBody, frozen=True, kw_only=True):
    priority: str | None = None
    category: str | None = None


class ManifestUpdate(RequestBody, frozen=True, kw_only=True):
    metadata: ManifestChanges = ManifestChanges()
    manifest: dict[str, Any] | None = None
    manifest_base64_encoded: Base64Manifest | None = None


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
    """Both manifests are derived from the stored spec; each would create the workload again."""

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
    WORKLOADS_V2_PATH,
    family=RUNAI,
    action=Action.WORKLOAD_CREATE,
    body=ManifestBody,
    result=ManifestWorkload,
    status=202,
    errors=SUBMIT_ERRORS,
    idempotent=True,
)
async def create_from_manifest(call: Call[NoParams]) -> ManifestWorkload:
    """Submit a Deployment, StatefulSet, Job, PyTorchJob or Notebook as a manifest, in JSON or as YAML in Base64."""
    body: ManifestBody = call.body
    asked = body.metadata
    manifest = parse_manifest(body.manifest, body.manifest_base64_encoded)
    name = asked.name or manifest.metadata.name
    if not name:
        raise bad_request("metadata.name", "it is required, here or in the metadata of the manifest.")
    workspace = await resolve_workspace(call, asked.project_id, asked.cluster_id, "metadata.clusterId")
    kind = KIND_BY_MANIFEST[type(manifest)]
    _check_category(asked.category, manifest)
    priority = resolve_priority(asked.priority, kind, "metadata.priority")
    ends = _deadline_and_retries(manifest)
    new = CreateWorkloadInput(
        name=name,
        kind=kind,
        workspace=workspace.name,
        spec=to_spec(manifest),
        priority=priority,
        preemptible=asked.preemptibility == "preemptible"
        if asked.preemptibility
        else priority < MIN_NON_PREEMPTIBLE_PRIORITY,
        timeout_seconds=ends[0],
        max_retry=ends[1],
        origin_api=ORIGIN_V2,
    )
    return _to_manifest_workload(await call.services.workloads.create(call.actor, new, call.idempotency_key), workspace)


@endpoint(
    "GET",
    f"{WORKLOADS_V2_PATH}/{{workloadId}}",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=ManifestPath,
    result=ManifestRead,
)
async def read_as_manifest(call: Call[ManifestPath]) -> ManifestRead:
    """A workload as a manifest, however it was submitted."""
    found = await call.services.workload_queries.read(call.actor, call.params.workload_id)
    workload = found.entry.workload
    return ManifestRead(
        _to_manifest_workload(workload, await find_workspace(call, workload)), _to_sync_info(workload, found.status)
    )


@endpoint(
    "PUT",
    f"{WORKLOADS_V2_PATH}/{{workloadId}}",
    family=RUNAI,
    action=Action.WORKLOAD_UPDATE,
    params=ManifestPath,
    body=ManifestUpdate,
    result=ManifestWorkload,
    status=202,
    errors=(*SUBMIT_ERRORS, ErrorCode.CONFLICT),
)
async def update_from_manifest(call: Call[ManifestPath]) -> ManifestWorkload:
    """Change the priority or the spec; kind, labels and ports stay."""
    body: ManifestUpdate = call.body
    workload = await _read_workload(call)
    edit = UpdateWorkloadInput()
    if body.manifest is not None or body.manifest_base64_encoded is not None:
        manifest = parse_manifest(body.manifest, body.manifest_base64_encoded)
        if KIND_BY_MANIFEST[type(manifest)] != workload.kind:
            known = GROUP_AND_NAME_BY_KIND[workload.submitted_kind][1]
            raise bad_request("manifest.kind", f"it is a {known}, and stays one.")
        edit = diff_specs(workload.spec, to_spec(manifest))
    if body.metadata.priority is not None:
        priority = resolve_priority(body.metadata.priority, workload.submitted_kind, "metadata.priority")
        edit = structs.replace(edit, priority=priority)
    await call.services.workload_updates.update(call.actor, workload.uid, edit)
    return _to_manifest_workload(await _read_workload(call), await find_workspace(call, workload))


@endpoint(
    "DELETE",
    f"{WORKLOADS_V2_PATH}/{{workloadId}}",
    family=RUNAI,
    action=Action.WORKLOAD_DELETE,
    params=ManifestPath,
    status=202,
)
async def delete_manifest(call: Call[ManifestPath]) -> Accepted:
    """Stop a workload and hide it."""
    await call.services.workloads.delete(call.actor, (await _read_workload(call)).uid)
    return Accepted(202, "The workload is deleted once its pods have gone.")


async def _read_workload(call: Call[ManifestPath]) -> Workload:
    return (await call.services.workload_queries.read(call.actor, call.params.workload_id)).entry.workload


def _check_category(asked: str | None, manifest: AnyManifest) -> None:
    known = CATEGORY_BY_KIND[KIND_BY_MANIFEST[type(manifest)]]
    if asked and asked.casefold() != known.casefold():
        raise bad_request("metadata.category", f"a workload of this kind is of the category {known}.")


def _deadline_and_retries(manifest: AnyManifest) -> tuple[int, int]:
    """The timeout and the number of retries."""
    match manifest:
        case Job():
            return manifest.spec.active_deadline_seconds, manifest.spec.backoff_limit
        case PyTorchJob():
            return manifest.spec.run_policy.active_deadline_seconds, manifest.spec.run_policy.backoff_limit
        case _:
            return 0, 0


def _to_manifest_workload(workload: Workload, workspace: Workspace | None) -> ManifestWorkload:
    group, kind = GROUP_AND_NAME_BY_KIND[workload.submitted_kind]
    manifest = to_manifest(workload)
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
            created_at=format_rfc3339(workload.submitted_at),
            created_by=workload.user_name,
            updated_at=format_rfc3339(workload.phase_at),
            updated_by=workload.user_name,
            deleted_at=optional_rfc3339(workload.deleted_at),
        ),
        desired_phase=desired_phase(workload),
        workload_manifest=manifest,
        raw_manifest=manifest,
    )


def _to_sync_info(workload: Workload, status: StatusReason) -> SyncInfo:
    if workload.phase.is_pending:
        return SyncInfo("Queued", status.message)
    words = {Phase.INITIALIZING: "Applying", Phase.DELETING: "Deleting", Phase.FAILED: "Failed"}
    return SyncInfo(words.get(workload.phase, "Synced"), status.message)
