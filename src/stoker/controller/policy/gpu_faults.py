"""Requeues workloads whose GPUs are faulty, where the policy says so."""

from collections.abc import Collection

from stoker.domain.cluster.gpu_identity import gpu_key
from stoker.domain.workload.events import GpuFailed
from stoker.domain.workload.lifecycle import transition
from stoker.store.cluster import nodes
from stoker.store.db.base import Transaction
from stoker.store.workloads import allocations, rows, transitions


def requeue_from_faulty_gpus(transaction: Transaction, cluster_id: str, names: Collection[str], at: int) -> set[str]:
    """Requeue the workloads that hold a faulty GPU of these nodes, and return their uids. The call is idempotent."""
    known = nodes.by_name(transaction, cluster_id, names)
    faults = {
        key: f"GPU {device.index} of node {name} is faulty: {device.fault}"
        for name, node in known.items()
        for device in node.devices
        if device.fault
        for key in (gpu_key(name, device.index, device.uuid), gpu_key(name, device.index, ""))
    }
    if not faults:
        return set()
    hit = {
        allocation.workload_uid: why
        for allocation in allocations.open_allocations(transaction, cluster_id)
        if (why := faults.get(allocation.gpu_key))
    }
    changes = [
        (workload, change)
        for workload in rows.by_uid(transaction, hit).values()
        if (change := transition(workload, GpuFailed(at, hit[workload.uid]))) is not None
    ]
    transitions.apply_all(transaction, changes)
    return {workload.uid for workload, _ in changes}
