"""What an engine kind is: its settings, its capabilities, how it is opened and how it is checked."""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stoker.concurrency.supervisor import Supervisor
from stoker.domain.access.identity import Cluster
from stoker.domain.clock import Clock
from stoker.domain.cluster.capabilities import Capabilities
from stoker.domain.cluster.credential import NO_CREDENTIAL, ClusterCredential
from stoker.domain.cluster.engine_catalog import EngineConfig
from stoker.domain.cluster.policy import ClusterPolicy
from stoker.domain.diagnostics import Finding
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.metrics.report_token import ReportEndpoint
from stoker.domain.settings.schema import Settings
from stoker.engines.protocol import Engine


class EngineContext(Struct, frozen=True, kw_only=True):
    """What an engine is opened or checked with."""

    cluster: Cluster
    config: Any
    """The settings of the cluster, as the struct of its engine kind."""
    credential: ClusterCredential = NO_CREDENTIAL
    owner_id: str
    """Marks what this installation creates on this cluster: everything else there is foreign."""
    data_dir: Path
    settings: Settings
    clock: Clock
    supervisor: Supervisor
    reports: ReportEndpoint | None = None
    hidden_paths: tuple[Path, ...] = ()
    """Files outside the data directory that no job may see."""


class EngineKind(Struct, frozen=True, kw_only=True):
    """`settings` is the struct of its settings. `validate` rejects settings that cannot work, with or without a
    credential; `check_credential` rejects a credential. `is_host_bound` tells whether only a server on the same machine
    can drive a cluster with these settings."""

    name: str
    settings: type[Struct]
    capabilities: Capabilities
    open: Callable[[EngineContext], Awaitable[Engine]]
    check: Callable[[EngineContext], Awaitable[list[Finding]]]
    validate: Callable[[Any, bool], None]
    check_credential: Callable[[ClusterCredential], None]
    is_host_bound: Callable[[Any], bool]
    hidden_settings: frozenset[str] = frozenset()
    """Fields of the struct that are not settings: they are filled from the credential."""
    comes_with_server: bool = False
    """Whether the server creates the cluster by itself, so that it is neither added nor removed by users."""
    runs_on_this_machine: bool = False
    """Whether its pods are processes of this machine that the server must tell from its users."""
    opens_at_once: bool = False
    """Whether it opens without waiting for anything outside this server."""

    def parse_settings(self, settings: Mapping[str, object], *, has_credential: bool) -> EngineConfig:
        """Validate settings, with those that hold for every engine; raises BAD_REQUEST."""
        fields = {*self.settings.__struct_fields__, *ClusterPolicy.__struct_fields__} - self.hidden_settings
        if unknown := sorted(settings.keys() - fields):
            raise bad_request(unknown[0], f"there is no such setting. There are: {', '.join(sorted(fields))}.")
        try:
            config = msgspec.convert(settings, self.settings)
            policy = msgspec.convert(settings, ClusterPolicy)
        except msgspec.ValidationError as error:
            raise StokerError(ErrorCode.BAD_REQUEST, f"The settings cannot be used: {error}.") from error
        self.validate(config, has_credential)
        stored = {**msgspec.to_builtins(policy), **msgspec.to_builtins(config)}
        kept = {name: value for name, value in stored.items() if name in fields}
        return EngineConfig(msgspec.json.encode(kept).decode(), self.capabilities)

    def read_config(self, cluster: Cluster) -> Any:
        """The settings of a cluster; raises UNAVAILABLE if this version cannot read them."""
        try:
            return msgspec.json.decode(cluster.config, type=self.settings)
        except msgspec.DecodeError as error:
            raise StokerError(
                ErrorCode.UNAVAILABLE,
                f"The settings of the cluster cannot be read: {error}.",
                hint=f"See them with: stoker cluster describe {cluster.name}",
            ) from error


def derive_owner_id(installation_id: str, cluster_id: str) -> str:
    """The same for every server of an installation; another one for a cluster that was removed and added again, so
    that what it has released is foreign then."""
    return str(uuid.uuid5(uuid.UUID(installation_id), cluster_id))
