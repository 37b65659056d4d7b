"""Resolves a workload by id or by a unique name. An error suggests the nearest match."""

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.core.errors import BadUsageError, NotFoundError
from stoker.cli.core.options import command_line
from stoker.domain.errors import ErrorCode, StokerError

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.management import WorkloadDetailView, WorkloadSummaryView

SUGGESTION_CANDIDATES = 200
MAX_LISTED_IDS = 5
MAX_NAME_CHARS_IN_ID = 45
"""The number of characters of the display name that an id contains."""


def resolve_workload(client: "Stoker", ref: str | None, *, or_newest: bool = False) -> "WorkloadDetailView":
    """The workload with this id or name; without one, the caller's newest workload if that is allowed."""
    if or_newest and not ref:
        return client.workloads.get(newest_workload_id(client))
    try:
        return client.workloads.get(require_ref(client, ref))
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
    return client.workloads.get(resolve_name(client, ref or ""))


def resolve_pod(client: "Stoker", ref: str | None) -> "tuple[WorkloadDetailView, str]":
    """A workload, or a pod, whose name begins with the id of its workload; without a name, the caller's newest
    workload. No pod means the first pod."""
    if not ref:
        return client.workloads.get(newest_workload_id(client)), ""
    name = ref
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
    return resolve_workload(client, resolve_name(client, str(ref))), ""


def resolve_workspace(client: "Stoker", cluster: str, workspace: str | None) -> str:
    """The caller's workspace on a cluster: the named one, else the default one, else the only one."""
    name = client.clusters.get(cluster).name
    there = [each.name for each in client.workspaces.list(cluster=name)]
    if workspace:
        if workspace not in there:
            raise BadUsageError(f'Workspace "{workspace}" is not on cluster "{name}", or you may not see it.')
        return workspace
    me = client.me()
    own = {each.workspace for each in me.workspaces}
    candidates = [each for each in there if each in own] or there
    if me.user.default_workspace in candidates:
        return str(me.user.default_workspace)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        several = summarize_ids(candidates)
        raise BadUsageError(f'You have {len(candidates)} workspaces on cluster "{name}": {several}. Add --workspace.')
    raise BadUsageError(
        f'You have no workspace on cluster "{name}".',
        f"An admin creates one with: stoker workspace create NAME --cluster {name}",
    )


def resolve_name(client: "Stoker", name: str) -> str:
    """The id of the only workload with this display name; otherwise an error with suggestions."""
    begin = name[:MAX_NAME_CHARS_IN_ID].rstrip("-")
    same = [each.workload_id for each in client.workloads.list(workload_id=begin) if each.display_name == name]
    if len(same) > 1:
        several = summarize_ids(same)
        raise BadUsageError(f'There are {len(same)} workloads with the name "{name}": {several}. Say which by its id.')
    if same:
        return same[0]
    raise NotFoundError(
        f'There is no workload "{name}", or you may not see it.', _suggest_nearest(client, name), command_line("list")
    )


def newest_workload_id(client: "Stoker") -> str:
    """The id of the caller's newest workload; a note about it is printed on stderr."""
    page = client.workloads.page(user_id=client.me().user.id, sort_by="create_time", order="desc", limit=1)
    if not page.items:
        raise NotFoundError("You have no workloads.", "Say which of the others by its id.", command_line("list"))
    found = page.items[0]
    click.echo(f"{found.workload_id} is the newest of your workloads.", err=True)
    return found.workload_id


def require_ref(client: "Stoker", ref: str | None) -> str:
    """The given reference; without one, an error that names the newest workload."""
    if ref:
        return ref
    newest = summarize_ids([each.workload_id for each in client.workloads.page(limit=MAX_LISTED_IDS).items])
    raise BadUsageError(
        "Say which workload.", f"The newest: {newest}." if newest else "There are none.", command_line("list")
    )


def _suggest_nearest(client: "Stoker", name: str) -> str:
    known: list[WorkloadSummaryView] = list(client.workloads.page(limit=SUGGESTION_CANDIDATES).items)
    ids = {each.workload_id for each in known}
    near = difflib.get_close_matches(name, [*ids, *(each.display_name for each in known)], n=3, cutoff=0.6)
    by_name = {each.display_name: each.workload_id for each in reversed(known)}
    meant = dict.fromkeys(word if word in ids else by_name[word] for word in near)
    return f"Did you mean {' or '.join(meant)}?" if meant else ""


def summarize_ids(ids: Sequence[str]) -> str:
    """The first ids, and the number of the others."""
    return ", ".join(ids[:MAX_LISTED_IDS]) + (
        f" and {len(ids) - MAX_LISTED_IDS} more" if len(ids) > MAX_LISTED_IDS else ""
    )
