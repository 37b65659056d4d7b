"""Endpoints for clusters: list, add, change, check and remove them."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params
from stoker.api.native.mapping import to_page_view
from stoker.api.native.params import Id, SearchParams
from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.cluster.credential import NO_CREDENTIAL, ClusterCredential
from stoker.domain.cluster.live_view import ClusterSummary
from stoker.domain.cluster.quantity import format_bytes, parse_bytes
from stoker.domain.diagnostics import CheckStatus
from stoker.domain.errors import ErrorCode, bad_request
from stoker.domain.queries.fleet import sum_clusters
from stoker.services.fleet.clusters import CreateClusterInput, UpdateClusterInput
from stoker.wire.clusters import (
    ClusterCheckView,
    ClusterView,
    CreateCluster,
    DockerSettings,
    DockerView,
    EditCluster,
    FindingView,
)
from stoker.wire.pages import PageView
from stoker.wire.timestamps import to_optional_timestamp, to_timestamp

DOCKER = "docker"
TLS_FILES = {"ca": "ca.pem", "certificate": "cert.pem", "key": "key.pem"}
"""The names that Docker gives to the files of a TLS directory."""
BYTES_SETTINGS = {"shm": "shm_bytes", "gpu_memory": "gpu_memory_bytes"}
EXAMPLE = {"name": "lab", "docker": {"url": "unix:///var/run/docker.sock", "defaultImage": "ubuntu:24.04"}}


class ClusterPath(Params, frozen=True, kw_only=True):
    name: Annotated[Id, Meta(description="Name or uuid.")]


class RemoveClusterParams(ClusterPath, frozen=True, kw_only=True):
    release: Annotated[bool, Meta(description="Leave its workloads running and forget them.")] = False


@endpoint("GET", "/api/stoker/v1/clusters", family=NATIVE, action=Action.CLUSTER_READ, params=SearchParams)
async def list_clusters(call: Call[SearchParams]) -> PageView[ClusterView]:
    """Clusters, by name."""
    params = call.params
    found = await call.services.clusters.list_clusters(call.actor, params.name, params.page_request)
    overviews = await _overviews(call)
    return to_page_view(
        found, params.page_request, lambda cluster: cluster_view(cluster, overviews.get(cluster.id), call.actor)
    )


@endpoint(
    "POST",
    "/api/stoker/v1/clusters",
    family=NATIVE,
    action=Action.CLUSTER_CREATE,
    body=CreateCluster,
    body_example=EXAMPLE,
    status=201,
    errors=(ErrorCode.ALREADY_EXISTS,),
    idempotent=True,
)
async def create_cluster(call: Call[NoParams]) -> ClusterView:
    """Add a cluster. It need not be reachable: the server connects to it as soon as it is."""
    body: CreateCluster = call.body
    new = CreateClusterInput(
        name=body.name,
        engine=DOCKER,
        description=body.description,
        settings=_docker_settings(body.docker),
        credential=_tls_credential(body.docker) or NO_CREDENTIAL,
    )
    return cluster_view(await call.services.clusters.create(call.actor, new, call.idempotency_key), None, call.actor)


@endpoint("GET", "/api/stoker/v1/clusters/{name}", family=NATIVE, action=Action.CLUSTER_READ, params=ClusterPath)
async def read_cluster(call: Call[ClusterPath]) -> ClusterView:
    """One cluster."""
    return await _view(call, await call.services.clusters.read(call.actor, call.params.name))


@endpoint(
    "PATCH",
    "/api/stoker/v1/clusters/{name}",
    family=NATIVE,
    action=Action.CLUSTER_UPDATE,
    params=ClusterPath,
    body=EditCluster,
    body_example={"docker": {"gpus": 8, "gpuModel": "NVIDIA H100"}},
    errors=(ErrorCode.CONFLICT,),
)
async def edit_cluster(call: Call[ClusterPath]) -> ClusterView:
    """Change the given fields. Settings are in force at once; pods keep running."""
    body: EditCluster = call.body
    edit = UpdateClusterInput(description=body.description)
    if not isinstance(body.docker, UnsetType):
        credential = _tls_credential(body.docker)
        edit = structs.replace(
            edit,
            engine=DOCKER,
            settings=_docker_settings(body.docker),
            credential=UNSET if credential is None else credential,
        )
    return await _view(call, await call.services.clusters.update(call.actor, call.params.name, edit))


@endpoint(
    "DELETE",
    "/api/stoker/v1/clusters/{name}",
    family=NATIVE,
    action=Action.CLUSTER_DELETE,
    params=RemoveClusterParams,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def remove_cluster(call: Call[RemoveClusterParams]) -> None:
    """Remove a cluster with its history. One with live workloads or workspaces needs `release`."""
    await call.services.clusters.remove(call.actor, call.params.name, release=call.params.release)


@endpoint(
    "POST",
    "/api/stoker/v1/clusters/{name}/check",
    family=NATIVE,
    action=Action.CLUSTER_CHECK,
    params=ClusterPath,
)
async def check_cluster(call: Call[ClusterPath]) -> ClusterCheckView:
    """Find out what is wrong with a cluster, and what to do about it."""
    findings = await call.services.clusters.check(call.actor, call.params.name)
    return ClusterCheckView(
        all(finding.verdict is not CheckStatus.BROKEN for finding in findings),
        tuple(FindingView(each.name, each.verdict, each.message, each.advice) for each in findings),
    )


def cluster_view(cluster: Cluster, overview: ClusterSummary | None, actor: Actor) -> ClusterView:
    """Settings are for admins: they name machines and paths."""
    totals = sum_clusters([] if overview is None else [overview])
    return ClusterView(
        id=cluster.id,
        name=cluster.name,
        engine=cluster.engine,
        description=cluster.description,
        simulated=cluster.is_simulated,
        reachable=cluster.unreachable_since is None,
        unreachable_since=to_optional_timestamp(cluster.unreachable_since),
        unreachable_message=cluster.unreachable_message,
        nodes=totals.nodes + totals.cpu_nodes + totals.faulty_cpu_nodes,
        gpus=totals.gpus,
        has_credential=cluster.has_credential,
        created_at=to_timestamp(cluster.created_at),
        updated_at=to_timestamp(cluster.updated_at),
        **{
            engine: view(msgspec.json.decode(cluster.config)) if actor.admin and engine == cluster.engine else None
            for engine, view in SETTINGS_VIEWS.items()
        },
    )


async def _view(call: Call[ClusterPath], cluster: Cluster) -> ClusterView:
    return cluster_view(cluster, (await _overviews(call)).get(cluster.id), call.actor)


async def _overviews(call: Call[SearchParams] | Call[ClusterPath]) -> dict[str, ClusterSummary | None]:
    return {status.cluster.id: status.overview for status in await call.services.live.clusters()}


def _docker_settings(body: DockerSettings) -> dict[str, object]:
    """The settings that are given, under the names of the engine."""
    settings = {name: value for name, value in structs.asdict(body).items() if value is not UNSET}
    for name, stored in BYTES_SETTINGS.items():
        if name in settings:
            settings[stored] = parse_bytes(settings.pop(name), name)
    return {name: value for name, value in settings.items() if name not in {"tls", "tls_dir"}}


def _docker_view(config: Mapping[str, Any]) -> DockerView:
    """A setting that is newer than the stored ones has its default."""
    shown = {name: value for name, value in config.items() if name in DockerView.__struct_fields__}
    shown |= {name: format_bytes(config[stored]) for name, stored in BYTES_SETTINGS.items() if stored in config}
    shown["allowed_mounts"] = tuple(config.get("allowed_mounts", ()))
    return DockerView(**shown)


def _tls_credential(body: DockerSettings) -> ClusterCredential | None:
    """The given credential; None if none is given, an empty one if it is to be removed."""
    if not isinstance(body.tls_dir, UnsetType):
        if not isinstance(body.tls, UnsetType):
            raise bad_request("tlsDir", "give either the directory or the certificates.")
        paths = {name: f"{body.tls_dir.rstrip('/')}/{file}" for name, file in TLS_FILES.items()}
        return ClusterCredential(paths, by_reference=True)
    if isinstance(body.tls, UnsetType):
        return None
    return NO_CREDENTIAL if body.tls is None else ClusterCredential(structs.asdict(body.tls))


SETTINGS_VIEWS: Mapping[str, Callable[[Mapping[str, Any]], DockerView]] = {DOCKER: _docker_view}
"""How the settings of each engine are shown; its name is the field of the view."""
