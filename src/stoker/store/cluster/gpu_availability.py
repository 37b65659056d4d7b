"""Intervals in which GPUs were present or faulty. Capacity in usage reports is computed from them.

An interval belongs to a GPU. It goes on when the GPU gets another index or is moved to another node, and its place is
updated.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from stoker.domain.cluster.gpu_identity import GpuId, gpu_key
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.samples import GpuFault
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.select_in import select_in

OPEN_INTERVALS = """
SELECT gpu, state, node, device, model, memory_bytes, message
FROM gpu_availability
WHERE cluster_id = :cluster_id
  AND node = :node
  AND state <> 'reported'
  AND to_at IS NULL
"""
OPEN_INTERVALS_OF_GPUS = """
SELECT gpu, state, node, device, model, memory_bytes, message
FROM gpu_availability
WHERE cluster_id = :cluster_id
  AND gpu IN (:keys)
  AND state <> 'reported'
  AND to_at IS NULL
"""
REPORTED_FAULTS = """
SELECT node, device, message, gpu_uuid
FROM gpu_availability
WHERE cluster_id = :cluster_id
  AND state = 'reported'
  AND to_at IS NULL
"""
REPORTED_FAULTS_OF_NODES = f"{REPORTED_FAULTS} AND node IN (:keys)"
OPEN_INTERVAL = """
INSERT INTO gpu_availability (cluster_id, gpu, state, from_at, to_at, node, device, gpu_uuid, model, memory_bytes,
    message)
VALUES (:cluster_id, :gpu, :state, :at, NULL, :node, :device, :gpu_uuid, :model, :memory_bytes, :message)
ON CONFLICT (cluster_id, gpu, state, from_at) DO UPDATE
SET to_at = NULL, node = excluded.node, device = excluded.device, model = excluded.model,
    memory_bytes = excluded.memory_bytes, message = excluded.message
"""
MOVE_INTERVAL = """
UPDATE gpu_availability
SET node = :node, device = :device
WHERE cluster_id = :cluster_id
  AND gpu = :gpu
  AND state = :state
  AND to_at IS NULL
"""
CLOSE_INTERVAL = """
UPDATE gpu_availability
SET to_at = :at
WHERE cluster_id = :cluster_id
  AND gpu = :gpu
  AND state = :state
  AND to_at IS NULL
"""
CHANGE_FAULT = """
UPDATE gpu_availability
SET node = :node, device = :device, message = :message
WHERE cluster_id = :cluster_id
  AND gpu = :gpu
  AND state = :state
  AND to_at IS NULL
"""
CLOSE_NODE_INTERVALS = """
UPDATE gpu_availability
SET to_at = :at
WHERE cluster_id = :cluster_id
  AND node = :node
  AND to_at IS NULL
"""
INTERVALS_IN_RANGE = """
SELECT node, device, state, from_at, :to_at, model, memory_bytes, gpu_uuid, gpu
FROM gpu_availability
WHERE cluster_id = :cluster_id
  AND from_at < :to_at
  AND to_at IS NULL
UNION ALL
SELECT node, device, state, from_at, to_at, model, memory_bytes, gpu_uuid, gpu
FROM gpu_availability
WHERE cluster_id = :cluster_id
  AND from_at < :to_at
  AND to_at > :from_at
ORDER BY node, device, state, from_at, gpu
"""
FIRST_INTERVAL = "SELECT MIN(from_at) FROM gpu_availability WHERE cluster_id = :cluster_id"
NODE_NOT_READY_MESSAGE = "The node is not ready."


class GpuIntervalState(StrEnum):
    """REPORTED means faulty according to samples of the GPU, while the engine reports its node as healthy."""

    PRESENT = "present"
    FAULTY = "faulty"
    REPORTED = "reported"


class GpuInterval(Struct, frozen=True, gc=False):
    """A time in which a GPU was in a state."""

    node: str
    device: int
    state: GpuIntervalState
    from_at: int
    to_at: int
    model: str
    memory_bytes: int
    uuid: str = ""

    @property
    def gpu(self) -> GpuId:
        return GpuId(self.node, self.device, self.uuid)


class _OpenInterval(Struct, frozen=True):
    """An open interval with its place and its facts. With other facts it is another interval."""

    node: str
    device: int
    model: str
    memory_bytes: int
    message: str

    @property
    def place(self) -> tuple[str, int]:
        return self.node, self.device

    @property
    def facts(self) -> tuple[str, int, str]:
        return self.model, self.memory_bytes, self.message


_IntervalKey = tuple[str, str]
"""The key of a GPU and a state."""


def sync_intervals(transaction: Transaction, cluster_id: str, nodes: Iterable[Node], at: int) -> list[GpuId]:
    """Open and close intervals to match the nodes' current state; a replaced GPU gets a new interval. Returns the GPUs
    with a UUID that are new, or at a place where they were not before."""
    cluster = {"cluster_id": cluster_id}
    known: dict[_IntervalKey, _OpenInterval] = {}
    expected: dict[_IntervalKey, tuple[GpuId, _OpenInterval]] = {}
    for node in nodes:
        known |= _to_intervals(transaction.fetch_all(OPEN_INTERVALS, {**cluster, "node": node.name}))
        expected |= _expected_intervals(node)
    arrived = {gpu.uuid for key, (gpu, _) in expected.items() if key not in known and gpu.uuid}
    known |= _to_intervals(select_in(transaction, OPEN_INTERVALS_OF_GPUS, sorted(arrived), cluster))
    opened: list[dict[str, object]] = []
    closed: list[dict[str, object]] = []
    moved: list[dict[str, object]] = []
    placed: dict[str, GpuId] = {}
    for (key, state), interval in known.items():
        wanted = expected.get((key, state))
        if wanted is None or wanted[1].facts != interval.facts:
            closed.append({**cluster, "gpu": key, "state": state, "at": at})
    for (key, state), (gpu, interval) in expected.items():
        before = known.get((key, state))
        row: dict[str, object] = {
            **cluster,
            "gpu": key,
            "state": state,
            "node": interval.node,
            "device": interval.device,
        }
        if before is None or before.facts != interval.facts:
            facts = {"model": interval.model, "memory_bytes": interval.memory_bytes, "message": interval.message}
            opened.append({**row, **facts, "gpu_uuid": gpu.uuid, "at": at})
        elif before.place != interval.place:
            moved.append(row)
        is_placed = before is None or before.place != interval.place
        if gpu.uuid and is_placed and state == GpuIntervalState.PRESENT:
            placed[key] = gpu
    moved += _moved_faults(transaction, cluster_id, placed)
    transaction.execute_many(CLOSE_INTERVAL, closed)
    transaction.execute_many(OPEN_INTERVAL, opened)
    transaction.execute_many(MOVE_INTERVAL, moved)
    return list(placed.values())


def _moved_faults(transaction: Transaction, cluster_id: str, gpus: Mapping[str, GpuId]) -> list[dict[str, object]]:
    """The reported faults of these GPUs at their new places."""
    return [
        {
            "cluster_id": cluster_id,
            "gpu": fault.uuid,
            "state": GpuIntervalState.REPORTED,
            "node": gpus[fault.uuid].node,
            "device": gpus[fault.uuid].device,
        }
        for fault in (reported_faults(transaction, cluster_id) if gpus else ())
        if fault.uuid in gpus
    ]


def sync_reported_faults(transaction: Transaction, cluster_id: str, faults: Iterable[GpuFault], at: int) -> set[str]:
    """Make `faults` the open reported faults of the cluster; returns the nodes whose faults changed. A GPU whose fault
    has another message or place is still faulty: its interval goes on."""
    key = {"cluster_id": cluster_id, "state": GpuIntervalState.REPORTED, "at": at}
    current = {gpu_key(fault.node, fault.device, fault.uuid): fault for fault in faults}
    known = {gpu_key(fault.node, fault.device, fault.uuid): fault for fault in reported_faults(transaction, cluster_id)}
    closed, opened = known.keys() - current.keys(), current.keys() - known.keys()
    changed = {gpu for gpu in known.keys() & current.keys() if known[gpu] != current[gpu]}
    places = {gpu: {"gpu": gpu, "node": fault.node, "device": fault.device} for gpu, fault in current.items()}
    transaction.execute_many(CLOSE_INTERVAL, [{**key, "gpu": gpu} for gpu in sorted(closed)])
    transaction.execute_many(
        CHANGE_FAULT, [{**key, **places[gpu], "message": current[gpu].message} for gpu in sorted(changed)]
    )
    facts = {"model": "", "memory_bytes": 0}
    transaction.execute_many(
        OPEN_INTERVAL,
        [
            {**key, **facts, **places[gpu], "gpu_uuid": current[gpu].uuid, "message": current[gpu].message}
            for gpu in sorted(opened)
        ],
    )
    return {known[gpu].node for gpu in closed | changed} | {current[gpu].node for gpu in opened | changed}


def reported_faults(transaction: Transaction, cluster_id: str) -> list[GpuFault]:
    """The open reported faults of a cluster."""
    return [GpuFault(*row) for row in transaction.fetch_all(REPORTED_FAULTS, {"cluster_id": cluster_id})]


def reported_faults_of_nodes(transaction: Transaction, cluster_id: str, nodes: Collection[str]) -> list[GpuFault]:
    """The open reported faults of these nodes."""
    return [
        GpuFault(*row) for row in select_in(transaction, REPORTED_FAULTS_OF_NODES, nodes, {"cluster_id": cluster_id})
    ]


def close_node_intervals(transaction: Transaction, cluster_id: str, nodes: Iterable[str], at: int) -> None:
    """Close all intervals of removed nodes."""
    transaction.execute_many(
        CLOSE_NODE_INTERVALS, [{"cluster_id": cluster_id, "node": node, "at": at} for node in nodes]
    )


def intervals_in_range(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[GpuInterval]:
    """Intervals that overlap [from_at, to_at); an open interval ends at `to_at`."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at}
    return [
        GpuInterval(row[0], row[1], GpuIntervalState(row[2]), *row[3:-1])
        for row in transaction.fetch_all(INTERVALS_IN_RANGE, params)
    ]


def first_gpu_at(transaction: Transaction, cluster_id: str) -> int | None:
    """The time of the cluster's first GPU, or None."""
    row = transaction.fetch_one(FIRST_INTERVAL, {"cluster_id": cluster_id})
    return row[0] if row else None


def _to_intervals(rows: Iterable[Row]) -> dict[_IntervalKey, _OpenInterval]:
    return {(row[0], row[1]): _OpenInterval(*row[2:]) for row in rows}


def _expected_intervals(node: Node) -> dict[_IntervalKey, tuple[GpuId, _OpenInterval]]:
    node_fault = node.fault or ("" if node.ready else NODE_NOT_READY_MESSAGE)
    intervals: dict[_IntervalKey, tuple[GpuId, _OpenInterval]] = {}
    for device in node.devices:
        gpu = GpuId(node.name, device.index, device.uuid)
        messages = {GpuIntervalState.PRESENT: "", GpuIntervalState.FAULTY: node_fault or device.fault}
        for state, message in messages.items():
            if message or state is GpuIntervalState.PRESENT:
                facts = _OpenInterval(node.name, device.index, device.model, device.memory_bytes, message)
                intervals[gpu.key, state] = (gpu, facts)
    return intervals
