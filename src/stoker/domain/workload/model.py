"""The workload: its spec, its owner and its present state.

Every change increments `version`, which guards concurrent writes.
"""

from collections.abc import Mapping

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.phase import EnginePhase, Phase
from stoker.domain.workload.spec import Category, Kind, Spec, category_of, runs_to_completion, uses_rolling_update


def foreign_workload_error(name: str) -> StokerError:
    return StokerError(
        ErrorCode.CONFLICT,
        f'"{name}" was not submitted through Stoker: it is only observed.',
        hint="Change it with the tool that created it.",
    )


DEFAULT_GRACE_SECONDS = 30
"""Time between the termination signal and the kill signal, unless a stop request sets another."""
ORIGIN_CLI = "cli"
"""Value of `origin_api` for workloads submitted with Stoker's command line."""
CLI_USER_AGENT = "stoker-cli"
SDK_USER_AGENT = "stoker"
"""User agent of programs that use Stoker's client and set no other."""
OWN_USER_AGENTS = frozenset({CLI_USER_AGENT, SDK_USER_AGENT})


class Workload(Struct, frozen=True, kw_only=True):
    """One workload from submission to deletion."""

    uid: str
    slug: str
    name: str
    description: str = ""
    kind: str
    """One of `Kind`, or what the engine calls a foreign workload."""
    cluster_id: str
    workspace_id: int
    namespace: str
    user_id: str
    user_name: str
    origin_api: str
    spec: Spec
    priority: int = 80
    preemptible: bool = False
    timeout_seconds: int = 0
    max_retry: int = 0

    phase: Phase = Phase.PENDING
    version: int = 1
    revision: int = 1
    attempt: int = 0
    """Number of dispatches; 0 before the first."""
    retries: int = 0
    requeued: bool = False
    """Preempted or evicted: it goes first in the queue of its workspace."""
    not_before: int | None = None
    next_phase: Phase | None = None
    """The phase that follows once all pods have terminated."""
    message: str = ""
    pending_message: str = ""
    """Why the workload is pending, according to the last scheduling cycle. It changes without a new version."""
    pending_reason: str = ""
    """The code of `pending_message`."""
    submitted_at: int
    phase_at: int
    started_at: int | None = None
    ended_at: int | None = None
    running_since: int | None = None
    running_ms: int = 0
    """Running time of all earlier runs."""
    pending_ms: int = 0
    """Pending time before the present wait."""
    node_pools: tuple[str, ...] = ()
    """Node pools of the last placement; empty before the first."""
    good_revision: int = 0
    """The last revision whose pods were all ready; 0 before the first."""
    notes: Mapping[str, str] = {}
    """Lasting messages about the running workload, by condition reason."""
    guaranteed_until: int | None = None
    """End of the guaranteed runtime: it is not preempted earlier. None while pending."""
    reserved_nodes: tuple[str, ...] = ()
    """Nodes with capacity reserved by preemption, one for each pending pod, until the workload starts."""
    deleted_at: int | None = None
    grace_seconds: int | None = None
    """Grace period set by a stop request; None unless the workload is terminating."""

    managed: bool = True
    """Whether Stoker runs it. A foreign workload was made by others: it is only observed."""
    engine_ref: str = ""
    """The engine's own name for it, if it has one."""
    engine_phase: EnginePhase | None = None
    """The state that the engine reports of a workload which it runs by itself; None if Stoker runs its pods."""
    api_version: str = ""
    """The API version of a foreign object, such as `ray.io/v1`."""

    @property
    def category(self) -> Category:
        return category_of(self.kind)

    @property
    def submitted_kind(self) -> Kind:
        """The kind of a workload that was submitted here. A foreign workload has none."""
        if not self.managed:
            raise foreign_workload_error(self.name)
        return Kind(self.kind)

    @property
    def runs_to_completion(self) -> bool:
        return runs_to_completion(self.kind)

    @property
    def uses_rolling_update(self) -> bool:
        return uses_rolling_update(self.kind)

    @property
    def is_suspendable(self) -> bool:
        """Whether it can be stopped and later resumed: it is not deleted, and has not failed or completed, nor will it
        fail once its pods are gone."""
        return self.deleted_at is None and not self.phase.is_terminal and self.next_phase is not Phase.FAILED

    @property
    def current_node_pools(self) -> tuple[str, ...]:
        """The pools of its placement, else the pools that it requests."""
        return self.node_pools or self.spec.node_pools
