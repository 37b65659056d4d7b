"""Clusters."""

from msgspec import UNSET, UnsetType

from stoker.client.resources.operations import ApiResource, F, list_operation, operation
from stoker.wire.clusters import ClusterCheckView, ClusterView, DockerSettings


class ClustersResource(ApiResource[F]):
    @list_operation("/clusters")
    def list(self, *, name: str = "") -> ClusterView:
        """Clusters, by name."""
        ...

    @operation("POST", "/clusters", creates=True)
    def create(self, name: str, *, docker: DockerSettings, description: str = "") -> ClusterView:
        """Add a cluster. It need not be reachable: the server connects to it as soon as it is."""
        ...

    @operation("GET", "/clusters/{name}")
    def get(self, name: str) -> ClusterView:
        """One cluster, by name or uuid."""
        ...

    @operation("PATCH", "/clusters/{name}")
    def edit(
        self, name: str, *, description: str | UnsetType = UNSET, docker: DockerSettings | UnsetType = UNSET
    ) -> ClusterView:
        """Change the given fields. Settings are in force at once; pods keep running."""
        ...

    @operation("DELETE", "/clusters/{name}")
    def remove(self, name: str, *, release: bool = False) -> None:
        """Remove a cluster with its history; `release` leaves its workloads running and forgets them."""
        ...

    @operation("POST", "/clusters/{name}/check")
    def check(self, name: str) -> ClusterCheckView:
        """Find out what is wrong with a cluster, and what to do about it."""
        ...
