"""A cache of requests that do not fit: every request at least as large in all resources does not fit either.

This holds while free capacity only shrinks, which is the case during a cycle.
"""

from collections.abc import Hashable

RequestVector = tuple[int, int, int, int]
"""GPUs, CPUs and memory of a pod, and the number of pods."""


class UnschedulableCache:
    """The minimal requests that did not fit, by kind of capacity and scope of the search."""

    __slots__ = ("_minimal_requests",)

    def __init__(self) -> None:
        self._minimal_requests: dict[Hashable, dict[Hashable, list[RequestVector]]] = {}

    def copy(self) -> "UnschedulableCache":
        other = UnschedulableCache()
        other._minimal_requests = {
            kind: requests_by_scope.copy() for kind, requests_by_scope in self._minimal_requests.items()
        }
        return other

    def covers(self, kind: Hashable, scope: Hashable, request: RequestVector) -> bool:
        """Whether this request is known not to fit."""
        requests_by_scope = self._minimal_requests.get(kind)
        if requests_by_scope is None:
            return False
        gpu, cpu, memory, replicas = request
        for minimal in requests_by_scope.get(scope, ()):
            if gpu >= minimal[0] and cpu >= minimal[1] and memory >= minimal[2] and replicas >= minimal[3]:
                return True
        return False

    def add(self, kind: Hashable, scope: Hashable, request: RequestVector) -> None:
        requests_by_scope = self._minimal_requests.setdefault(kind, {})
        gpu, cpu, memory, replicas = request
        remaining = [
            minimal
            for minimal in requests_by_scope.get(scope, ())
            if not (minimal[0] >= gpu and minimal[1] >= cpu and minimal[2] >= memory and minimal[3] >= replicas)
        ]
        requests_by_scope[scope] = [request, *remaining]

    def invalidate(self, kind: Hashable) -> None:
        """Forget the requests of one kind of capacity, which may have grown."""
        self._minimal_requests.pop(kind, None)
