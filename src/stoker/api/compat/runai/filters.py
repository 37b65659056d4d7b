"""`filterBy`: a field, an operator and a value, many of them joined by commas.

A value may hold commas itself, so only a comma before another field and operator divides."""

import re
from collections.abc import Iterable, Iterator, Sequence

from stoker.api.wording import shown
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import StokerError, bad_request
from stoker.domain.inventory import NUMBERS, TIMES, Field, Filter, Operator, Value
from stoker.domain.workload import Phase

FIELDS = {
    "type": Field.KIND,
    "name": Field.NAME,
    "clusterId": Field.CLUSTER,
    "projectId": Field.WORKSPACE_ID,
    "projectName": Field.WORKSPACE,
    "departmentId": Field.DEPARTMENT_ID,
    "departmentName": Field.DEPARTMENT,
    "createdAt": Field.CREATED,
    "deletedAt": Field.DELETED,
    "submittedBy": Field.USER,
    "phase": Field.PHASE,
    "completedAt": Field.ENDED,
    "nodepool": Field.POOLS,
    "distributedFramework": Field.FRAMEWORK,
    "allocatedGPU": Field.ALLOCATED,
    "idleGpus": Field.IDLE_WHOLE,
    "idleAllocatedGpus": Field.IDLE,
    "phaseUpdatedAt": Field.PHASE_CHANGED,
    "category": Field.CATEGORY,
    "priority": Field.PRIORITY,
    "totalPendingTimeSeconds": Field.PENDING,
    "totalRunningTimeSeconds": Field.RUNNING,
    "priorityClassName": Field.PRIORITY_CLASS,
    "guaranteedRuntimeEndsAt": Field.GUARANTEED,
    "aiApplicationId": Field.APPLICATION_ID,
    "aiApplicationName": Field.APPLICATION,
}
WORDS = {field: word for word, field in FIELDS.items()}
LARGEST = 2**53
MOST = 100
_OPERATORS = "|".join(re.escape(operator.value) for operator in Operator)
_BEGIN = re.compile(rf"({'|'.join(FIELDS)})({_OPERATORS})")
_LOST_PLUS = re.compile(r" (?=\d\d:?\d\d\Z)")


def parse_filters(given: Sequence[str]) -> tuple[Filter, ...]:
    """All the filters of a request, however often and in however many pieces they were sent."""
    return tuple(_filter(part) for part in filters_in(given, FIELDS))


def filters_in(given: Sequence[str], fields: Iterable[str]) -> list[str]:
    """The texts of all filters, one by one, where these are the fields."""
    joint = re.compile(rf",\s*(?=(?:{'|'.join(fields)})(?:{_OPERATORS}))")
    found = [part.lstrip() for text in given for part in _parts(text, joint)]
    if len(found) > MOST:
        raise bad_request("filterBy", f"there are {len(found)} filters, and {MOST} are the most.")
    return found


def with_plus(time: str) -> str:
    """A time whose offset was sent without encoding its plus."""
    return _LOST_PLUS.sub("+", time.strip())


def _parts(text: str, joint: re.Pattern[str]) -> Iterator[str]:
    begin = 0
    for found in joint.finditer(text):
        yield text[begin : found.start()]
        begin = found.end()
    yield text[begin:]


def _filter(text: str) -> Filter:
    head = _BEGIN.match(text)
    value = text[head.end() :] if head else ""
    if head is None or not value:
        raise bad_request(
            "filterBy",
            f"{shown(text)} is not a filter. Use a field, an operator and a value, for example "
            f'"phase==Running". Fields are {", ".join(FIELDS)}; operators are {" ".join(o.value for o in Operator)}.',
        )
    word, operator = head[1], Operator(head[2])
    return Filter(FIELDS[word], operator, _value(word, operator, value))


def _value(word: str, operator: Operator, text: str) -> Value:
    field = FIELDS[word]
    if field in TIMES:
        if operator.on_text:
            raise _refused(word, operator, "a time is compared by ==, !=, <= and >= only")
        at = parse_rfc3339(with_plus(text))
        if at is None:
            raise _refused(word, operator, f'{shown(text)} is not a time. Use RFC 3339, such as "2027-01-31T08:00:00Z"')
        return at
    if field in NUMBERS and not operator.on_text:
        return _number(word, operator, text)
    if field is Field.PHASE and operator in {Operator.EQUAL, Operator.NOT_EQUAL} and text not in set(Phase):
        raise _refused(word, operator, f"{shown(text)} is not a phase. Use {', '.join(Phase)}")
    return text


def _number(word: str, operator: Operator, text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < LARGEST:
        raise _refused(word, operator, f'{shown(text)} is not a number that can be compared. Use one such as "2"')
    return int(value) if value.is_integer() else value


def _refused(word: str, operator: Operator, why: str) -> StokerError:
    return bad_request("filterBy", f"{word}{operator.value}: {why}.")
