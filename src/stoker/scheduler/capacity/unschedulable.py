"""What is known not to fit: if an ask was refused, so is every ask that is at least as large in everything.

True for as long as room only shrinks, which it does while a plan is made.
"""

from collections.abc import Hashable

Ask = tuple[int, int, int, int]
"""GPUs, CPUs and memory of a pod, and the number of pods."""


class Refusals:
    """The smallest asks that were refused, for each kind of room and each place it was looked for in."""

    __slots__ = ("_smallest",)

    def __init__(self) -> None:
        self._smallest: dict[Hashable, dict[Hashable, list[Ask]]] = {}

    def copy(self) -> "Refusals":
        other = Refusals()
        other._smallest = {kind: places.copy() for kind, places in self._smallest.items()}
        return other

    def cover(self, kind: Hashable, where: Hashable, ask: Ask) -> bool:
        """Whether this ask is known not to fit."""
        places = self._smallest.get(kind)
        if places is None:
            return False
        gpu, cpu, memory, replicas = ask
        for least in places.get(where, ()):
            if gpu >= least[0] and cpu >= least[1] and memory >= least[2] and replicas >= least[3]:
                return True
        return False

    def add(self, kind: Hashable, where: Hashable, ask: Ask) -> None:
        places = self._smallest.setdefault(kind, {})
        gpu, cpu, memory, replicas = ask
        kept = [
            least
            for least in places.get(where, ())
            if not (least[0] >= gpu and least[1] >= cpu and least[2] >= memory and least[3] >= replicas)
        ]
        places[where] = [ask, *kept]

    def forget(self, kind: Hashable) -> None:
        """There may be more room of a kind than there was."""
        self._smallest.pop(kind, None)
