"""Has engines do what the intent of workloads asks for.

A workload that may need attention is `touched`; it is then settled, and an engine is asked for what is left to do.
Nothing depends on having seen every step: after a crash everything is touched once, and goes on from what is written.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from stoker.controller.alarms import Alarms
from stoker.controller.dispatch import succeed
from stoker.controller.effects import GRACE_SECONDS, order_of
from stoker.controller.judge import End, LetGo, Start, Step, Succeed, judge, next_look
from stoker.controller.lease import LeaseLostError, still_ours
from stoker.controller.logs import LogCollector
from stoker.controller.observe import record_missing
from stoker.controller.settle import Settled, State, happen, read_states, settle
from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.events import Event, StartDelayed, StartRefused
from stoker.domain.lifecycle import transition
from stoker.domain.names import Randomness
from stoker.domain.node import Node
from stoker.domain.workload import Pod, Workload
from stoker.engines.base import FOR_GOOD, Engine
from stoker.engines.failpoints import failpoint
from stoker.store import nodes, pods, workloads
from stoker.store.base import FEW, Store, Transaction, reading, writing
from stoker.store.nodes import NOTHING_KNOWN, Known

WORKERS = 16
AT_ONCE = FEW
"""How many workloads are looked at together."""
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 60.0
REMEMBERED = 20_000
"""Of so many workloads it is known which version was settled last."""

log = logging.getLogger("stoker.controller")


class Reconciler:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        cluster_id: str,
        clock: Clock,
        logs: LogCollector,
        randomness: Randomness,
        moved: Callable[[Iterable[str]], None],
    ) -> None:
        self._store = store
        self._engine = engine
        self._cluster_id = cluster_id
        self._clock = clock
        self._logs = logs
        self._randomness = randomness
        self._moved = moved
        self._touched: OrderedDict[str, None] = OrderedDict()  # a dict is slow where its first entries were taken
        self._busy: dict[str, bool] = {}
        """What is being brought on, and whether it was touched meanwhile."""
        self._due = asyncio.Event()
        self._work: asyncio.Queue[Settled] = asyncio.Queue()
        self._nodes: Known = NOTHING_KNOWN
        self._started: dict[str, tuple[int, int, frozenset[str]]] = {}
        self._ended: dict[str, int] = {}
        self._refusals: dict[str, int] = {}
        self._versions: OrderedDict[str, int] = OrderedDict()
        self.alarms = Alarms()
        self.had: set[str] = set()
        """The pods the engine reports."""

    def touch(self, uids: Iterable[str]) -> None:
        """These workloads may need attention."""
        for uid in uids:
            if uid in self._busy:
                self._busy[uid] = True
            else:
                self._touched[uid] = None
        if self._touched:
            self._due.set()

    def take(self, settled: Iterable[Settled]) -> None:
        """Workloads that were just settled: have done what is left to do."""
        now = self._clock.now()
        for each in settled:
            workload = each.state.workload
            self.alarms.set(workload.uid, next_look(workload, now))
            self._versions[workload.uid] = workload.version
            if each.step is None:
                continue
            if workload.uid in self._busy:
                self.touch([workload.uid])
            else:
                self._busy[workload.uid] = workload.uid in self._touched
                self._touched.pop(workload.uid, None)
                self._work.put_nowait(each)
        while len(self._versions) > REMEMBERED:
            self._versions.popitem(last=False)

    def begin(self, states: Collection[State]) -> None:
        """Workloads that were just given pods: have them run."""
        now = self._clock.now()
        whole = [state for state in states if state.pods]
        self.take(Settled(state, True, judge(state.workload, state.pods, self.had, now)) for state in whole)
        self.touch(state.workload.uid for state in states if not state.pods)

    def knows(self, uid: str, version: int) -> bool:
        """Whether this version of a workload was settled here."""
        return self._versions.get(uid) == version

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            for _ in range(WORKERS):
                group.create_task(self._serve())

    async def _look(self) -> None:
        """Settle what was touched, many at a time."""
        while True:
            await self._due.wait()
            self._due.clear()
            uids = list(itertools.islice(self._touched, AT_ONCE))
            for uid in uids:
                del self._touched[uid]
            if self._touched:
                self._due.set()
            try:
                self.take(await self._settle(uids))
            except LeaseLostError:
                raise
            except Exception as error:
                _complain(f"{len(uids)} workloads could not be looked at", error)
                self._later(FIRST_PAUSE_SECONDS, uids)

    async def _settle(self, uids: Collection[str]) -> list[Settled]:
        states, self._nodes = await reading(self._store, len(uids))(
            lambda tx: (
                read_states(tx, self._cluster_id, uids),
                nodes.known(tx, self._cluster_id, self._nodes),
            )
        )
        now = self._clock.now()
        settled: list[Settled] = []
        unsettled: dict[str, int] = {}
        found = (state.workload for state in states)
        if news := [each.uid for each in found if not self.knows(each.uid, each.version)]:
            self._moved(news)  # once they are known here, others who hear of the change pass it over
        for state in states:
            changes, step = happen(state, self.had, now)
            if changes:
                unsettled[state.workload.uid] = len(state.pods)
            else:
                settled.append(Settled(state, False, step))
        if unsettled:
            write = writing(self._store, sum(unsettled.values()))
            settled += await write(lambda tx: settle(tx, read_states(tx, self._cluster_id, unsettled), self.had, now))
            self._moved(unsettled)
        return settled

    async def _serve(self) -> None:
        """Have done what is left to do, one workload at a time."""
        while True:
            settled = await self._work.get()
            workload, step = settled.state.workload, settled.step
            again = False
            try:
                if not self._busy[workload.uid]:  # what was touched since is settled anew
                    again = step is not None and await self._act(settled.state, step)
                    self._refusals.pop(workload.uid, None)
            except LeaseLostError:
                raise
            except Exception as error:
                _complain(f"workload {workload.slug} could not be brought on", error)
                refusals = self._refusals[workload.uid] = self._refusals.get(workload.uid, 0) + 1
                self._later(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (refusals - 1)), [workload.uid])
            finally:
                touched = self._busy.pop(workload.uid)
                self.touch([workload.uid] if again or touched else [])

    def _later(self, seconds: float, uids: Collection[str]) -> None:
        asyncio.get_running_loop().call_later(seconds, self.touch, uids)

    async def _act(self, state: State, step: Step) -> bool:
        """Take one step; True when the workload has to be settled again at once."""
        workload = state.workload
        match step:
            case Start(wanted):
                return await self._start(state, wanted)
            case Succeed(followed):
                at = self._clock.now()
                await self._store.write(lambda tx: succeed(tx, workload, followed, at, self._randomness))
                self._moved([workload.uid])
                return True
            case End(never_had):
                return await self._end(workload, never_had)
            case LetGo():
                await self._let_go(state)
                return False
            case _:
                return False

    async def _start(self, state: State, wanted: Sequence[Pod]) -> bool:
        """Have the engine run these; True when something has come of it that is to be settled."""
        workload = state.workload
        version = (workload.attempt, workload.revision, frozenset(pod.uid for pod in wanted))
        if not wanted or self._started.get(workload.uid) == version:
            return False
        try:
            await self._engine.apply(order_of(workload, wanted, await self._nodes_of(wanted)))
        except StokerError as error:
            if error.code in FOR_GOOD:
                self._started[workload.uid] = version
                await self._refused(state, wanted, error)
                return True
            await self._delayed(workload, wanted, error.message)
            raise
        except Exception:
            await self._delayed(workload, wanted, "Something unexpected happened; the server's log has more.")
            raise
        failpoint("controller.applied")
        self._started[workload.uid] = version
        others = [pod for pod in state.pods if not pod.phase.ended and pod.uid not in version[2]]
        never = [pod for pod in others if pod.uid not in self.had and not await self._engine_has(pod)]
        return await self._miss(workload, never, "it was replaced before it began")

    async def _nodes_of(self, wanted: Iterable[Pod]) -> Mapping[str, Node]:
        if any(pod.node not in self._nodes.nodes for pod in wanted):
            self._nodes = await self._store.peek(lambda tx: nodes.known(tx, self._cluster_id, self._nodes))
        return self._nodes.nodes

    async def _delayed(self, workload: Workload, wanted: Sequence[Pod], reason: str) -> None:
        """Say what keeps its pods from starting."""
        message = f"its pods cannot be started yet: {reason}"
        event = StartDelayed(self._clock.now(), message)

        def change(transaction: Transaction) -> None:
            pods.set_reason(transaction, [pod.uid for pod in wanted], message)
            _go_through(transaction, workload, event)

        await self._store.write(change)
        self._moved([workload.uid])

    async def _refused(self, state: State, wanted: Sequence[Pod], error: StokerError) -> None:
        """The engine will never start these: what does not run all the same is over."""
        alive = [pod for pod in state.pods if not pod.phase.ended]
        left = {pod.uid for pod in alive if pod.uid in self.had or await self._engine_has(pod)}
        message = f"its pods cannot be started: {error.message}"
        event = StartRefused(self._clock.now(), message, bool(left))

        def change(transaction: Transaction) -> None:
            pods.set_reason(transaction, [pod.uid for pod in wanted if pod.uid not in left], message)
            if not left:
                record_missing(transaction, self._cluster_id, alive, event.at, message)
            _go_through(transaction, state.workload, event)

        await self._store.write(change)
        self._moved([state.workload.uid])

    async def _engine_has(self, pod: Pod) -> bool:
        """Asks the engine itself: what it reports may be on its way."""
        try:
            await self._engine.logs(pod.uid, 0, 1)
        except StokerError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return False
            raise
        return True

    async def _end(self, workload: Workload, never_had: Sequence[Pod]) -> bool:
        """Ask the engine to end the attempt; True when pods it never had are over with that."""
        if self._ended.get(workload.uid) == workload.attempt and not never_had:
            return False
        await self._store.peek(still_ours)
        there = await self._engine.remove(workload.uid, workload.attempt, GRACE_SECONDS)
        failpoint("controller.removed")
        self._ended[workload.uid] = workload.attempt
        return await self._miss(
            workload, [pod for pod in never_had if pod.uid not in there], "it was ended before it began"
        )

    async def _miss(self, workload: Workload, never: Sequence[Pod], message: str) -> bool:
        """Pods that the engine will never have are over."""
        if not never:
            return False
        at = self._clock.now()
        await self._store.write(lambda tx: record_missing(tx, self._cluster_id, never, at, message))
        self._moved([workload.uid])
        return True

    async def _let_go(self, state: State) -> None:
        """Keep what its pods printed, of every attempt, and then let the engine forget them."""
        workload, every = state.workload, state.pods
        self._started.pop(workload.uid, None)
        self._ended.pop(workload.uid, None)
        if workload.deleted_at is not None:
            failpoint("controller.discarding")
            await self._discard(workload)
        if workload.attempt > 1:
            every = await self._store.read(lambda tx: pods.of_workload(tx, workload.uid))
        held = [pod for pod in every if pod.uid in self.had]
        if held:
            await self._logs.finish(held)
            failpoint("controller.logs-kept")
            for attempt in sorted({pod.attempt for pod in held}):
                await self._engine.forget(workload.uid, attempt)
            failpoint("controller.forgotten")

    async def _discard(self, workload: Workload) -> None:
        try:
            await self._engine.discard(workload.slug)
        except OSError as error:
            log.warning("what workload %s left behind could not be removed: %s", workload.slug, error)


def _go_through(transaction: Transaction, planned: Workload, event: Event) -> None:
    """Let this happen to the attempt that was meant, if it still is the present one."""
    workload = workloads.find(transaction, planned.uid)
    if workload is None or (workload.attempt, workload.revision) != (planned.attempt, planned.revision):
        return
    if (change := transition(workload, event)) is not None:
        workloads.apply(transaction, workload, change)


def _complain(what: str, error: Exception) -> None:
    if isinstance(error, StokerError):
        log.warning("%s: %s", what, error.message)
    else:
        log.error("%s", what, exc_info=error)
