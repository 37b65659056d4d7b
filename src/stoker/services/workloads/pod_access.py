"""Access to running pods: containers, shells, commands, service addresses and working directories."""

from msgspec import Struct

from stoker.domain.access.identity import Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target
from stoker.domain.cluster.engine_access import EngineAccess, Terminal
from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.workload.model import Workload
from stoker.domain.workload.placement import current_pods
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Service, main_container_name
from stoker.services.access import authorise_for_workload, get_visible
from stoker.services.context import Context, authorise, record_audit
from stoker.services.workloads.admission import resolve_workspace
from stoker.services.workloads.validation import check_local_trust
from stoker.store.cluster import nodes
from stoker.store.db.base import Transaction
from stoker.store.workloads import pods


class PodContainers(Struct, frozen=True):
    names: list[str]
    shells: list[str]


class WorkloadServiceAddress(Struct, frozen=True):
    """A service and its address; the host is empty while no pod of the service is up."""

    workload: Workload
    service: Service
    host: str
    port: int


class PodAccess:
    def __init__(self, context: Context, engine_access: EngineAccess) -> None:
        self._context = context
        self._engine_access = engine_access

    async def list_containers(self, actor: Actor, ref: str, pod_ref: str) -> PodContainers:
        """The containers of a pod, and the shells that can be run in it now."""
        workload, pod = await self._context.store.read_inline(lambda tx: _find_pod(tx, actor, ref, pod_ref))
        return PodContainers(
            _container_names(workload), [] if pod.phase.is_finished else await self._shells(workload, pod)
        )

    async def list_container_names(self, actor: Actor, ref: str, pod_ref: str) -> list[str]:
        """The containers without the shells, and so without a call to the engine."""
        workload, _ = await self._context.store.read_inline(lambda tx: _find_pod(tx, actor, ref, pod_ref))
        return _container_names(workload)

    async def _shells(self, workload: Workload, pod: Pod) -> list[str]:
        try:
            return await self._engine_access.list_shells(workload.cluster_id, pod.uid)
        except StokerError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            return []  # it is placed but has not started yet

    async def get_service_address(self, actor: Actor, ref: str) -> WorkloadServiceAddress:
        workload = (await self._context.store.read_inline(lambda tx: get_visible(tx, actor, ref))).workload
        service = workload.spec.service
        if service is None:
            raise StokerError(ErrorCode.NOT_FOUND, f'Workload "{workload.slug}" has no service.')
        address = await self._engine_access.service_address(workload.cluster_id, workload.uid)
        host, _, port = address.rpartition(":")
        return WorkloadServiceAddress(workload, service, host, int(port) if port else 0)

    async def execute(
        self,
        actor: Actor,
        ref: str,
        pod_ref: str,
        command: list[str],
        *,
        tty: bool,
        columns: int,
        rows: int,
        stderr: bool = False,
    ) -> Terminal:
        """Run a command in a pod; allowed to its owner and to managers of the workspace."""

        def find(transaction: Transaction) -> tuple[Workload, Pod]:
            workload, pod = self._authorise_exec(transaction, actor, ref, pod_ref)
            if pod.phase.is_finished:
                raise StokerError(ErrorCode.CONFLICT, f'Pod "{pod.name}" has ended; nothing can be run in it.')
            record_audit(self._context, transaction, actor, Action.WORKLOAD_EXEC, pod.name)
            return workload, pod

        workload, pod = await self._context.store.write(find)
        return await self._engine_access.execute(
            workload.cluster_id, pod.uid, command, tty=tty, columns=columns, rows=rows, stderr=stderr
        )

    async def working_directory_error(self, actor: Actor, workspace: str, directory: str) -> str:
        """Why a workload of the caller could not use a directory of the engine's machine; empty if it could."""

        def find(transaction: Transaction) -> Workspace:
            resolved = resolve_workspace(transaction, actor, workspace)
            authorise(actor, Action.WORKLOAD_CREATE, Target(workspace_id=resolved.id, owner_id=actor.user_id))
            return resolved

        found = await self._context.store.read_inline(find)
        return await self._engine_access.working_directory_error(found.cluster_id, found.id, directory)

    async def check_may_execute(self, actor: Actor, ref: str, pod_ref: str) -> None:
        """Raise when the actor may not, or may no longer, run commands in the pod."""
        await self._context.store.read_inline(lambda tx: self._authorise_exec(tx, actor, ref, pod_ref))

    def _authorise_exec(self, transaction: Transaction, actor: Actor, ref: str, pod_ref: str) -> tuple[Workload, Pod]:
        workload, pod = _find_pod(transaction, actor, ref, pod_ref)
        authorise_for_workload(actor, Action.WORKLOAD_EXEC, workload)
        cluster_nodes = nodes.of_cluster(transaction, workload.cluster_id)
        check_local_trust(actor, cluster_nodes, self._context.settings.local_trust)
        return workload, pod


def _container_names(workload: Workload) -> list[str]:
    return [main_container_name(workload.kind)]


def _find_pod(transaction: Transaction, actor: Actor, ref: str, pod_ref: str) -> tuple[Workload, Pod]:
    """The current pod of this name; without a name, the first pod of the current attempt."""
    workload = get_visible(transaction, actor, ref).workload
    if pod_ref:
        found = pods.find_by_name(transaction, workload.uid, pod_ref)
    else:
        found = current_pods(pods.of_attempt(transaction, workload.uid, workload.attempt), workload.spec.replicas)
    if not found:
        raise not_found("pod", pod_ref or "of this workload")
    return workload, found[0]
