"""Report lines for hours that are not closed yet, summed from the allocations.

They tell how much each workload allocated; the split into busy, idle and other categories follows when the hour is
closed.
"""

from typing import Any

from stoker.domain.usage.report import UnclosedInterval, UsageQuery

LEDGER_COLUMNS = {
    "cluster_id": "allocation.cluster_id",
    "workspace_id": "workload.workspace_id",
    "namespace": "workload.namespace",
    "user_id": "workload.user_id",
    "model": "allocation.model",
    "workload_uid": "allocation.workload_uid",
}
"""The expression over an allocation for each grouping column of the ledger."""
INTERVAL_START = "CASE WHEN allocation.from_at > :open_from_{n} THEN allocation.from_at ELSE :open_from_{n} END"
INTERVAL_END = "CASE WHEN allocation.to_at < :open_to_{n} THEN allocation.to_at ELSE :open_to_{n} END"
OPEN_HOUR_LINES = f"""
UNION ALL
SELECT {{key}} AS key, allocation.model, {{zeros}}, allocation.gpu_milli * ({INTERVAL_END} - {INTERVAL_START})
FROM allocation
JOIN workload ON workload.uid = allocation.workload_uid
WHERE allocation.cluster_id = :open_cluster_{{n}}
  AND allocation.to_at > :open_from_{{n}}
  AND allocation.from_at < :open_to_{{n}}
  {{workspace_filter}}
UNION ALL
SELECT {{key}} AS key, allocation.model, {{zeros}}, allocation.gpu_milli * (:open_to_{{n}} - {INTERVAL_START})
FROM allocation
JOIN workload ON workload.uid = allocation.workload_uid
WHERE allocation.cluster_id = :open_cluster_{{n}}
  AND allocation.to_at IS NULL
  AND allocation.from_at < :open_to_{{n}}
  {{workspace_filter}}
"""  # index allocation_by_time: released allocations, then open ones


def open_lines_sql(query: UsageQuery, key: str, zeros: str, workspaces: str) -> str:
    """The SQL of the additional report lines; `zeros` fills the category columns, `workspaces` lists the parameters
    of the selected workspaces, empty for all."""
    workspace_filter = f"AND workload.workspace_id IN ({workspaces})" if workspaces else ""
    return "".join(
        OPEN_HOUR_LINES.format(key=LEDGER_COLUMNS[key], zeros=zeros, n=number, workspace_filter=workspace_filter)
        for number in range(len(query.unclosed_intervals))
    )


def open_params(intervals: tuple[UnclosedInterval, ...]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for number, interval in enumerate(intervals):
        params[f"open_cluster_{number}"] = interval.cluster_id
        params[f"open_from_{number}"] = interval.from_at
        params[f"open_to_{number}"] = interval.to_at
    return params
