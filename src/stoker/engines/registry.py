"""The engine kinds of this version. No other module compares the names of engines."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from stoker.concurrency.supervisor import Supervisor
from stoker.domain.clock import Clock
from stoker.domain.cluster.capabilities import DOCKER_CAPABILITIES, LOCAL_CAPABILITIES, SIMULATED_CAPABILITIES
from stoker.domain.cluster.credential import ClusterCredential
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.diagnostics import Finding, ok
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.engines import gpu_devices
from stoker.engines.docker.config import DockerConfig, TlsConfig, check_config
from stoker.engines.kinds import EngineContext, EngineKind
from stoker.engines.local.engine import LocalEngine
from stoker.engines.local.isolation.containment import ContainmentMode
from stoker.engines.protocol import Engine
from stoker.engines.simulated import SimulatedEngine, build_machine_groups
from stoker.engines.tls import TLS_NAMES, check_tls_credential


class LocalConfig(Struct, frozen=True):
    """The local engine has no settings of its own: those of the server hold."""


class SimulatedConfig(Struct, frozen=True):
    """About this many GPUs, or exactly this many nodes if that is not 0."""

    gpus: int = 1024
    nodes: int = 0
    seed: int = 1
    speed: float = 1.0


def find_kind(kinds: Mapping[str, EngineKind], name: str) -> EngineKind:
    """The kind of this name; raises UNAVAILABLE if this version does not have it."""
    if (kind := kinds.get(name)) is not None:
        return kind
    raise StokerError(
        ErrorCode.UNAVAILABLE,
        f'This version of Stoker has no engine "{name}".',
        hint="Run the version that the cluster was added with, or a newer one.",
    )


async def _open_local(context: EngineContext) -> Engine:
    settings = context.settings
    return await LocalEngine.open(
        context.data_dir,
        gpus=None if settings.gpus < 0 else settings.gpus,
        mode=ContainmentMode(settings.containment),
        hidden=context.hidden_paths,
        first_user=settings.local_user,
        clock=context.clock,
        reports=context.reports,
    )


async def _check_local(context: EngineContext) -> list[Finding]:
    gpus = context.settings.gpus if context.settings.gpus >= 0 else len(gpu_devices.detect())
    return [ok("machine", f"This machine has {humanize_count(gpus, 'GPU')}. See also: stoker check")]


async def open_simulated(
    config: SimulatedConfig, cluster: str, data_dir: Path, clock: Clock, supervisor: Supervisor
) -> SimulatedEngine:
    return await SimulatedEngine.open(
        data_dir / "simulated" / cluster,
        groups=build_machine_groups(config.gpus, config.nodes),
        seed=config.seed,
        speed=config.speed,
        clock=clock,
        supervisor=supervisor,
    )


async def _open_simulated(context: EngineContext) -> Engine:
    return await open_simulated(
        context.config, context.cluster.name, context.data_dir, context.clock, context.supervisor
    )


async def _check_simulated(context: EngineContext) -> list[Finding]:
    return [ok("machines", "They are simulated, so there is nothing to reach.")]


def docker_config(config: DockerConfig, credential: ClusterCredential) -> DockerConfig:
    """The settings with the certificates of the credential."""
    tls = TlsConfig(**{name: credential.values.get(name, "") for name in TLS_NAMES}) if credential.values else None
    return structs.replace(config, tls=tls)


async def _open_docker(context: EngineContext) -> Engine:
    from stoker.engines.docker.engine import DockerEngine

    return DockerEngine(
        docker_config(context.config, context.credential),
        installation=context.owner_id,
        cluster_id=context.cluster.id,
        state_dir=context.data_dir / "docker" / context.cluster.id,
        clock=context.clock,
        reports=context.reports,
    )


async def _check_docker(context: EngineContext) -> list[Finding]:
    from stoker.engines.docker.diagnosis import diagnose

    return await diagnose(docker_config(context.config, context.credential), context.cluster.name)


def _validate_docker(config: DockerConfig, has_credential: bool) -> None:
    check_config(structs.replace(config, tls=TlsConfig() if has_credential else None))
    if "@" in config.url:
        raise bad_request("url", "it has a user or a password. A daemon is authenticated by certificates.")


def _refuse_credential(credential: ClusterCredential) -> None:
    if credential.values:
        raise bad_request("tls", "the engine of this cluster needs no credential.")


def _validate_nothing(config: Struct, has_credential: bool) -> None:
    """Any values will do."""


ENGINE_KINDS: Mapping[str, EngineKind] = {
    kind.name: kind
    for kind in (
        EngineKind(
            name="local",
            settings=LocalConfig,
            capabilities=LOCAL_CAPABILITIES,
            open=_open_local,
            check=_check_local,
            validate=_validate_nothing,
            check_credential=_refuse_credential,
            is_host_bound=lambda config: True,
            comes_with_server=True,
            runs_on_this_machine=True,
            opens_at_once=True,
        ),
        EngineKind(
            name="simulated",
            settings=SimulatedConfig,
            capabilities=SIMULATED_CAPABILITIES,
            open=_open_simulated,
            check=_check_simulated,
            validate=_validate_nothing,
            check_credential=_refuse_credential,
            is_host_bound=lambda config: True,
            comes_with_server=True,
            opens_at_once=True,
        ),
        EngineKind(
            name="docker",
            settings=DockerConfig,
            capabilities=DOCKER_CAPABILITIES,
            open=_open_docker,
            check=_check_docker,
            validate=_validate_docker,
            check_credential=check_tls_credential,
            is_host_bound=lambda config: config.is_local,
            hidden_settings=frozenset({"tls"}),
        ),
    )
}
