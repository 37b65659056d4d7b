"""The current state of clusters, nodes and GPUs."""

from stoker.client.resources.operations import ApiResource, F, list_operation, operation
from stoker.wire.fleet import ConsumerView, GpuView, NodeView, OverviewView


class FleetResource(ApiResource[F]):
    @operation("GET", "/overview")
    def overview(self, *, cluster: str = "") -> OverviewView:
        """Totals over all clusters and for each one, with the age of their samples."""
        ...

    @list_operation("/consumers")
    def consumers(self, *, cluster: str = "") -> ConsumerView:
        """Running workloads with allocated GPUs, most GPUs first."""
        ...

    @list_operation("/nodes")
    def nodes(
        self,
        *,
        cluster: str = "",
        name: str = "",
        pool: str = "",
        state: str = "",
        sort: str = "name",
        order: str = "asc",
    ) -> NodeView:
        """Nodes with their allocation and utilization; `name` is a part of the node name."""
        ...

    @list_operation("/gpus")
    def gpus(
        self,
        *,
        cluster: str = "",
        node: str = "",
        model: str = "",
        workload: str = "",
        state: str = "",
        sort: str = "name",
        order: str = "asc",
    ) -> GpuView:
        """GPUs with their allocation and utilization; `model` and `workload` are parts of names."""
        ...
