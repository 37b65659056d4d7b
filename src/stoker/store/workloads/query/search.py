"""Free-text search in the name, id, workspace, department, user, kind and image of workloads.

The predicate and the list of uids match the same workloads.
"""

import re
from collections.abc import Iterator

from stoker.domain.queries.workload_query import WorkloadField
from stoker.store.db.base import Transaction
from stoker.store.workloads.query.fields import DELETED, GROUP_JOIN, GROUP_SOURCE, NOT_DELETED
from stoker.store.workloads.query.groups import GroupValues, group_values
from stoker.store.workloads.query.predicates import Predicate, in_list

DISTINCT_IMAGES = """
WITH RECURSIVE image (name) AS (
    SELECT MIN(search_image)
    FROM workload
    WHERE deleted_at IS NULL
    UNION ALL
    SELECT (SELECT MIN(search_image) FROM workload WHERE deleted_at IS NULL AND search_image > image.name)
    FROM image
    WHERE image.name IS NOT NULL
)
SELECT name
FROM image
LIMIT :images
"""  # index workload_by_image
MAX_IMAGES = 2_000
NAME_MATCHES = "instr(workload.name, :search) > 0"
IMAGE_MATCHES = "instr(workload.search_image, :search) > 0"
UID_MATCHES = "instr(workload.uid, :search) > 0"
_UID_PATTERN = re.compile(r"[0-9a-f-]+\Z")


def search_predicate(transaction: Transaction, text: str) -> Predicate:
    group_conditions, params = _group_conditions(transaction, text, "workload")
    conditions = [*group_conditions, NAME_MATCHES, IMAGE_MATCHES, *_uid_conditions(text)]
    return Predicate(f"({' OR '.join(conditions)})", {**params, "search": text.casefold()})


def search_uids(transaction: Transaction, text: str, limit: int, *, deleted: bool) -> list[str] | None:
    """The uids of all workloads that the text is found in; None when they are more than `limit`."""
    group_conditions, params = _group_conditions(transaction, text, "workload_count")
    condition = f"visibility = {2 if deleted else 0} AND ({' OR '.join(group_conditions)})"
    params |= {"search": text.casefold(), "few": limit + 1}
    row = transaction.fetch_one(f"SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE {condition}", params)
    if row is None or row[0] > limit or (deleted and row[0]):
        return None
    uids: dict[str, None] = {}
    if row[0]:
        source = f"{GROUP_SOURCE.format(condition=condition)} WHERE {GROUP_JOIN} AND {NOT_DELETED}"
        uids |= dict.fromkeys(row[0] for row in transaction.fetch_all(f"SELECT workload.uid FROM {source}", params))
    base_condition = DELETED if deleted else NOT_DELETED
    for predicate in _row_predicates(transaction, text, deleted=deleted):
        order = "ORDER BY workload.name" if predicate.covering else ""
        rows = transaction.fetch_all(
            f"SELECT workload.uid FROM workload WHERE {base_condition} AND {predicate.on_table()} {order} LIMIT :few",
            {**params, **predicate.params},
        )
        uids |= dict.fromkeys(row[0] for row in rows)
        if len(uids) > limit:
            return None
    return list(uids)


def _row_predicates(transaction: Transaction, text: str, *, deleted: bool) -> Iterator[Predicate]:
    """Predicates that each use one index: images, then names together with uids.

    Images come first because a common image exceeds the limit at once and a rare one costs little.
    """
    images = [] if deleted else transaction.fetch_all(DISTINCT_IMAGES, {"images": MAX_IMAGES})
    if deleted or len(images) >= MAX_IMAGES:
        yield Predicate(IMAGE_MATCHES)
    elif matching := [row[0] for row in images if row[0] is not None and text.casefold() in row[0]]:
        yield in_list("search_image", matching, "image")
    yield Predicate(f"({' OR '.join((NAME_MATCHES, *_uid_conditions(text)))})", covering=True)


def _uid_conditions(text: str) -> list[str]:
    """Uids are compared only with texts that can be a part of one."""
    return [UID_MATCHES] if _UID_PATTERN.match(text.casefold()) else []


def _group_conditions(transaction: Transaction, text: str, table: str) -> tuple[list[str], dict[str, object]]:
    """The text in group columns: workspaces, departments, kinds and users."""
    kinds = _matching_keys(group_values(transaction, WorkloadField.KIND), text)
    workspaces = dict.fromkeys(
        (
            *_matching_keys(group_values(transaction, WorkloadField.WORKSPACE), text),
            *_matching_keys(group_values(transaction, WorkloadField.DEPARTMENT), text),
        )
    )
    predicates = [in_list("kind", kinds, "search_kind"), in_list("workspace_id", workspaces, "search_space")]
    params = {name: value for predicate in predicates for name, value in predicate.params.items()}
    conditions = [predicate.on_table(table) for predicate in predicates]
    return [*conditions, f"instr({table}.user_name, :search) > 0"], params


def _matching_keys(values: GroupValues, text: str) -> list[object]:
    return [key for key, value in values.items() if text.casefold() in str(value).casefold()]
