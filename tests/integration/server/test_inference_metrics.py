"""A real server on the local engine that prints what vLLM prints: from its `/metrics` to the answer of the API."""

from contextlib import closing
from pathlib import Path
from typing import Any

from tests.integration.live_server import LiveClient, LiveServer, until

from stoker.domain.clock import SystemClock, format_rfc3339

WORKLOADS = "/api/v1/workloads"
COUNTS = {
    "0.001": 45,
    "0.005": 178,
    "0.01": 312,
    "0.05": 624,
    "0.1": 812,
    "0.5": 980,
    "1.0": 1004,
    "2.0": 1015,
    "+Inf": 1024,
}
PAGE = [
    'vllm:num_requests_running{model_name="m"} 3.0',
    'vllm:num_requests_waiting{model_name="m"} 2.0',
    'vllm:kv_cache_usage_perc{model_name="m"} 0.25',
    'vllm:request_success_total{finished_reason="stop",model_name="m"} 1024.0',
    'vllm:e2e_request_latency_seconds_sum{model_name="m"} 102.4',
    *(
        f'vllm:{name}_bucket{{le="{bound}",model_name="m"}} {count}.0'
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds")
        for bound, count in COUNTS.items()
    ),
]
SERVER = f"""mkdir -p served && cat > served/metrics <<'END'
{chr(10).join(PAGE)}
END
exec python3 -m http.server --directory served --bind 127.0.0.1 $PORT
"""


def metrics(client: LiveClient, uid: str, *types: str, path: str = "") -> Any:
    """Of the last minute, as one sample."""
    now = SystemClock().now()
    return client.get(
        f"{WORKLOADS}{path}/{uid}/metrics",
        metricType=",".join(types),
        start=format_rfc3339(now - 60_000),
        end=format_rfc3339(now),
        numberOfSamples=1,
    )


def values(answer: Any) -> dict[str, str]:
    return {each["type"]: each["values"][-1]["value"] for each in answer["measurements"] if each["values"]}


def test_what_an_inference_server_prints_is_answered_as_run_ai_has_it(tmp_path: Path) -> None:
    options = ("--sample-seconds", "1")
    with LiveServer(tmp_path / "data", options=options).start() as server, closing(server.client()) as client:
        name = client.create(SERVER, kind="Deployment", service={"port": 8000}, resource={"replica": 2})
        uid = next(each["id"] for each in client.get(WORKLOADS)["workloads"])
        gauges = ("NIM_NUM_REQUESTS_RUNNING", "NIM_NUM_REQUESTS_WAITING", "NIM_GPU_CACHE_USAGE_PERC")
        totals = ("NIM_REQUEST_SUCCESS_TOTAL", "NIM_REQUEST_FAILURE_TOTAL", "NIM_NUM_REQUEST_MAX")
        found = until(
            lambda: values(metrics(client, uid, *gauges, *totals)),
            lambda seen: seen.get("NIM_NUM_REQUESTS_RUNNING") == "6",
        )
        assert found == {
            "NIM_NUM_REQUESTS_RUNNING": "6",
            "NIM_NUM_REQUESTS_WAITING": "4",
            "NIM_GPU_CACHE_USAGE_PERC": "0.25",
            "NIM_REQUEST_SUCCESS_TOTAL": "2048",
        }
        used = until(
            lambda: values(metrics(client, uid, "CPU_USAGE_CORES", "CPU_MEMORY_USAGE_BYTES", "CPU_REQUEST_CORES")),
            lambda seen: float(seen.get("CPU_USAGE_CORES", 0)) > 0,
        )
        assert 2 * 2**20 < int(float(used["CPU_MEMORY_USAGE_BYTES"])) < 2**30, "two interpreters"
        assert used["CPU_REQUEST_CORES"] == "0.2"
        histograms = ("NIM_TIME_TO_FIRST_TOKEN_SECONDS", "NIM_E2E_REQUEST_LATENCY_SECONDS_PERCENTILES")
        [first, latency] = metrics(client, uid, *histograms)["histogram"]
        assert first["values"][0]["data"] == {bound: str(2 * count) for bound, count in COUNTS.items()}
        assert latency["values"][0]["data"] == {"p50": "0.0356", "p90": "0.361", "p99": "1.8873"}
        client.send("POST", f"/api/custom/workloads/{name}/stop")
        client.end(name)
