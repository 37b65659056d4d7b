"""Usage reports, and allocated GPUs that are idle."""

from datetime import datetime

from stoker.client.resources.operations import ApiResource, F, operation
from stoker.client.results import Export
from stoker.wire.usage import UsageView, WasteView


class UsageResource(ApiResource[F]):
    @operation("GET", "/usage")
    def report(
        self,
        *,
        by: str = "",
        label: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        cluster: str = "",
        workspace: str = "",
        sort: str = "allocated",
        order: str = "desc",
        offset: int = 0,
        limit: int = 100,
    ) -> UsageView:
        """A page of a usage report, largest rows first, with the totals of all rows."""
        ...

    @operation("GET", "/usage")
    def export(
        self,
        *,
        format: str,  # noqa: A002 - the name of the API
        by: str = "",
        label: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        cluster: str = "",
        workspace: str = "",
        sort: str = "allocated",
        order: str = "desc",
    ) -> Export:
        """Every row of a report as a file: `csv`, or `parquet` where the server has that extra."""
        ...

    @operation("GET", "/waste")
    def waste(
        self,
        *,
        threshold: float | None = None,
        least_seconds: int = 300,
        cluster: str = "",
        workspace: str = "",
        offset: int = 0,
        limit: int = 100,
    ) -> WasteView:
        """Workloads with idle allocated GPUs, worst first; `threshold` is in percent."""
        ...

    @operation("GET", "/waste")
    def export_waste(
        self,
        *,
        format: str,  # noqa: A002 - the name of the API
        threshold: float | None = None,
        least_seconds: int = 300,
        cluster: str = "",
        workspace: str = "",
    ) -> Export:
        """Every workload with idle GPUs as a file: `csv`, or `parquet` where the server has that extra."""
        ...
