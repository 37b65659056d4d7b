"""The fleet as it is now: every operation of the native API that watches clusters, each declared once."""

from stoker.client.fleet_shapes import Consumer, Gpu, Node, Overview
from stoker.client.operation import F, Resource, listing, operation


class Fleet(Resource[F]):
    @operation("GET", "/overview")
    def overview(self, *, cluster: str = "") -> Overview:
        """All clusters added up and one by one, with the age of their readings."""
        ...

    @listing("/consumers")
    def consumers(self, *, cluster: str = "") -> Consumer:
        """Running workloads that hold GPUs, most GPUs first."""
        ...

    @listing("/nodes")
    def nodes(
        self,
        *,
        cluster: str = "",
        name: str = "",
        pool: str = "",
        state: str = "",
        sort: str = "name",
        order: str = "asc",
    ) -> Node:
        """Nodes by name or by what they do; `name` is a part of it."""
        ...

    @listing("/gpus")
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
    ) -> Gpu:
        """GPUs by node or by what they do; `model` and `workload` are parts of them."""
        ...
