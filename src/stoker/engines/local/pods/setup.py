"""From an order to a pod's folder: what the keeper is to run, and what the engine must remember."""

import os
import secrets
from pathlib import Path

import msgspec

from stoker.domain.errors import bad_request
from stoker.domain.report_token import ReportTo
from stoker.domain.workload import Kind
from stoker.engines.base import Order, PodOrder
from stoker.engines.local import surroundings, users
from stoker.engines.local.cgroups import ControlGroups, Joined
from stoker.engines.local.containment import walls_of
from stoker.engines.local.keeper import order as launch_order
from stoker.engines.local.keeper.folder import ORDER
from stoker.engines.local.places import Places
from stoker.engines.local.pods import RECORD, Pod, PodRecord
from stoker.engines.local.survivors import MARK

IDLE = "exec sleep infinity"
"""What an Authoring pod does until somebody comes."""


class Limits(msgspec.Struct, frozen=True):
    """How pods of this engine are kept: behind walls or not, within which groups, and with how much log."""

    walls: bool
    groups: ControlGroups = ControlGroups()
    hidden: tuple[Path, ...] = ()
    log_segment_bytes: int = 16 * 1024**2
    log_segments: int = 4
    first_user: int = 0
    """Where users of jobs begin; 0 lets jobs run as the server does."""
    reports: ReportTo | None = None


def make_pod(places: Places, limits: Limits, order: Order, wanted: PodOrder, port: int) -> Pod:
    """Write the folder of a pod that has not begun. Its record comes last: without it the folder counts for nothing."""
    script = order.entry_point or (IDLE if order.kind is Kind.AUTHORING else "")
    if not script:
        raise bad_request("entryPoint", "is empty, and the local engine has no image whose command it could run.")
    work = places.work(order.slug)
    joined = limits.groups.make(wanted.uid, order.resources)
    record = PodRecord(
        uid=wanted.uid,
        name=wanted.name,
        workload_uid=order.workload_uid,
        slug=order.slug,
        kind=order.kind,
        attempt=order.attempt,
        revision=order.revision,
        rank=wanted.rank,
        node=wanted.node,
        port=port,
        service=order.service,
        memory_bytes=order.resources.memory_bytes,
        namespaces=limits.walls,
        groups=joined.folders,
    )
    user = users.user_of(limits.first_user, order.workspace_id) if limits.walls else 0
    own = surroundings.surroundings(work, users.NAME if user else "") | ({"PORT": str(port)} if port else {})
    told = limits.reports.env(order.workload_uid, wanted.uid) if limits.reports else {}
    env = own | told | dict(wanted.env)
    folder = places.pod(wanted.uid)
    folder.mkdir(mode=0o700, exist_ok=True)
    walls = [("folder", str(work))]
    if limits.walls:
        walls = walls_of(places.data_dir, work, places.temporary(folder), limits.hidden, user)
    if user:
        users.own(work, user)
        _put(folder / users.ACCOUNTS, users.accounts(user, work, surroundings.shell()).encode(), 0o644)
        walls.append(("accounts", str(folder / users.ACCOUNTS)))
    _put(folder / ORDER, _launch_file(limits, order, walls, script, env | {MARK: wanted.uid}, joined))
    remember(folder, record)
    return Pod(folder, record)


def remember(folder: Path, record: PodRecord) -> None:
    _put(folder / RECORD, msgspec.json.encode(record))


def _launch_file(
    limits: Limits, order: Order, walls: list[tuple[str, str]], script: str, env: dict[str, str], joined: Joined
) -> bytes:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise bad_request("env", f'"{name[:80]}" cannot be a variable: no "=" in the name, no NUL anywhere.')
    if "\0" in script:
        raise bad_request("entryPoint", "holds a NUL character.")
    per_process = order.resources.memory_bytes if limits.groups.memory is None else 0
    return launch_order.encode(
        [
            *walls,
            ("script", script),
            ("shell", surroundings.shell()),
            *(("env", f"{name}={value}") for name, value in env.items()),
            *(("group", door) for door in joined.doors),
            ("kill-count", joined.kill_count),
            ("cpu-limit", joined.cpu_limit),
            ("data-limit", str(per_process)),
            ("restart", str(int(order.restart))),
            ("segment-bytes", str(limits.log_segment_bytes)),
            ("segments", str(limits.log_segments)),
        ]
    )


def _put(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Whole or not at all, also when two engines write the same."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, mode)  # whatever the server's mask
        file.write(data)
    new.replace(path)
