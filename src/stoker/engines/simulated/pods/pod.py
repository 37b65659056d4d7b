"""One simulated pod. Where it stands is a function of its order, its story, what was done to it, and the time."""

from collections.abc import Mapping

from msgspec import Struct

from stoker.domain.quantity import spoken_bytes
from stoker.domain.resources import MILLI
from stoker.domain.workload import Kind, PodPhase
from stoker.engines.base import PodSeen
from stoker.engines.simulated.dice import dice
from stoker.engines.simulated.faults import Fault
from stoker.engines.simulated.load import Load, load_of
from stoker.engines.simulated.story import OUT_OF_MEMORY, Story, Subject

TERM = 15
ABORT = 6
KILL = 9
WATCHDOG_SECONDS = 600.0
"""How long the other ranks wait for one that has failed."""
FIRST_BACKOFF_MS = 1_000
LONGEST_BACKOFF_MS = 300_000
CRASH_DAYS = 6.0
"""How long a replica of a service runs until it crashes, on average."""


class Attempt(Struct, frozen=True, kw_only=True):
    """What must be known of an order after a restart."""

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
    def subject(self) -> Subject:
        return Subject(
            self.workload_uid,
            self.attempt,
            self.revision,
            self.kind,
            self.replicas,
            self.gpus,
            self.annotations,
            self.framework,
        )


class Place(Struct, frozen=True, kw_only=True):
    """One pod of an attempt. It begins `begins_at`, or never if it is stopped before."""

    uid: str
    name: str
    rank: int
    node: str
    devices: tuple[int, ...] = ()
    port: int = 0
    created_at: int
    begins_at: int


class End(Struct, frozen=True):
    at: int
    phase: PodPhase
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    begun: bool = True


class Pod:
    """`stop_at` is when it is asked to end; `lost` the fault that took it with its node; `rows` are its GPUs."""

    def __init__(
        self, attempt: Attempt, place: Place, told: Story, speed: float = 1.0, rows: tuple[int, ...] = ()
    ) -> None:
        self.attempt = attempt
        self.place = place
        self.speed = speed
        self.rows = rows
        self.story = told
        self.stop_at: int | None = None
        self.lost: Fault | None = None
        self.restarts = 0
        self._load: Load | None = None
        self._end = self._natural()
        self._run_at = place.begins_at
        self._crash_at = self._crash(0) if attempt.restart else None

    @property
    def uid(self) -> str:
        return self.place.uid

    @property
    def load(self) -> Load:
        if self._load is None:
            self._load = load_of(self.story)
        return self._load

    def ended(self, now: int) -> bool:
        end = self.end()
        return end is not None and end.at <= now

    def begun(self, now: int) -> bool:
        """Whether its command has been started."""
        end = self.end()
        return self.place.begins_at <= now and (end is None or end.begun)

    def elapsed_seconds(self, now: int) -> float:
        """Simulated seconds since it began."""
        return (now - self.place.begins_at) * self.speed / 1000

    def end(self) -> End | None:
        """How and when it ends, as far as that is known."""
        return self._end

    def stop(self, at: int) -> None:
        """Ask it to end then; an earlier wish stands."""
        self.stop_at = at if self.stop_at is None else min(self.stop_at, at)
        self._look_ahead()

    def lose(self, fault: Fault) -> None:
        self.lost = self.lost or fault
        self._look_ahead()

    def due(self, now: int) -> int | None:
        """When something about it changes next."""
        self._go_on(now)
        end = self.end()
        times = [self.place.begins_at, self._run_at]
        times += [end.at] if end is not None else []
        times += [self._crash_at] if self._crash_at is not None else []
        return min((at for at in times if at > now and (end is None or at <= end.at)), default=None)

    def seen(self, now: int) -> PodSeen:
        """The pod as `observe` reports it."""
        self._go_on(now)
        end = self.end()
        over = end if end is not None and end.at <= now else None
        up = self._run_at <= now and over is None
        attempt, place = self.attempt, self.place
        return PodSeen(
            uid=place.uid,
            name=place.name,
            workload_uid=attempt.workload_uid,
            attempt=attempt.attempt,
            revision=attempt.revision,
            node=place.node,
            phase=over.phase if over else PodPhase.RUNNING if self.begun(now) else PodPhase.PENDING,
            ready=up,
            exit_code=over.exit_code if over else None,
            signal=over.signal if over else None,
            message=over.message if over else "" if up or not self.restarts else "It ended and starts again soon.",
            restarts=self.restarts,
            port=place.port,
            started_at=place.begins_at if self.begun(now) else None,
            ended_at=over.at if over else None,
        )

    def _look_ahead(self) -> None:
        ends = [each for each in (self._lost(), self._stopped(), self._natural()) if each is not None]
        self._end = min(ends, key=lambda end: end.at, default=None)

    def _ms(self, seconds: float) -> int:
        return round(seconds * 1000 / self.speed)

    def _lost(self) -> End | None:
        if self.lost is None:
            return None
        message = f"Simulated fault of {self.place.node}: {self.lost.message}."
        return End(self.lost.from_at, PodPhase.LOST, message=message, begun=self.place.begins_at <= self.lost.from_at)

    def _stopped(self) -> End | None:
        if self.stop_at is None:
            return None
        if self.stop_at < self.place.begins_at:
            return End(self.stop_at, PodPhase.FAILED, message="It was stopped before it began.", begun=False)
        takes = self._ms(dice(self.story.key, self.uid, "stop").uniform(0.1, 1.5))
        return End(self.stop_at + takes, PodPhase.FAILED, 128 + TERM, TERM, "The command was ended by signal 15.")

    def _natural(self) -> End | None:
        seconds, code = self.story.run_seconds, self.story.exit_code
        if seconds is None or self.attempt.restart:
            return None
        at = self.place.begins_at + self._ms(seconds)
        if code == 0:
            return End(at, PodPhase.SUCCEEDED, 0)
        if self.place.rank != self.story.failing_rank:
            waited = at + self._ms(WATCHDOG_SECONDS)
            return End(waited, PodPhase.FAILED, 128 + ABORT, ABORT, "The command was ended by signal 6.")
        if code == OUT_OF_MEMORY:
            needed = f"It needed more memory than the {spoken_bytes(self.attempt.memory_bytes)} it asked for."
            return End(at, PodPhase.FAILED, OUT_OF_MEMORY, KILL, needed)
        return End(at, PodPhase.FAILED, code, None, f"The command ended with exit code {code}.")

    def _go_on(self, now: int) -> None:
        """Through all the runs of something that is kept up."""
        while self._crash_at is not None and self._crash_at <= now:
            end = self.end()
            if end is not None and end.at <= self._crash_at:
                return
            wait = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(self.restarts, 20))
            self.restarts += 1
            self._run_at = self._crash_at + max(1, round(wait / self.speed))
            self._crash_at = self._crash(self.restarts)

    def _crash(self, run: int) -> int | None:
        """When the run of this number ends by itself."""
        if self.story.run_seconds is not None:
            return self._run_at + max(1, self._ms(self.story.run_seconds))
        if not self.attempt.kind.rolls:
            return None
        days = dice(self.story.key, self.uid, "crash", run).expovariate(1 / CRASH_DAYS)
        return self._run_at + self._ms(days * 86_400)
