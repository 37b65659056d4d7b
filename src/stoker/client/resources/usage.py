"""What GPUs were used for, and which are not used, each operation declared once."""

from datetime import datetime

from stoker.client.operation import F, Resource, operation
from stoker.client.usage_shapes import Sheet, UsageReport, WasteReport


class Usage(Resource[F]):
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
    ) -> UsageReport:
        """A page of the rows of a report, most first, with the totals of all of them."""
        ...

    @operation("GET", "/usage")
    def sheet(
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
    ) -> Sheet:
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
    ) -> WasteReport:
        """Workloads that hold GPUs and do not use them, worst first; `threshold` is in percent."""
        ...

    @operation("GET", "/waste")
    def waste_sheet(
        self,
        *,
        format: str,  # noqa: A002 - the name of the API
        threshold: float | None = None,
        least_seconds: int = 300,
        cluster: str = "",
        workspace: str = "",
    ) -> Sheet:
        """All of them as a file: `csv`, or `parquet` where the server has that extra."""
        ...
