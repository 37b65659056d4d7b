"""The `filterBy` grammar: field, operator and value; several filters are joined by commas.

A value may contain commas, so a comma separates filters only if a field and an operator follow it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from stoker.api.http.validation import quote_value
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import StokerError, bad_request
from stoker.domain.queries.filters import FILTER_BY_OPERATORS, FilterOperator, FilterValue
from stoker.domain.queries.workload_query import NUMERIC_FIELDS, TIME_FIELDS, WorkloadField, WorkloadFilter
from stoker.domain.workload.phase import Phase

FIELD_BY_NAME = {
    "type": WorkloadField.KIND,
    "name": WorkloadField.NAME,
    "clusterId": WorkloadField.CLUSTER_ID,
    "projectId": WorkloadField.WORKSPACE_ID,
    "projectName": WorkloadField.WORKSPACE,
    "departmentId": WorkloadField.DEPARTMENT_ID,
    "departmentName": WorkloadField.DEPARTMENT,
    "createdAt": WorkloadField.CREATED_AT,
    "deletedAt": WorkloadField.DELETED_AT,
    "submittedBy": WorkloadField.USER_NAME,
    "phase": WorkloadField.PHASE,
    "completedAt": WorkloadField.ENDED_AT,
    "nodepool": WorkloadField.NODE_POOLS,
    "distributedFramework": WorkloadField.FRAMEWORK,
    "allocatedGPU": WorkloadField.ALLOCATED_GPUS,
    "idleGpus": WorkloadField.IDLE_GPUS,
    "idleAllocatedGpus": WorkloadField.IDLE_ALLOCATED_GPUS,
    "phaseUpdatedAt": WorkloadField.PHASE_AT,
    "category": WorkloadField.CATEGORY,
    "priority": WorkloadField.PRIORITY,
    "totalPendingTimeSeconds": WorkloadField.PENDING_SECONDS,
    "totalRunningTimeSeconds": WorkloadField.RUNNING_SECONDS,
    "priorityClassName": WorkloadField.PRIORITY_CLASS,
    "guaranteedRuntimeEndsAt": WorkloadField.GUARANTEED_UNTIL,
    "aiApplicationId": WorkloadField.APPLICATION_ID,
    "aiApplicationName": WorkloadField.APPLICATION,
}
NAME_BY_FIELD = {field: word for word, field in FIELD_BY_NAME.items()}
MAX_NUMBER = 2**53
MAX_FILTERS = 100
_OPERATORS = "|".join(re.escape(operator.value) for operator in FILTER_BY_OPERATORS)
FILTER_PATTERN = re.compile(rf"(?P<field>\w+)(?P<operator>{_OPERATORS})(?P<value>.+)", re.DOTALL)
"""One filter on a field of any list."""
PHASE_NAMES = tuple(dict.fromkeys(str(phase.displayed) for phase in Phase))
_FILTER_START = re.compile(rf"({'|'.join(FIELD_BY_NAME)})({_OPERATORS})")
_UNENCODED_PLUS = re.compile(r" (?=\d\d:?\d\d\Z)")


def parse_filters(given: Sequence[str]) -> tuple[WorkloadFilter, ...]:
    """All filters of a request, from all repetitions of the parameter."""
    return tuple(_parse_filter(part) for part in split_filters(given, FIELD_BY_NAME))


def split_filters(given: Sequence[str], fields: Iterable[str]) -> list[str]:
    """The text of each filter, given the names of the fields."""
    joint = re.compile(rf",\s*(?=(?:{'|'.join(fields)})(?:{_OPERATORS}))")
    found = [part.lstrip() for text in given for part in _split_at(text, joint)]
    if len(found) > MAX_FILTERS:
        raise bad_request("filterBy", f"there are {len(found)} filters, and {MAX_FILTERS} are the most.")
    return found


def restore_plus(time: str) -> str:
    """Restore the plus sign of a time offset that was sent without URL encoding."""
    return _UNENCODED_PLUS.sub("+", time.strip())


def _split_at(text: str, joint: re.Pattern[str]) -> Iterator[str]:
    begin = 0
    for found in joint.finditer(text):
        yield text[begin : found.start()]
        begin = found.end()
    yield text[begin:]


def _parse_filter(text: str) -> WorkloadFilter:
    head = _FILTER_START.match(text)
    value = text[head.end() :] if head else ""
    if head is None or not value:
        raise bad_request(
            "filterBy",
            f"{quote_value(text)} is not a filter. Use a field, an operator and a value, for example "
            f'"phase==Running". Fields are {", ".join(FIELD_BY_NAME)}; '
            f"operators are {' '.join(operator.value for operator in FILTER_BY_OPERATORS)}.",
        )
    word, operator = head[1], FilterOperator(head[2])
    return WorkloadFilter(FIELD_BY_NAME[word], operator, _parse_value(word, operator, value))


def _parse_value(word: str, operator: FilterOperator, text: str) -> FilterValue:
    field = FIELD_BY_NAME[word]
    if field in TIME_FIELDS:
        if operator.is_text_match:
            raise _invalid_filter(word, operator, "a time is compared by ==, !=, <= and >= only")
        at = parse_rfc3339(restore_plus(text))
        if at is None:
            raise _invalid_filter(
                word, operator, f'{quote_value(text)} is not a time. Use RFC 3339, such as "2027-01-31T08:00:00Z"'
            )
        return at
    if field in NUMERIC_FIELDS and not operator.is_text_match:
        return _parse_number(word, operator, text)
    if (
        field is WorkloadField.PHASE
        and operator in {FilterOperator.EQUAL, FilterOperator.NOT_EQUAL}
        and text not in PHASE_NAMES
    ):
        raise _invalid_filter(word, operator, f"{quote_value(text)} is not a phase. Use {', '.join(PHASE_NAMES)}")
    return text


def _parse_number(word: str, operator: FilterOperator, text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < MAX_NUMBER:
        raise _invalid_filter(
            word, operator, f'{quote_value(text)} is not a number that can be compared. Use one such as "2"'
        )
    return int(value) if value.is_integer() else value


def _invalid_filter(word: str, operator: FilterOperator, why: str) -> StokerError:
    return bad_request("filterBy", f"{word}{operator.value}: {why}.")
