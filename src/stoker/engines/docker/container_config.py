"""Translates a launch spec into the configuration of a container. Pure, except that symbolic links of mounts are
followed if the host is this machine."""

import os
import posixpath
from collections.abc import Mapping

from msgspec import Struct

from stoker.domain.errors import bad_request
from stoker.domain.workload.spec import NO_IMAGE, Kind, PortProtocol
from stoker.engines.docker.api.schema import ImageConfig
from stoker.engines.docker.config import HOST_NETWORK, DockerConfig
from stoker.engines.docker.gpus import HostGpus, device_env, request_devices
from stoker.engines.docker.labels import (
    LABEL_PREFIX,
    ContainerRecord,
    container_labels,
    container_name,
    host_name_of,
    volume_name,
    workload_labels,
)
from stoker.engines.model import LaunchSpec, PodAssignment
from stoker.engines.pod_env import RENDEZVOUS_VARIABLES
from stoker.engines.replicas.replica import readiness_probe

SHELL = "/bin/sh"
MOUNTS_ANNOTATION = "stoker.mounts"
"""Annotation of a workload: bind mounts, separated by commas, each `HOST[:CONTAINER[:ro]]`."""
MASTER_VARIABLES = ("MASTER_ADDR", "PET_MASTER_ADDR")
IDLE_SCRIPT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
"""What an Authoring pod runs until somebody attaches; it needs nothing but a shell."""
LOG_MAX_SIZE = "16m"
LOG_MAX_FILES = "4"
MAX_PORT = 65_535


class PodPlacement(Struct, frozen=True):
    """What is known only when the pod is created: its network, the ports on it, and where the ranks meet."""

    network: str
    port: int = 0
    rendezvous_port: int = 0
    master_address: str = ""
    publish_host: str = ""
    """The address of the host on which the port is published; empty on the host's own network."""


def image_reference(config: DockerConfig, launch_spec: LaunchSpec) -> str:
    image = launch_spec.main.image
    image = config.default_image if image in {"", NO_IMAGE} else image
    if not image:
        raise bad_request("image", "is empty, and the cluster has no default image. Name the image to run.")
    return image


def service_port(launch_spec: LaunchSpec, assignment: PodAssignment) -> int:
    """The port that a replica listens on: the user's own PORT, else the target port of the service. On its own network
    every replica can have the same."""
    if launch_spec.service is None:
        return 0
    text = assignment.env.get("PORT", "")
    wanted = int(text) if text.isascii() and text.isdigit() else 0
    return wanted if 0 < wanted <= MAX_PORT else launch_spec.service.target_port or launch_spec.service.port


def build_record(
    launch_spec: LaunchSpec, assignment: PodAssignment, placement: PodPlacement, node: str
) -> ContainerRecord:
    ref = launch_spec.ref
    return ContainerRecord(
        uid=assignment.uid,
        name=assignment.name,
        workload_uid=ref.uid,
        slug=ref.slug,
        attempt=ref.attempt,
        revision=ref.revision,
        rank=assignment.rank,
        port=placement.port,
        service=launch_spec.service,
        check=readiness_probe(launch_spec, placement.port),
        kind=launch_spec.kind,
        node=assignment.node or node,
        rendezvous_port=placement.rendezvous_port,
        devices=assignment.devices,
        resources=launch_spec.main.resources,
    )


def create_body(
    config: DockerConfig,
    installation: str,
    launch_spec: LaunchSpec,
    assignment: PodAssignment,
    record: ContainerRecord,
    placement: PodPlacement,
    image: ImageConfig,
    gpus: HostGpus,
    extra_env: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """The body of the request that creates the container of a pod."""
    resources = launch_spec.main.resources
    rank = assignment.rank if launch_spec.rolling_update else None
    labels = workload_labels(installation, record.workload_uid, record.slug)
    work = {
        "Type": "volume",
        "Source": volume_name(installation, launch_spec.ref.slug, rank),
        "Target": config.working_dir,
        "VolumeOptions": {"Labels": labels},
    }
    host_config: dict[str, object] = {
        "NetworkMode": placement.network,
        "Init": True,
        "RestartPolicy": {"Name": "unless-stopped" if launch_spec.restart_on_exit else "no"},
        "LogConfig": {"Type": "json-file", "Config": {"max-size": LOG_MAX_SIZE, "max-file": LOG_MAX_FILES}},
        "Mounts": [work, *_bind_mounts(config, launch_spec.annotations)],
        **request_devices(assignment.devices, gpus),
    }
    if resources.cpu_milli:
        host_config["NanoCpus"] = resources.cpu_milli * 1_000_000
    if resources.memory_bytes:
        host_config |= {"Memory": resources.memory_bytes, "MemorySwap": resources.memory_bytes}
    if config.shm_bytes:
        host_config["ShmSize"] = config.shm_bytes
    body: dict[str, object] = {
        "Image": image_reference(config, launch_spec),
        "Env": _encode_env(_env(config, launch_spec, assignment, placement, gpus) | dict(extra_env or {})),
        "Labels": _user_labels(launch_spec) | container_labels(installation, record),
        "WorkingDir": image.working_dir or config.working_dir,
        "HostConfig": host_config,
        **_command(launch_spec, image),
    }
    if placement.network != HOST_NETWORK:
        body["Hostname"] = host_name_of(assignment.name)
        alias = {"Aliases": [container_name(assignment.name, assignment.uid)]}
        body["NetworkingConfig"] = {"EndpointsConfig": {placement.network: alias}}
    if placement.port and placement.publish_host:
        protocol = launch_spec.service.protocol if launch_spec.service else PortProtocol.TCP
        key = f"{placement.port}/{protocol.lower()}"
        body["ExposedPorts"] = {key: {}}
        host_config["PortBindings"] = {key: [{"HostIp": placement.publish_host, "HostPort": ""}]}
    return body


def mount_error(config: DockerConfig, path: str) -> str:
    """Why workloads may not mount a directory of the host; empty if they may."""
    if not path.startswith("/"):
        return f'"{path}" is not an absolute path of the Docker host.'
    real = os.path.realpath(path) if config.is_local else posixpath.normpath(path)
    for allowed in config.allowed_mounts:
        root = os.path.realpath(allowed) if config.is_local else posixpath.normpath(allowed)
        if real == root or real.startswith(f"{root.rstrip('/')}/"):
            return ""
    if not config.allowed_mounts:
        return f'"{path}" cannot be mounted: this cluster allows no mounts (allowed_mounts).'
    allowed = ", ".join(config.allowed_mounts)
    return f'"{path}" cannot be mounted: this cluster allows only {allowed} (allowed_mounts).'


def _bind_mounts(config: DockerConfig, annotations: Mapping[str, str]) -> list[dict[str, object]]:
    mounts: list[dict[str, object]] = []
    for text in filter(None, (part.strip() for part in annotations.get(MOUNTS_ANNOTATION, "").split(","))):
        source, _, rest = text.partition(":")
        target, _, mode = rest.partition(":")
        if mode not in {"", "ro", "rw"} or (target and not target.startswith("/")):
            raise bad_request(MOUNTS_ANNOTATION, f'"{text}" is not HOST[:CONTAINER[:ro]] with absolute paths.')
        if error := mount_error(config, source):
            raise bad_request(MOUNTS_ANNOTATION, error)
        mounts.append({"Type": "bind", "Source": source, "Target": target or source, "ReadOnly": mode == "ro"})
    return mounts


def _command(launch_spec: LaunchSpec, image: ImageConfig) -> dict[str, object]:
    script = launch_spec.main.entry_point or (IDLE_SCRIPT if launch_spec.kind == Kind.AUTHORING else "")
    if "\0" in script:
        raise bad_request("entryPoint", "holds a NUL character.")
    if script:
        return {"Entrypoint": [SHELL, "-c"], "Cmd": [script]}
    if not image.entrypoint and not image.cmd:
        raise bad_request("entryPoint", "is empty, and the image has no command of its own.")
    return {}


def _env(
    config: DockerConfig,
    launch_spec: LaunchSpec,
    assignment: PodAssignment,
    placement: PodPlacement,
    gpus: HostGpus,
) -> dict[str, str]:
    env = {"PYTHONUNBUFFERED": "1", "STOKER_WORKING_DIR": config.working_dir}
    env |= {**launch_spec.main.env, **assignment.env, **device_env(assignment.devices, gpus)}
    if placement.master_address:
        env |= dict.fromkeys(MASTER_VARIABLES, placement.master_address)
    if placement.rendezvous_port:
        env |= dict.fromkeys(RENDEZVOUS_VARIABLES, str(placement.rendezvous_port))
    if placement.port:
        env |= {"PORT": str(placement.port)}
        env.setdefault("HOST", "127.0.0.1" if placement.network == HOST_NETWORK else "0.0.0.0")  # noqa: S104 - its own network
    return env


def _encode_env(env: Mapping[str, str]) -> list[str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise bad_request("env", f'"{name[:80]}" cannot be a variable: no "=" in the name, no NUL anywhere.')
    return [f"{name}={value}" for name, value in env.items()]


def _user_labels(launch_spec: LaunchSpec) -> dict[str, str]:
    return {name: value for name, value in launch_spec.labels.items() if not name.startswith(LABEL_PREFIX)}
