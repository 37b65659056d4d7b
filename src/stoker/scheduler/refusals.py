"""What is known not to fit: if an ask was refused, so is every ask that is at least as large in everything.

True for as long as room only shrinks, which it does while a plan is made.
"""

from collections.abc import Hashable

Ask = tuple[int, int, int, int]
"""GPUs, CPUs and memory of a pod, and the number of pods."""


class Refusals:
    """The smallest asks that were refused, for each set of circumstances."""

    __slots__ = ("_smallest",)

    def __init__(self) -> None:
        self._smallest: dict[Hashable, list[Ask]] = {}

    def cover(self, where: Hashable, ask: Ask) -> bool:
        """Whether this ask is known not to fit."""
        gpu, cpu, memory, replicas = ask
        for least in self._smallest.get(where, ()):
            if gpu >= least[0] and cpu >= least[1] and memory >= least[2] and replicas >= least[3]:
                return True
        return False

    def add(self, where: Hashable, ask: Ask) -> None:
        gpu, cpu, memory, replicas = ask
        kept = [
            least
            for least in self._smallest.get(where, ())
            if not (least[0] >= gpu and least[1] >= cpu and least[2] >= memory and least[3] >= replicas)
        ]
        self._smallest[where] = [ask, *kept]
