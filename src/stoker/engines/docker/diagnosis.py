"""Checks of a Docker host, each with what to do about a problem."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from stoker.domain.cluster.quantity import humanize_bytes, humanize_count
from stoker.domain.diagnostics import Finding, broken, ok, warning
from stoker.domain.errors import StokerError
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.schema import SystemInfo
from stoker.engines.docker.config import HOST_NETWORK, DockerConfig, PullPolicy

LOG = "Look at the log of dockerd on that machine."


async def diagnose(config: DockerConfig, cluster: str) -> list[Finding]:
    """Everything that can be found out without starting a container."""
    findings = list(await asyncio.to_thread(lambda: list(_check_files(config, cluster))))
    client = DockerClient(config)
    try:
        ping = await client.ping()
        findings.append(
            ok("daemon", f"The Docker daemon at {config.url} answers, with API version {ping.api_version}.")
        )
        findings.extend(_check_host(await client.info(), config, cluster))
        findings.extend([finding async for finding in _check_objects(client, config, cluster)])
    except StokerError as error:
        findings.append(broken("daemon", error.message, error.hint or LOG))
    finally:
        await client.close()
    return findings


def _check_files(config: DockerConfig, cluster: str) -> Iterator[Finding]:
    """What this server has to read before it can ask the daemon."""
    if not config.is_local and config.tls is None:
        yield warning(
            "tls",
            f"The connection to {config.host} is not encrypted: whoever reaches the port is root there.",
            f"Give certificates: stoker cluster edit {cluster} --tls-dir DIR",
        )
    path = config.registry_auth_file
    if path and not os.access(path, os.R_OK):
        yield broken(
            "registry",
            f"The file {path} with the credentials of registries cannot be read by the server.",
            f"Create it with docker login, or change it: stoker cluster edit {cluster} --registry-auth-file FILE",
        )
    if config.is_local and not Path(config.socket_path).exists():
        yield broken(
            "socket",
            f"There is no socket {config.socket_path}.",
            "Start Docker: systemctl start docker",
        )


def _check_host(info: SystemInfo, config: DockerConfig, cluster: str) -> Iterator[Finding]:
    size = f"{humanize_count(info.cpus, 'CPU')} and {humanize_bytes(info.mem_total)} of memory"
    yield ok("host", f"{config.node_name or info.name} has {size}; Docker {info.server_version}.")
    if config.gpus is None and not config.is_local:
        yield warning(
            "gpus",
            "The GPUs of a remote host are not detected, so it counts as a host without GPUs.",
            f"Say what it has: stoker cluster edit {cluster} --gpus N --gpu-model MODEL",
        )
    if not info.live_restore_enabled:
        yield warning(
            "live-restore",
            "Containers end when dockerd is restarted.",
            'Set "live-restore": true in the daemon.json of that machine.',
        )


async def _check_objects(client: DockerClient, config: DockerConfig, cluster: str) -> AsyncIterator[Finding]:
    """Images and networks that the settings name."""
    if config.network and config.network != HOST_NETWORK and not await client.has_network(config.network):
        yield broken("network", f'There is no network "{config.network}".', f"docker network create {config.network}")
    image = config.default_image
    if image and config.pull_policy is PullPolicy.NEVER and await client.image(image) is None:
        yield broken(
            "default image",
            f'The host has no image "{image}", and the pull policy is never.',
            f"docker pull {image}, or: stoker cluster edit {cluster} --pull-policy missing",
        )
