"""From an order to a pod's folder: what the keeper is to run, and what the engine must remember."""

import os
import secrets
from pathlib import Path

import msgspec

from stoker.domain.errors import bad_request
from stoker.domain.report_token import ReportTo
from stoker.domain.workload import Kind
from stoker.engines.base import Order, PodOrder
from stoker.engines.local import surroundings
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
    told = limits.reports.env(order.workload_uid, wanted.uid) if limits.reports else {}
    env = surroundings.surroundings(work) | ({"PORT": str(port)} if port else {}) | told | dict(wanted.env)
    folder = places.pod(wanted.uid)
    folder.mkdir(mode=0o700, exist_ok=True)
    _put(folder / ORDER, _launch_file(places, limits, order, script, env | {MARK: wanted.uid}, joined))
    remember(folder, record)
    return Pod(folder, record)


def remember(folder: Path, record: PodRecord) -> None:
    _put(folder / RECORD, msgspec.json.encode(record))


def _launch_file(
    places: Places, limits: Limits, order: Order, script: str, env: dict[str, str], joined: Joined
) -> bytes:
    work = places.work(order.slug)
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise bad_request("env", f'"{name[:80]}" cannot be a variable: no "=" in the name, no NUL anywhere.')
    if "\0" in script:
        raise bad_request("entryPoint", "holds a NUL character.")
    per_process = order.resources.memory_bytes if limits.groups.memory is None else 0
    walls = walls_of(places.data_dir, work, limits.hidden) if limits.walls else [("folder", str(work))]
    return launch_order.encode(
        [
            *walls,
            ("script", script),
            ("shell", surroundings.shell()),
            *(("env", f"{name}={value}") for name, value in env.items()),
            *(("group", door) for door in joined.doors),
            ("kill-count", joined.kill_count),
            ("data-limit", str(per_process)),
            ("restart", str(int(order.restart))),
            ("segment-bytes", str(limits.log_segment_bytes)),
            ("segments", str(limits.log_segments)),
        ]
    )


def _put(path: Path, data: bytes) -> None:
    """Whole or not at all, also when two engines write the same."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    new.replace(path)
