"""Workloads as those see them who watch a fleet: few words each, whoever they belong to."""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.workload import Phase


class Watched(Struct, frozen=True):
    """One workload. `kind` is a word, because clusters hold kinds of their own; `gpus` is milli-GPUs by model."""

    uid: str
    slug: str
    name: str
    kind: str
    namespace: str
    cluster_id: str
    engine: str
    phase: Phase
    attempt: int
    replicas: int
    started_at: int | None
    ended_at: int | None
    gpus: dict[str, int]


class WatchedSort(StrEnum):
    STARTED = "started_at"
    ENDED = "ended_at"


class WatchedQuery(Struct, frozen=True, kw_only=True):
    """`text` is a part of the name in any case; no phases are all of them."""

    text: str = ""
    kind: str = ""
    namespace: str = ""
    phases: tuple[Phase, ...] = ()
    cluster: str = ""
    sort: WatchedSort = WatchedSort.STARTED
    descending: bool = True

    @property
    def filters(self) -> bool:
        """Whether something is left out."""
        return bool(self.text or self.kind or self.namespace or self.phases or self.cluster)


class Facets(Struct, frozen=True):
    """What the workloads that there are can be told apart by; sorted."""

    namespaces: list[str]
    kinds: list[str]
