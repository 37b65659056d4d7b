"""`IN` finds what the equality filters find one by one, for every field and however the workloads are read."""

import pytest
from tests.contract.runai.harness import RunaiHarness
from tests.contract.runai.many_workloads import settle

from stoker.domain.queries.filters import FilterOperator
from stoker.domain.queries.pages import PageRequest
from stoker.domain.queries.workload_query import WorkloadField, WorkloadFilter, WorkloadQuery, WorkloadSort
from stoker.domain.queries.workload_records import WorkloadRecord
from stoker.store.workloads import summaries
from stoker.store.workloads.query import candidates, pages

VALUES = {
    WorkloadField.KIND: ("Job", "Deployment"),
    WorkloadField.NAME: ("resnet-0", "bert-1", "nothing"),
    WorkloadField.NAMESPACE: ("vision", "nowhere"),
    WorkloadField.WORKSPACE: ("vision", "audio"),
    WorkloadField.PHASE: ("Running", "Failed"),
    WorkloadField.PRIORITY: (80, 125),
    WorkloadField.CATEGORY: ("Training", "Workspace"),
    WorkloadField.ALLOCATED_GPUS: (0.5, 1),
    WorkloadField.IDLE_GPUS: (0, 1),
    WorkloadField.GPUS: (1, 7),
    WorkloadField.DESCRIPTION: ("", "nothing"),
    WorkloadField.RUNNING_SECONDS: (0, 11),
}


@pytest.mark.parametrize("limit", [12_000, 0])
def test_in_finds_the_union_of_the_equality_filters(
    harness: RunaiHarness, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(candidates, "MIN_CANDIDATE_LIMIT", limit)
    monkeypatch.setattr(candidates, "MAX_CANDIDATE_LIMIT", limit)
    settle(harness)
    created = [record.workload.submitted_at for record in _found(harness)][:3]
    slugs = [record.workload.slug for record in _found(harness)][:3]
    users = sorted({record.workload.user_id for record in _found(harness)})[:2]
    own_values = {
        WorkloadField.CREATED_AT: tuple(created),
        WorkloadField.SLUG: tuple(slugs),
        WorkloadField.USER_ID: tuple(users),
    }
    for field, values in {**VALUES, **own_values}.items():
        together = _uids(harness, WorkloadFilter(field, FilterOperator.IN, values))
        one_by_one = [_uids(harness, WorkloadFilter(field, FilterOperator.EQUAL, value)) for value in values]
        assert together == set().union(*one_by_one), field
        assert _uids(harness, WorkloadFilter(field, FilterOperator.IN, ())) == set(), field
    assert len(_uids(harness, WorkloadFilter(WorkloadField.SLUG, FilterOperator.IN, tuple(slugs)))) == len(slugs)
    assert _uids(harness, WorkloadFilter(WorkloadField.USER_ID, FilterOperator.IN, tuple(users)))


def _uids(harness: RunaiHarness, condition: WorkloadFilter) -> set[str]:
    return {record.workload.uid for record in _found(harness, condition)}


def _found(harness: RunaiHarness, *filters: WorkloadFilter) -> list[WorkloadRecord]:
    query = WorkloadQuery(filters=filters, sort=WorkloadSort(WorkloadField.STARTED_AT, descending=True))
    now = harness.clock.now()
    found, _ = harness.run(
        harness.installation.store.read(
            lambda tx: pages.fetch_slice(tx, query, PageRequest(0, 100), now, summaries.read_summaries)
        )
    )
    return found
