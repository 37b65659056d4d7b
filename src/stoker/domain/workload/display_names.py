"""Names of workloads in messages; a reader does not learn the names of workloads it may not see."""

from collections.abc import Callable, Iterator, Mapping

from stoker.domain.workload.model import Workload

HIDDEN_WORKLOAD_NAME = "a workload of another workspace"


class DisplayNames(Mapping[str, str]):
    """Slugs by uid; hidden workloads get a generic name."""

    def __init__(self, workloads: Mapping[str, Workload], is_visible: Callable[[Workload], bool]) -> None:
        self._workloads = workloads
        self._is_visible = is_visible

    def __getitem__(self, uid: str) -> str:
        workload = self._workloads[uid]
        return workload.slug if self._is_visible(workload) else HIDDEN_WORKLOAD_NAME

    def __iter__(self) -> Iterator[str]:
        return iter(self._workloads)

    def __len__(self) -> int:
        return len(self._workloads)


def display_names_for(workload: Workload, workloads: Mapping[str, Workload]) -> DisplayNames:
    """The names that members of the workload's workspace may see."""
    return DisplayNames(workloads, lambda other: other.workspace_id == workload.workspace_id)
