"""The way from services to the engines that this server has open, and to the engine kinds."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.credential import ClusterCredential
from stoker.domain.cluster.engine_access import LogLine, Terminal
from stoker.domain.cluster.engine_catalog import EngineConfig
from stoker.domain.diagnostics import Finding, broken
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.engines.kinds import EngineContext, EngineKind
from stoker.engines.model import LogRef
from stoker.engines.protocol import Engine

CHECK_TIMEOUT_SECONDS = 20.0


class EngineCalls(ABC):
    """Implements `EngineAccess` and `EngineCatalog`. The runtime says which engines are open."""

    _kinds: Mapping[str, EngineKind]

    @abstractmethod
    def _find_engine(self, cluster_id: str) -> Engine | None:
        """The open engine of a cluster."""

    @abstractmethod
    async def _prepare(self, cluster: Cluster) -> tuple[EngineKind, EngineContext]:
        """The kind of a cluster's engine, and what to open it with."""

    @abstractmethod
    def clusters_changed(self) -> None:
        """Clusters were added, edited or removed."""

    def parse_settings(self, engine: str, settings: Mapping[str, object], *, has_credential: bool) -> EngineConfig:
        return self._find_addable(engine).parse_settings(settings, has_credential=has_credential)

    def check_credential(self, engine: str, credential: ClusterCredential) -> None:
        self._find_addable(engine).check_credential(credential)

    def check_editable(self, cluster: Cluster) -> None:
        kind = self._kinds.get(cluster.engine)
        if kind is not None and kind.comes_with_server:
            hint = "Remove a demo with: stoker demo remove" if cluster.is_simulated else "See: stoker serve --help"
            raise StokerError(
                ErrorCode.CONFLICT,
                f'Cluster "{cluster.name}" comes with the server, whose settings hold for it.',
                hint=hint,
            )

    async def check_cluster(self, cluster: Cluster) -> list[Finding]:
        try:
            kind, context = await self._prepare(cluster)
        except StokerError as error:
            return [broken("settings", error.message, error.hint)]
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                return await kind.check(context)
        except TimeoutError:
            message = f"The check has taken longer than {CHECK_TIMEOUT_SECONDS:.0f} seconds."
            return [broken("time", message, "Check the network between this server and the cluster.")]

    async def tail(self, cluster_id: str, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        engine = self._find_engine(cluster_id)
        if engine is None:
            return []
        try:
            return await engine.read_logs(LogRef(pod_uid), position, limit)
        except StokerError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return []
            raise

    async def list_shells(self, cluster_id: str, pod_uid: str) -> list[str]:
        return await self._engine(cluster_id).list_shells(pod_uid)

    async def execute(
        self,
        cluster_id: str,
        pod_uid: str,
        command: list[str],
        *,
        tty: bool,
        columns: int,
        rows: int,
        stderr: bool = False,
    ) -> Terminal:
        engine = self._engine(cluster_id)
        return await engine.execute(pod_uid, command, tty=tty, columns=columns, rows=rows, stderr=stderr)

    async def service_address(self, cluster_id: str, workload_uid: str) -> str:
        engine = self._find_engine(cluster_id)
        return await engine.service_address(workload_uid) if engine else ""

    async def working_directory_error(self, cluster_id: str, workspace_id: int, directory: str) -> str:
        if (engine := self._find_engine(cluster_id)) is None:
            return "The engine of the workspace's cluster does not run in this server."
        return await engine.check_working_directory(directory, workspace_id)

    def _find_addable(self, engine: str) -> EngineKind:
        kind = self._kinds.get(engine)
        if kind is None or kind.comes_with_server:
            possible = ", ".join(sorted(name for name, each in self._kinds.items() if not each.comes_with_server))
            raise bad_request("engine", f'no cluster with engine "{engine}" can be added. There are: {possible}.')
        return kind

    def _engine(self, cluster_id: str) -> Engine:
        if (engine := self._find_engine(cluster_id)) is not None:
            return engine
        raise StokerError(ErrorCode.UNAVAILABLE, "The engine of this workload's cluster does not run in this server.")
