"""Metrics of workloads and pods over a time range."""

from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from stoker.api.compat.runai.enums import KINDS_BY_TYPE
from stoker.api.compat.runai.metrics.metric_mapping import (
    MetricsParamsT,
    MetricsRangeParams,
    RunaiMetrics,
    query_metrics,
)
from stoker.api.compat.runai.workloads.list_endpoints import WORKLOADS_PATH
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.negotiation import CSV_MEDIA_TYPE
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode, not_found

MetricType = Literal[
    "GPU_UTILIZATION",
    "GPU_MEMORY_USAGE_BYTES",
    "GPU_MEMORY_REQUEST_BYTES",
    "CPU_USAGE_CORES",
    "CPU_REQUEST_CORES",
    "CPU_LIMIT_CORES",
    "CPU_MEMORY_USAGE_BYTES",
    "CPU_MEMORY_REQUEST_BYTES",
    "CPU_MEMORY_LIMIT_BYTES",
    "POD_COUNT",
    "RUNNING_POD_COUNT",
    "GPU_ALLOCATION",
    "NIM_NUM_REQUESTS_RUNNING",
    "NIM_NUM_REQUESTS_WAITING",
    "NIM_NUM_REQUEST_MAX",
    "NIM_REQUEST_SUCCESS_TOTAL",
    "NIM_REQUEST_FAILURE_TOTAL",
    "NIM_GPU_CACHE_USAGE_PERC",
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS",
    "NIM_E2E_REQUEST_LATENCY_SECONDS",
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS_PERCENTILES",
    "NIM_E2E_REQUEST_LATENCY_SECONDS_PERCENTILES",
    "NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
]
PodMetricType = Literal[
    "GPU_UTILIZATION_PER_GPU",
    "GPU_UTILIZATION",
    "GPU_MEMORY_USAGE_BYTES_PER_GPU",
    "GPU_MEMORY_USAGE_BYTES",
    "CPU_USAGE_CORES",
    "CPU_MEMORY_USAGE_BYTES",
    "GPU_GRAPHICS_ENGINE_ACTIVITY_PER_GPU",
    "GPU_SM_ACTIVITY_PER_GPU",
    "GPU_SM_OCCUPANCY_PER_GPU",
    "GPU_TENSOR_ACTIVITY_PER_GPU",
    "GPU_FP64_ENGINE_ACTIVITY_PER_GPU",
    "GPU_FP32_ENGINE_ACTIVITY_PER_GPU",
    "GPU_FP16_ENGINE_ACTIVITY_PER_GPU",
    "GPU_MEMORY_BANDWIDTH_UTILIZATION_PER_GPU",
    "GPU_NVLINK_TRANSMITTED_BANDWIDTH_PER_GPU",
    "GPU_NVLINK_RECEIVED_BANDWIDTH_PER_GPU",
    "GPU_PCIE_TRANSMITTED_BANDWIDTH_PER_GPU",
    "GPU_PCIE_RECEIVED_BANDWIDTH_PER_GPU",
    "GPU_SWAP_MEMORY_BYTES_PER_GPU",
    "NIM_NUM_REQUESTS_RUNNING",
    "NIM_NUM_REQUESTS_WAITING",
    "NIM_NUM_REQUEST_MAX",
    "NIM_REQUEST_SUCCESS_TOTAL",
    "NIM_REQUEST_FAILURE_TOTAL",
    "NIM_GPU_CACHE_USAGE_PERC",
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS",
    "NIM_E2E_REQUEST_LATENCY_SECONDS",
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS_PERCENTILES",
    "NIM_E2E_REQUEST_LATENCY_SECONDS_PERCENTILES",
    "NVLINK_BANDWIDTH_TOTAL",
    "NVLINK_BANDWIDTH_TOTAL_PER_GPU",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL_PER_GPU",
]
InferenceMetricType = Literal["THROUGHPUT", "LATENCY"]
"""Requests per second, and milliseconds per request."""
PodId = Annotated[str, Meta(min_length=1, max_length=100, description="The id of a pod, or its name.")]
ENDPOINT_ERRORS = (ErrorCode.NOT_FOUND, ErrorCode.UNAVAILABLE)


class RunaiMetricsParams(MetricsRangeParams, frozen=True, kw_only=True, rename="camel"):
    metric_type: Annotated[tuple[MetricType, ...], Meta(min_length=1, max_length=100)]


class RunaiPodMetricsParams(MetricsRangeParams, frozen=True, kw_only=True, rename="camel"):
    pod_id: PodId
    metric_type: Annotated[tuple[PodMetricType, ...], Meta(min_length=1, max_length=100)]


class InferenceMetricsParams(MetricsRangeParams, frozen=True, kw_only=True, rename="camel"):
    metric_type: Annotated[tuple[InferenceMetricType, ...], Meta(min_length=1, max_length=100)]


class InferencePodMetricsParams(InferenceMetricsParams, frozen=True, kw_only=True, rename="camel"):
    pod_id: PodId


@endpoint(
    "GET",
    f"{WORKLOADS_PATH}/{{workloadId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=RunaiMetricsParams,
    result=RunaiMetrics,
    multi_status=RunaiMetrics,
    alt_media_types=(CSV_MEDIA_TYPE,),
    errors=ENDPOINT_ERRORS,
)
async def read_runai_metrics(call: Call[RunaiMetricsParams]) -> RunaiMetrics | Response:
    """Requested, allocated and used resources of a workload: samples at the ends of equal parts of the range.

    207 if only some types could be read; `errors` lists the others.
    """
    return await query_metrics(call, call.params.metric_type)


@endpoint(
    "GET",
    f"{WORKLOADS_PATH}/{{workloadId}}/pods/{{podId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=RunaiPodMetricsParams,
    result=RunaiMetrics,
    multi_status=RunaiMetrics,
    alt_media_types=(CSV_MEDIA_TYPE,),
    errors=ENDPOINT_ERRORS,
)
async def read_runai_pod_metrics(call: Call[RunaiPodMetricsParams]) -> RunaiMetrics | Response:
    """Metrics of one pod; types that end in `PER_GPU` have a series for each of its GPUs.

    207 if only some types could be read; `errors` lists the others.
    """
    return await query_metrics(call, call.params.metric_type, call.params.pod_id)


@endpoint(
    "GET",
    f"{WORKLOADS_PATH}/inferences/{{workloadId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=InferenceMetricsParams,
    result=RunaiMetrics,
    alt_media_types=(CSV_MEDIA_TYPE,),
    errors=ENDPOINT_ERRORS,
)
async def read_inference_metrics(call: Call[InferenceMetricsParams]) -> RunaiMetrics | Response:
    """Throughput and latency of an inference workload, in requests per second and milliseconds."""
    await _require_inference(call)
    return await query_metrics(call, call.params.metric_type)


@endpoint(
    "GET",
    f"{WORKLOADS_PATH}/inferences/{{workloadId}}/pods/{{podId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=InferencePodMetricsParams,
    result=RunaiMetrics,
    alt_media_types=(CSV_MEDIA_TYPE,),
    errors=ENDPOINT_ERRORS,
)
async def read_inference_pod_metrics(call: Call[InferencePodMetricsParams]) -> RunaiMetrics | Response:
    """Throughput and latency of one replica of an inference workload."""
    await _require_inference(call)
    return await query_metrics(call, call.params.metric_type, call.params.pod_id)


async def _require_inference(call: Call[MetricsParamsT]) -> None:
    uid = call.params.workload_id
    if (await call.services.workload_queries.read(call.actor, uid)).entry.workload.kind not in KINDS_BY_TYPE[
        "inferences"
    ]:
        raise not_found("workload", uid)
