"""What workloads are called in a sentence, for someone who may not know of all of them."""

from collections.abc import Callable, Iterator, Mapping

from stoker.domain.workload import Workload

OTHER = "a workload of another workspace"


class Names(Mapping[str, str]):
    """Slugs by uid; a workload that must not be named is called one of another workspace."""

    def __init__(self, workloads: Mapping[str, Workload], may_name: Callable[[Workload], bool]) -> None:
        self._workloads = workloads
        self._may_name = may_name

    def __getitem__(self, uid: str) -> str:
        workload = self._workloads[uid]
        return workload.slug if self._may_name(workload) else OTHER

    def __iter__(self) -> Iterator[str]:
        return iter(self._workloads)

    def __len__(self) -> int:
        return len(self._workloads)


def names_for(workload: Workload, workloads: Mapping[str, Workload]) -> Names:
    """As the members of its workspace may read them."""
    return Names(workloads, lambda other: other.workspace_id == workload.workspace_id)
