"""One simulated pod. Its state is a function of its launch spec, its scenario, the calls it received and the time."""

from collections.abc import Mapping

from msgspec import Struct, structs

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.quantity import humanize_bytes
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Kind
from stoker.engines.model import ObservedPod
from stoker.engines.simulated.fleet.faults import SimulatedFault
from stoker.engines.simulated.scenario import OOM_EXIT_CODE, Scenario, ScenarioInput
from stoker.engines.simulated.seeded_random import seeded_rng
from stoker.engines.simulated.signals.gpu_load import LoadParameters, load_parameters

SIGTERM = 15
SIGABRT = 6
SIGKILL = 9
WATCHDOG_SECONDS = 600.0
"""How long the other ranks wait for one that has failed."""
INITIAL_BACKOFF_MS = 1_000
MAX_BACKOFF_MS = 300_000
MEAN_DAYS_BETWEEN_CRASHES = 6.0
"""The mean time until a replica of a service crashes."""


class SimulatedAttempt(Struct, frozen=True, kw_only=True):
    """What is stored of a launch spec."""

    workload_uid: str
    slug: str
    namespace: str
    kind: Kind
    attempt: int
    revision: int
    replicas: int
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    restart: bool = False
    command: str = ""
    service_port: int = 0
    framework: str = ""
    annotations: Mapping[str, str] = {}

    @property
    def gpus(self) -> int:
        return -(-self.gpu_milli // MILLI)

    @property
    def scenario_input(self) -> ScenarioInput:
        return ScenarioInput(
            self.workload_uid,
            self.attempt,
            self.revision,
            self.kind,
            self.replicas,
            self.gpus,
            self.annotations,
            self.framework,
        )


class PlannedPod(Struct, frozen=True, kw_only=True):
    """One pod of an attempt. It starts at `begins_at`, or never if it is stopped before."""

    uid: str
    name: str
    rank: int
    node: str
    devices: tuple[int, ...] = ()
    port: int = 0
    created_at: int
    begins_at: int
    revision: int = 0
    """A later revision than that of the attempt which still lists the pod; 0 if there is none."""


class Termination(Struct, frozen=True):
    at: int
    phase: PodPhase
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    has_started: bool = True


class SimulatedPod:
    """`stop_at` is when it is asked to stop; `lost` is the fault of its node that ended it; `rows` are its GPUs."""

    def __init__(
        self,
        attempt: SimulatedAttempt,
        place: PlannedPod,
        told: Scenario,
        speed: float = 1.0,
        rows: tuple[int, ...] = (),
    ) -> None:
        self.attempt = attempt
        self.plan = place
        self.speed = speed
        self.rows = rows
        self.scenario = told
        self.stop_at: int | None = None
        self.lost_to: SimulatedFault | None = None
        self.restarts = 0
        self._load: LoadParameters | None = None
        self._termination = self._natural_termination()
        self._run_started_at = place.begins_at
        self._crash_at = self._next_crash(0) if attempt.restart else None

    @property
    def uid(self) -> str:
        return self.plan.uid

    @property
    def revision(self) -> int:
        """The last revision that lists it."""
        return self.plan.revision or self.attempt.revision

    def adopt_revision(self, revision: int) -> None:
        """A pod that a later revision still lists belongs to that revision. It runs on as before."""
        self.plan = structs.replace(self.plan, revision=revision)

    @property
    def load(self) -> LoadParameters:
        if self._load is None:
            self._load = load_parameters(self.scenario)
        return self._load

    def is_finished(self, now: int) -> bool:
        end = self.termination()
        return end is not None and end.at <= now

    def has_started(self, now: int) -> bool:
        """Whether its command was started."""
        end = self.termination()
        return self.plan.begins_at <= now and (end is None or end.has_started)

    def elapsed_seconds(self, now: int) -> float:
        """Simulated seconds since its start."""
        return (now - self.plan.begins_at) * self.speed / 1000

    def termination(self) -> Termination | None:
        """How and when it ends, as far as that is known."""
        return self._termination

    def stop(self, at: int) -> None:
        """Ask it to stop at this time; an earlier request stays."""
        self.stop_at = at if self.stop_at is None else min(self.stop_at, at)
        self._plan_termination()

    def mark_lost(self, fault: SimulatedFault) -> None:
        self.lost_to = self.lost_to or fault
        self._plan_termination()

    def next_change(self, now: int) -> int | None:
        """When its state changes next."""
        self._advance_restarts(now)
        end = self.termination()
        times = [self.plan.begins_at, self._run_started_at]
        times += [end.at] if end is not None else []
        times += [self._crash_at] if self._crash_at is not None else []
        return min((at for at in times if at > now and (end is None or at <= end.at)), default=None)

    def observed(self, now: int) -> ObservedPod:
        """The pod as `watch` reports it."""
        self._advance_restarts(now)
        end = self.termination()
        over = end if end is not None and end.at <= now else None
        up = self._run_started_at <= now and over is None
        attempt, place = self.attempt, self.plan
        return ObservedPod(
            uid=place.uid,
            name=place.name,
            workload_uid=attempt.workload_uid,
            attempt=attempt.attempt,
            revision=self.revision,
            node=place.node,
            phase=over.phase if over else PodPhase.RUNNING if self.has_started(now) else PodPhase.PENDING,
            ready=up,
            exit_code=over.exit_code if over else None,
            signal=over.signal if over else None,
            message=over.message if over else "" if up or not self.restarts else "It ended and starts again soon.",
            restarts=self.restarts,
            port=place.port,
            started_at=place.begins_at if self.has_started(now) else None,
            ended_at=over.at if over else None,
            devices=tuple(map(DeviceRef, place.devices)),
            rank=place.rank,
            resources=Resources(attempt.gpu_milli, attempt.cpu_milli, attempt.memory_bytes),
        )

    def _plan_termination(self) -> None:
        ends = [
            each
            for each in (self._lost_termination(), self._stopped_termination(), self._natural_termination())
            if each is not None
        ]
        self._termination = min(ends, key=lambda end: end.at, default=None)

    def _ms(self, seconds: float) -> int:
        return round(seconds * 1000 / self.speed)

    def _lost_termination(self) -> Termination | None:
        if self.lost_to is None:
            return None
        message = f"Simulated fault of {self.plan.node}: {self.lost_to.message}."
        return Termination(
            self.lost_to.from_at,
            PodPhase.LOST,
            message=message,
            has_started=self.plan.begins_at <= self.lost_to.from_at,
        )

    def _stopped_termination(self) -> Termination | None:
        if self.stop_at is None:
            return None
        if self.stop_at < self.plan.begins_at:
            return Termination(
                self.stop_at, PodPhase.FAILED, message="It was stopped before it began.", has_started=False
            )
        takes = self._ms(seeded_rng(self.scenario.seed, self.uid, "stop").uniform(0.1, 1.5))
        return Termination(
            self.stop_at + takes, PodPhase.FAILED, 128 + SIGTERM, SIGTERM, "The command was ended by signal 15."
        )

    def _natural_termination(self) -> Termination | None:
        seconds, code = self.scenario.run_seconds, self.scenario.exit_code
        if seconds is None or self.attempt.restart:
            return None
        at = self.plan.begins_at + self._ms(seconds)
        if code == 0:
            return Termination(at, PodPhase.SUCCEEDED, 0)
        if self.plan.rank != self.scenario.failing_rank:
            waited = at + self._ms(WATCHDOG_SECONDS)
            return Termination(waited, PodPhase.FAILED, 128 + SIGABRT, SIGABRT, "The command was ended by signal 6.")
        if code == OOM_EXIT_CODE:
            needed = f"It needed more memory than the {humanize_bytes(self.attempt.memory_bytes)} it asked for."
            return Termination(at, PodPhase.FAILED, OOM_EXIT_CODE, SIGKILL, needed)
        return Termination(at, PodPhase.FAILED, code, None, f"The command ended with exit code {code}.")

    def _advance_restarts(self, now: int) -> None:
        """The state of a pod that is restarted when it ends, through all its runs."""
        while self._crash_at is not None and self._crash_at <= now:
            end = self.termination()
            if end is not None and end.at <= self._crash_at:
                return
            self.restarts += 1
            wait = backoff_seconds(self.restarts, first=INITIAL_BACKOFF_MS, longest=MAX_BACKOFF_MS)
            self._run_started_at = self._crash_at + max(1, round(wait / self.speed))
            self._crash_at = self._next_crash(self.restarts)

    def _next_crash(self, run: int) -> int | None:
        """When the run of this number ends by itself."""
        if self.scenario.run_seconds is not None:
            return self._run_started_at + max(1, self._ms(self.scenario.run_seconds))
        if not self.attempt.kind.uses_rolling_update:
            return None
        days = seeded_rng(self.scenario.seed, self.uid, "crash", run).expovariate(1 / MEAN_DAYS_BETWEEN_CRASHES)
        return self._run_started_at + self._ms(days * 86_400)
