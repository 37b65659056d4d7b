"""Every filter, every order and every page, however few or many workloads there seem to be: a list is found in
several ways, and all of them give the same."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.runai.harness import RunaiHarness
from tests.contract.runai.many_workloads import DATES, FIELDS, OPERATORS, means, ordered, sample, settle, trials
from tests.postgres import DatabasePool

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def crowd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunaiHarness]:
    """One on each kind of database; the tests only read."""
    with ExitStack() as stack:
        url = ""
        if request.param == "postgres":
            pool: DatabasePool = request.getfixturevalue("database_pool")
            url = stack.enter_context(pool.database())
        harness = RunaiHarness(tmp_path_factory.mktemp("crowd") / "data", url, explain_rate_limit=0)
        stack.enter_context(harness)
        harness.add_staff()
        settle(harness)
        yield harness


def test_every_operator_on_every_field_means_what_it_says(crowd: RunaiHarness, few: int) -> None:
    rows = crowd.rows()
    assert len(rows) > 20
    for field, operator, text in trials(rows):
        asked = f"{field}{operator}{text}"
        expected = {row["id"] for row in rows if means(row, field, operator, text)}
        assert {row["id"] for row in crowd.rows(asked)} == expected, asked
        assert crowd.runai("/count", filterBy=asked) == {"count": len(expected)}, asked


def test_every_order_is_that_of_its_field_and_then_of_the_id(crowd: RunaiHarness, few: int) -> None:
    rows = crowd.rows()
    for field in FIELDS:
        for order in ("asc", "desc"):
            found = crowd.rows(sortBy=field, sortOrder=order, limit=11)
            expected = ordered(rows, field, descending=order == "desc")
            assert [row["id"] for row in found] == expected, (field, order)


def test_filters_together_with_orders_and_pages_are_those_of_plain_python(crowd: RunaiHarness, few: int) -> None:
    rows = crowd.rows()

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        filters, left = [], rows
        for _ in range(data.draw(st.integers(0, 3))):
            field = data.draw(st.sampled_from(FIELDS))
            operator = data.draw(st.sampled_from(OPERATORS[:4] if field in DATES else OPERATORS))
            text = data.draw(st.sampled_from(sample(rows, field, operator)))
            filters.append(f"{field}{operator}{text}")
            left = [row for row in left if means(row, field, operator, text)]
        sort, order = data.draw(st.sampled_from(FIELDS)), data.draw(st.sampled_from(("asc", "desc")))
        pages = crowd.rows(*filters, sortBy=sort, sortOrder=order, limit=data.draw(st.integers(1, 9)))
        assert [row["id"] for row in pages] == ordered(left, sort, descending=order == "desc"), (filters, sort, order)

    check()


def test_the_end_of_a_guarantee_is_shown_filtered_and_sorted_by_and_what_has_none_is_last(
    crowd: RunaiHarness, few: int
) -> None:
    field = "guaranteedRuntimeEndsAt"
    rows = crowd.rows()
    ends = sorted(row[field] for row in rows if row[field])
    assert len(ends) > len(set(ends)) > 2
    for order, expected in (("asc", ends), ("desc", ends[::-1])):
        found = [row[field] for row in crowd.rows(sortBy=field, sortOrder=order, limit=3)]
        assert found == [*expected, *[None] * (len(rows) - len(ends))]
    assert crowd.runai("/count", filterBy=f"{field}>={ends[1]}") == {"count": len(ends) - 1}
    assert crowd.runai("/count", filterBy=f"{field}!={ends[0]}") == {"count": len(rows) - 1}
    assert crowd.refused(filterBy=f"{field}=@2027").startswith("filterBy")
    assert crowd.rows(sortBy=field, deleted="true") == crowd.rows(deleted="true")


def test_search_finds_the_same_however_it_looks(crowd: RunaiHarness, few: int) -> None:
    rows = crowd.rows()
    for text in ("resnet", "vision", "outs", "job", "rocm", "default", rows[3]["id"][10:23], "nothing-like-it"):
        folded = text.casefold()
        expected = {
            row["id"]
            for row in rows
            if any(
                folded in part.casefold()
                for part in (
                    row["name"],
                    row["id"],
                    row["projectName"],
                    row["departmentName"],
                    row["submittedBy"],
                    row["type"],
                    *row["images"],
                )
            )
        }
        assert {row["id"] for row in crowd.rows(search=text)} == expected, text
        assert crowd.runai("/count", search=text) == {"count": len(expected)}, text
