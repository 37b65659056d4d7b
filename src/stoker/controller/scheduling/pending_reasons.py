"""Why workloads wait, said again now and then.

A reason is told at once for what has just begun to wait. For the others it may change whenever anything does; they
are gone through in turn, so many at a time, so that a long queue costs no more than a short one.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from msgspec import structs

from stoker.domain.naming import names_for
from stoker.domain.workload import Wait
from stoker.scheduler import Plan
from stoker.scheduler.view import View

AT_ONCE = 200
PAUSE_MS = 1_000
"""Between two parts of a queue that is too long to be gone through at once."""


class Waits:
    def __init__(self) -> None:
        self._new: OrderedDict[str, None] = OrderedDict()
        self._turn: list[str] = []
        self._again = True
        self._last_at = 0

    def begin(self) -> None:
        """All reasons are to be said anew."""
        self._again = True

    def take(self, uids: Iterable[str]) -> None:
        """These wait, or wait otherwise than before; what others wait for may be different with that."""
        self._new.update(dict.fromkeys(uids))
        self._again = True

    def to_say(self, view: View, made: Plan, now: int) -> dict[str, Wait]:
        """The reasons that are not what is already written, for the new ones and for those whose turn it is."""
        if len(view.waiting) <= AT_ONCE:
            uids = list(view.waiting) if self._again else []
            self._new, self._turn, self._again = OrderedDict(), [], False
        else:
            uids = self._first()
            if now >= self._last_at + PAUSE_MS:
                self._last_at = now
                uids += self._next(view)
        known = view.workloads
        said = {
            uid: Wait(wait.reason.code, wait.reason.sentence(names_for(known[uid], known)))
            for uid in uids
            if uid in view.waiting and (wait := made.waits.get(uid)) is not None
        }
        return {uid: why for uid, why in said.items() if Wait(known[uid].waiting_code, known[uid].waiting) != why}

    def said(self, view: View, reasons: Mapping[str, Wait]) -> None:
        """These are written."""
        for uid, why in reasons.items():
            view.workloads[uid] = structs.replace(view.workloads[uid], waiting=why.sentence, waiting_code=why.code)

    def again_at(self, now: int) -> int | None:
        """When the next ones are to be told, though nothing happens."""
        return now + PAUSE_MS if self._new or self._turn or self._again else None

    def _first(self) -> list[str]:
        found = list(itertools.islice(self._new, AT_ONCE))
        for uid in found:
            del self._new[uid]
        return found

    def _next(self, view: View) -> list[str]:
        """Those whose turn it is; when all have had theirs, it begins again if there was something new."""
        if not self._turn and self._again:
            self._turn, self._again = list(reversed(view.waiting)), False
        found = self._turn[-AT_ONCE:]
        del self._turn[-AT_ONCE:]
        return found
