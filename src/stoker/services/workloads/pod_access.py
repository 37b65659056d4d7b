"""Inside a running workload: its containers and shells, its service, and commands run in its pods."""

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.permissions import Action, Actor, Target
from stoker.domain.reach import Reach, Terminal
from stoker.domain.workload import Kind, Pod, Service, Workload
from stoker.services.context import Context, authorise, record
from stoker.services.submission import check_trust
from stoker.services.visible import visible
from stoker.store import nodes, pods
from stoker.store.base import Transaction


class Containers(Struct, frozen=True):
    names: list[str]
    shells: list[str]


class ServicePlace(Struct, frozen=True):
    """A service and where it answers; an empty address while nothing of it is up."""

    workload: Workload
    service: Service
    host: str
    port: int


class Inside:
    def __init__(self, context: Context, reach: Reach) -> None:
        self._context = context
        self._reach = reach

    async def containers(self, actor: Actor, ref: str, pod_ref: str) -> Containers:
        """The containers of a pod, and the shells that can be run in it now."""
        workload, pod = await self._context.store.peek(lambda tx: _pod(tx, actor, ref, pod_ref))
        return Containers(_containers(workload), [] if pod.phase.ended else await self._shells(workload, pod))

    async def container_names(self, actor: Actor, ref: str, pod_ref: str) -> list[str]:
        """The same without the shells: the pod itself is not asked."""
        workload, _ = await self._context.store.peek(lambda tx: _pod(tx, actor, ref, pod_ref))
        return _containers(workload)

    async def _shells(self, workload: Workload, pod: Pod) -> list[str]:
        try:
            return await self._reach.shells(workload.cluster_id, pod.uid)
        except StokerError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            return []  # it has a place and is about to begin

    async def service(self, actor: Actor, ref: str) -> ServicePlace:
        workload = (await self._context.store.peek(lambda tx: visible(tx, actor, ref))).workload
        service = workload.spec.service
        if service is None:
            raise StokerError(ErrorCode.NOT_FOUND, f'Workload "{workload.slug}" has no service.')
        address = await self._reach.service_address(workload.cluster_id, workload.uid)
        host, _, port = address.rpartition(":")
        return ServicePlace(workload, service, host, int(port) if port else 0)

    async def execute(
        self, actor: Actor, ref: str, pod_ref: str, command: list[str], *, tty: bool, columns: int, rows: int
    ) -> Terminal:
        """Run a command beside what the pod runs; for its owner and for managers of the workspace."""

        def find(transaction: Transaction) -> tuple[Workload, Pod]:
            workload, pod = self._executable(transaction, actor, ref, pod_ref)
            if pod.phase.ended:
                raise StokerError(ErrorCode.STATE_FORBIDS, f'Pod "{pod.name}" has ended; nothing can be run in it.')
            record(self._context, transaction, actor, Action.WORKLOAD_EXEC, pod.name)
            return workload, pod

        workload, pod = await self._context.store.write(find)
        return await self._reach.execute(workload.cluster_id, pod.uid, command, tty=tty, columns=columns, rows=rows)

    async def may_execute(self, actor: Actor, ref: str, pod_ref: str) -> None:
        """Refuses when the actor may not, or may no longer, run commands there."""
        await self._context.store.peek(lambda tx: self._executable(tx, actor, ref, pod_ref))

    def _executable(self, transaction: Transaction, actor: Actor, ref: str, pod_ref: str) -> tuple[Workload, Pod]:
        workload, pod = _pod(transaction, actor, ref, pod_ref)
        authorise(actor, Action.WORKLOAD_EXEC, Target(workspace_id=workload.workspace_id, owner_id=workload.user_id))
        known = nodes.of_cluster(transaction, workload.cluster_id)
        check_trust(actor, known, self._context.settings.local_trust)
        return workload, pod


def main_container(kind: Kind) -> str:
    """What the container that does the work is called."""
    return "pytorch" if kind in {Kind.PYTORCH_JOB, Kind.AUTHORING} else "main"


def _containers(workload: Workload) -> list[str]:
    return [main_container(workload.kind)]


def _pod(transaction: Transaction, actor: Actor, ref: str, pod_ref: str) -> tuple[Workload, Pod]:
    """The newest pod of this name; without a name, the first of the present attempt."""
    workload = visible(transaction, actor, ref).workload
    if pod_ref:
        found = pods.named(transaction, workload.uid, pod_ref)
    else:
        found = pods.of_attempt(transaction, workload.uid, workload.attempt)
    if not found:
        raise not_found("pod", pod_ref or "of this workload")
    return workload, found[0]
