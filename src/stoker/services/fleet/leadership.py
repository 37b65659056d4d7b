"""Clusters whose workloads are not reconciled: no server holds their lease, or their engine cannot be reached."""

from stoker.domain.workload.status import LeaderlessCluster, UnavailableCluster, UnreachableCluster
from stoker.services.context import Context
from stoker.store.cluster import clusters, leases
from stoker.store.db.base import Transaction

LEASE_LOOP = "lease"
"""The loop that renews the lease of a cluster; it runs in the leader of the cluster."""


class ClusterLeadership:
    def __init__(self, context: Context) -> None:
        self._context = context

    def leads(self, cluster: str) -> bool:
        """Whether this server leads the cluster of this name."""
        return cluster in self._led_here()

    def unavailable_clusters(self, transaction: Transaction) -> dict[str, UnavailableCluster]:
        """Clusters in which nothing can start, stop or be observed now, by id."""
        unreachable: dict[str, UnavailableCluster] = {
            cluster.id: UnreachableCluster(cluster.name, cluster.unreachable_since, cluster.unreachable_message)
            for cluster in clusters.all_clusters(transaction)
            if cluster.unreachable_since is not None
        }
        return {**unreachable, **self.clusters_without_leader(transaction)}

    def clusters_without_leader(self, transaction: Transaction) -> dict[str, LeaderlessCluster]:
        """Leaderless clusters by id.

        A cluster led by this server counts as led however late its lease is renewed, and a new cluster counts as led
        for the duration of one lease.
        """
        led_here = self._led_here()
        now = self._context.clock.now()
        return {
            lease.cluster_id: LeaderlessCluster(lease.name, lease.simulated)
            for lease in leases.of_clusters(transaction)
            if lease.name not in led_here and lease.expires_at <= now
        }

    def _led_here(self) -> set[str]:
        loops = self._context.loops.list_states()
        return {state.scope for state in loops if state.name == LEASE_LOOP and state.is_running}
