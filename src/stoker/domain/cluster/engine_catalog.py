"""The engines that clusters can have, as services use them to add, change and check clusters."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import Capabilities
from stoker.domain.cluster.credential import ClusterCredential
from stoker.domain.diagnostics import Finding


class EngineConfig(Struct, frozen=True):
    """Valid settings of an engine, as JSON, and what the engine is capable of."""

    config: str
    capabilities: Capabilities


class EngineCatalog(Protocol):
    def parse_settings(self, engine: str, settings: Mapping[str, object], *, has_credential: bool) -> EngineConfig:
        """Validate the settings of a cluster; raises BAD_REQUEST, naming the setting."""
        ...

    def check_credential(self, engine: str, credential: ClusterCredential) -> None:
        """Raise BAD_REQUEST if the credential cannot be used with this engine."""
        ...

    def check_editable(self, cluster: Cluster) -> None:
        """Raise CONFLICT if the cluster comes with the server, so that it cannot be changed or removed."""
        ...

    async def check_cluster(self, cluster: Cluster) -> list[Finding]:
        """Find out from this server what is wrong with a cluster, and what to do about it."""
        ...

    def clusters_changed(self) -> None:
        """Wake the part of the server that connects clusters; servers that are not woken notice within seconds."""
        ...
