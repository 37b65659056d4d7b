"""What a workload, or one pod of it, did over a range."""

from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from stoker.api.csv_text import CSV
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.runai.measured import Asked, Metrics, MetricsSpan, read_metrics
from stoker.api.runai.words import TYPES
from stoker.api.runai.workloads import WORKLOADS
from stoker.domain.errors import ErrorCode, not_found
from stoker.domain.permissions import Action

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
"""Requests a second; milliseconds of one."""
PodId = Annotated[str, Meta(min_length=1, max_length=100, description="The id of a pod, or its name.")]
FAILURES = (ErrorCode.NOT_FOUND, ErrorCode.BACKEND_DOWN)


class MetricsParams(MetricsSpan, frozen=True, kw_only=True, rename="camel"):
    metric_type: Annotated[tuple[MetricType, ...], Meta(min_length=1, max_length=100)]


class PodMetricsParams(MetricsSpan, frozen=True, kw_only=True, rename="camel"):
    pod_id: PodId
    metric_type: Annotated[tuple[PodMetricType, ...], Meta(min_length=1, max_length=100)]


class InferenceMetricsParams(MetricsSpan, frozen=True, kw_only=True, rename="camel"):
    metric_type: Annotated[tuple[InferenceMetricType, ...], Meta(min_length=1, max_length=100)]


class InferencePodMetricsParams(InferenceMetricsParams, frozen=True, kw_only=True, rename="camel"):
    pod_id: PodId


@endpoint(
    "GET",
    f"{WORKLOADS}/{{workloadId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=MetricsParams,
    result=Metrics,
    partly=Metrics,
    also=(CSV,),
    errors=FAILURES,
)
async def read_runai_metrics(call: Call[MetricsParams]) -> Metrics | Response:
    """What a workload asked for, held and used: so many samples, each at the end of an equal part of the range.

    207 when only some types could be read; `errors` then names the others.
    """
    return await read_metrics(call, call.params.metric_type)


@endpoint(
    "GET",
    f"{WORKLOADS}/{{workloadId}}/pods/{{podId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=PodMetricsParams,
    result=Metrics,
    partly=Metrics,
    also=(CSV,),
    errors=FAILURES,
)
async def read_runai_pod_metrics(call: Call[PodMetricsParams]) -> Metrics | Response:
    """What one pod used and served; types that end in `PER_GPU` have a line for each of its GPUs.

    207 when only some types could be read; `errors` then names the others.
    """
    return await read_metrics(call, call.params.metric_type, call.params.pod_id)


@endpoint(
    "GET",
    f"{WORKLOADS}/inferences/{{workloadId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=InferenceMetricsParams,
    result=Metrics,
    also=(CSV,),
    errors=FAILURES,
)
async def read_inference_metrics(call: Call[InferenceMetricsParams]) -> Metrics | Response:
    """How many requests a second an inference workload was done with, and how long one took, in milliseconds."""
    await _must_serve(call)
    return await read_metrics(call, call.params.metric_type)


@endpoint(
    "GET",
    f"{WORKLOADS}/inferences/{{workloadId}}/pods/{{podId}}/metrics",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=InferencePodMetricsParams,
    result=Metrics,
    also=(CSV,),
    errors=FAILURES,
)
async def read_inference_pod_metrics(call: Call[InferencePodMetricsParams]) -> Metrics | Response:
    """The same of one replica."""
    await _must_serve(call)
    return await read_metrics(call, call.params.metric_type, call.params.pod_id)


async def _must_serve(call: Call[Asked]) -> None:
    uid = call.params.workload_id
    if (await call.services.workloads.read(call.actor, uid)).entry.workload.kind not in TYPES["inferences"]:
        raise not_found("workload", uid)
