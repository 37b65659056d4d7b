"""Which workload is meant: by its id, or by a name that only one has. A near miss is answered with the nearest."""

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.cli.failures import Misused, NotFound
from stoker.cli.options import typed
from stoker.domain.errors import ErrorCode, StokerError

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.workload_shapes import Workload, WorkloadDetail

NEWEST = 200
SHOWN = 5
ID_NAME = 45
"""How much of the display name is in an id."""


def found(client: "Stoker", ref: str | None) -> "WorkloadDetail":
    """The workload of this id, or of this name."""
    try:
        return client.workloads.get(said(client, ref))
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
    return client.workloads.get(id_of_name(client, ref or ""))


def found_pod(client: "Stoker", ref: str | None) -> "tuple[WorkloadDetail, str]":
    """A workload, or a pod of one: its name begins with the id of the workload. No pod is the first."""
    name = said(client, ref)
    while name:
        try:
            detail = client.workloads.get(name)
        except StokerError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
        else:
            if name == ref or any(pod.pod_id == ref for pod in detail.pods):
                return detail, "" if name == ref else str(ref)
        name = name.rpartition("-")[0]
    return found(client, id_of_name(client, str(ref))), ""


def id_of_name(client: "Stoker", name: str) -> str:
    """The id of the only workload with this display name; an error that helps when it is not one."""
    begin = name[:ID_NAME].rstrip("-")
    same = [each.workload_id for each in client.workloads.list(workload_id=begin) if each.display_name == name]
    if len(same) > 1:
        several = _some(same)
        raise Misused(f'There are {len(same)} workloads with the name "{name}": {several}. Say which by its id.')
    if same:
        return same[0]
    raise NotFound(f'There is no workload "{name}", or you may not see it.', _nearest(client, name), typed("list"))


def said(client: "Stoker", ref: str | None) -> str:
    """What was typed; when nothing was, an error that names the newest."""
    if ref:
        return ref
    newest = _some([each.workload_id for each in client.workloads.page(limit=SHOWN).items])
    raise Misused("Say which workload.", f"The newest: {newest}." if newest else "There are none.", typed("list"))


def _nearest(client: "Stoker", name: str) -> str:
    known: list[Workload] = list(client.workloads.page(limit=NEWEST).items)
    ids = {each.workload_id for each in known}
    near = difflib.get_close_matches(name, [*ids, *(each.display_name for each in known)], n=3, cutoff=0.6)
    by_name = {each.display_name: each.workload_id for each in reversed(known)}
    meant = dict.fromkeys(word if word in ids else by_name[word] for word in near)
    return f"Did you mean {' or '.join(meant)}?" if meant else ""


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:SHOWN]) + (f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")
