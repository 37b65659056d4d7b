"""Free text: in the name, the id, the workspace, the department, the user, the kind or the image of a workload."""

import re
from collections.abc import Iterator

from stoker.domain.inventory import Field
from stoker.store.base import Transaction
from stoker.store.inventory_filters import ALIKE, GONE, LIVE, SAME, Clause, Values, one_of, values_of

IMAGES = """
WITH RECURSIVE image (name) AS (
    SELECT MIN(folded_image)
    FROM workload
    WHERE deleted_at IS NULL
    UNION ALL
    SELECT (SELECT MIN(folded_image) FROM workload WHERE deleted_at IS NULL AND folded_image > image.name)
    FROM image
    WHERE image.name IS NOT NULL
)
SELECT name
FROM image
LIMIT :images
"""  # index workload_by_image
MOST_IMAGES = 2_000
NAMED = "instr(workload.name, :search) > 0"
PULLED = "instr(workload.folded_image, :search) > 0"
KNOWN = "instr(workload.uid, :search) > 0"
_OF_A_UID = re.compile(r"[0-9a-f-]+\Z")


def search_clause(transaction: Transaction, text: str) -> Clause:
    """What must hold for a workload."""
    counted, params = _counted(transaction, text, "workload")
    known = [KNOWN] if _OF_A_UID.match(text.casefold()) else []
    return Clause(f"({' OR '.join((*counted, NAMED, PULLED, *known))})", {**params, "search": text.casefold()})


def search_uids(transaction: Transaction, text: str, few: int, *, deleted: bool) -> list[str] | None:
    """Everything that a text is in; None when it is in many."""
    counted, params = _counted(transaction, text, "workload_count")
    alike = f"hidden = {2 if deleted else 0} AND ({' OR '.join(counted)})"
    params |= {"search": text.casefold(), "few": few + 1}
    row = transaction.one(f"SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE {alike}", params)
    if row is None or row[0] > few or (deleted and row[0]):
        return None
    found: dict[str, None] = {}
    if row[0]:
        source = f"{ALIKE.format(condition=alike)} WHERE {SAME} AND {LIVE}"
        found |= dict.fromkeys(row[0] for row in transaction.all(f"SELECT workload.uid FROM {source}", params))
    for condition, named in _conditions(transaction, text, deleted=deleted):
        order = "ORDER BY workload.name" if NAMED in condition else ""
        rows = transaction.all(
            f"SELECT workload.uid FROM workload WHERE {GONE if deleted else LIVE} AND {condition} {order} LIMIT :few",
            {**params, **named},
        )
        found |= dict.fromkeys(row[0] for row in rows)
        if len(found) > few:
            return None
    return list(found)


def _conditions(transaction: Transaction, text: str, *, deleted: bool) -> Iterator[tuple[str, dict[str, object]]]:
    """One after the other, each with an index of its own: images, of which many or none are soon found, then names and
    uids, which share one."""
    images = [] if deleted else transaction.all(IMAGES, {"images": MOST_IMAGES})
    if deleted or len(images) >= MOST_IMAGES:
        yield PULLED, {}
    elif meant := [row[0] for row in images if row[0] is not None and text.casefold() in row[0]]:
        pulled = one_of("folded_image", meant, "image")
        yield pulled.on(), dict(pulled.params)
    known = f" OR {KNOWN}" if _OF_A_UID.match(text.casefold()) else ""
    yield f"({NAMED}{known})", {}


def _counted(transaction: Transaction, text: str, table: str) -> tuple[list[str], dict[str, object]]:
    """What the counts know: workspaces, departments, kinds and users."""
    kinds = _meant(values_of(transaction, Field.KIND), text)
    workspaces = dict.fromkeys(
        (
            *_meant(values_of(transaction, Field.WORKSPACE), text),
            *_meant(values_of(transaction, Field.DEPARTMENT), text),
        )
    )
    clauses = [one_of("kind", kinds, "search_kind"), one_of("workspace_id", workspaces, "search_space")]
    params = {name: value for clause in clauses for name, value in clause.params.items()}
    return [*(clause.on(table) for clause in clauses), f"instr({table}.user_name, :search) > 0"], params


def _meant(values: Values, text: str) -> list[object]:
    return [key for key, value in values.items() if text.casefold() in str(value).casefold()]
