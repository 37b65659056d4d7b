"""Lists, filters, sorts, pages, counts and reads workloads; the client's models judge every one of them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from clients import GIVEN, Client
from runai import models
from runai.exceptions import ApiException

FIELDS = [
    "type",
    "name",
    "clusterId",
    "projectId",
    "projectName",
    "departmentId",
    "departmentName",
    "createdAt",
    "deletedAt",
    "submittedBy",
    "phase",
    "completedAt",
    "nodepool",
    "distributedFramework",
    "allocatedGPU",
    "idleGpus",
    "idleAllocatedGpus",
    "phaseUpdatedAt",
    "category",
    "priority",
    "totalPendingTimeSeconds",
    "totalRunningTimeSeconds",
    "priorityClassName",
    "guaranteedRuntimeEndsAt",
    "aiApplicationId",
    "aiApplicationName",
]
TIMES = {"createdAt", "deletedAt", "completedAt", "phaseUpdatedAt", "guaranteedRuntimeEndsAt"}
NUMBERS = {
    "allocatedGPU",
    "idleGpus",
    "idleAllocatedGpus",
    "priority",
    "totalPendingTimeSeconds",
    "totalRunningTimeSeconds",
}
WHOLE, ON_TEXT = ("==", "!=", "<=", ">="), ("=@", "!@", "=^", "=$")


def value_of(field: str) -> str:
    if field in TIMES:
        return "2020-01-01T00:00:00+00:00"
    return "1" if field in NUMBERS else "Pending" if field == "phase" else "job"


def main() -> None:
    client = Client(GIVEN["kind"])
    work = client.runai.workloads.workloads
    mine = ["name=^page-"]

    def listed(**query: Any) -> list[dict[str, Any]]:
        answer = client.call(work.get_workloads, **query)
        models.GetWorkloads200Response.model_validate(answer)
        return answer["workloads"]

    filtered, refused = [], []
    for field in FIELDS:
        for operator in (*WHOLE, *ON_TEXT):
            try:
                listed(filter_by=[f"{field}{operator}{value_of(field)}"], limit=1)
                filtered.append(field + operator)
            except ApiException as error:
                refused.append([field + operator, error.status])
    orders = [len(listed(sort_by=field, sort_order=way, limit=2)) for field in FIELDS for way in ("asc", "desc")]
    seen, offset = [], 0
    while offset is not None:
        page = client.call(work.get_workloads, filter_by=mine, sort_by="name", limit=60, offset=offset)
        seen += [each["id"] for each in page["workloads"]]
        offset = page.get("next")
    detail = client.call(work.get_workload, seen[0])
    models.WorkloadDetailed.model_validate(detail)
    telemetry = client.call(work.get_workloads_telemetry, telemetry_type="WORKLOADS_COUNT", group_by=["Phase"])
    models.TelemetryResponse.model_validate(telemetry)
    end = datetime.now(UTC)
    types = ["GPU_UTILIZATION", "POD_COUNT", "NIM_NUM_REQUESTS_RUNNING"]
    start = end - timedelta(hours=1)
    metrics = client.call(work.get_workload_metrics, seen[0], metric_type=types, start=start, end=end)
    models.MetricsCompositeResponse.model_validate(metrics)
    count = client.call(work.count_workloads, filter_by=mine)
    models.CountResponse.model_validate(count)
    told = {
        "filtered": len(filtered),
        "refused": refused,
        "orders": orders,
        "pages": [len(seen), len(set(seen))],
        "at once": len(listed(filter_by=mine, limit=500)),
        "count": count["count"],
        "name": detail["name"],
        "metrics": sorted({each["type"] for each in metrics["measurements"]}),
    }
    client.close()
    print(json.dumps(told))


main()
