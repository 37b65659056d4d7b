"""The data of the API document: the hours and snapshots of its examples, and every request that it shows."""

import json
from pathlib import Path
from typing import Any

from tests.contract.aggregation.harness import (
    BASE,
    GIB,
    UsageHarness,
    at,
    cluster_hour,
    dimension_hour,
    held,
    namespace_hour,
    workload_hour,
)

from stoker.domain.usage.hours import HourRollups
from stoker.domain.usage.ledger import GPU_HOUR

EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
HOUR = at("2025-11-05T14:00:00Z")
DAY = "start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T23:59:59Z"
YESTERDAY = "start_time=2025-11-04T00:00:00Z&end_time=2025-11-05T00:00:00Z"
WEEK = "start_time=2025-11-01T00:00:00Z&end_time=2025-11-07T23:59:59Z"
REQUESTS = {
    "cluster/hourly-stats": [YESTERDAY, f"cluster=prod-cluster&{YESTERDAY}"],
    "namespaces/hourly-stats": [DAY, f"namespace=ml-training&{DAY}"],
    "labels/hourly-stats": [
        f"dimension_type=label&dimension_key=team&{DAY}",
        f"dimension_type=label&dimension_key=team&dimension_value=ai-research&{DAY}",
        f"dimension_type=annotation&dimension_key=cost-center&{DAY}",
    ],
    "workloads/hourly-stats": [
        DAY,
        f"namespace=ml-training&{DAY}",
        f"namespace=ml-training&workload_name=bert-training-job&{WEEK}",
        f"workload_type=Job&{DAY}",
        f"{DAY}&page=1&page_size=50&order_by=utilization&order_direction=desc",
        f"cluster=cluster-1&namespace=production&workload_type=Deployment&{WEEK}",
        f"{DAY}&order_by=utilization&order_direction=asc&page_size=10",
    ],
    "snapshots/latest": ["", "cluster=prod-cluster"],
    "snapshots": ["", DAY],
    "clusters": [""],
    "namespaces": ["", "cluster=cluster-1"],
    "dimension-keys": ["", "dimension_type=annotation"],
    "dimension-values": ["dimension_key=team", "dimension_type=annotation&dimension_key=cost-center"],
}
PATHS = [f"{BASE}/{name}?{query}" for name, queries in REQUESTS.items() for query in queries]
LABELS = {"team": "research", "project": "nlp", "priority": "high"}
ANNOTATIONS = {"cost-center": "cc-001", "project-id": "proj-123"}


def fill(harness: UsageHarness) -> None:
    """What the examples show, of the cluster that they name and of the other two that the requests name."""
    for name in ("cluster-1", "prod-cluster", "local"):
        harness.write_down(HOUR, levels(), cluster=name)
        for minute in (0, 5):
            work = held("abc-123", 8, 0.853, name="bert-training", namespace="ml-training", kind="PyTorchJob")
            harness.photograph(
                work,
                held("def-456", 88, 0.658, namespace="inference", annotations={"cost-center": "cc-001"}),
                gpus=128,
                cluster=name,
                slot=HOUR + minute * 60_000,
            )


def levels() -> HourRollups:
    return HourRollups(
        cluster_hour(
            HOUR,
            gpus=128,
            allocated=round(96.5 * GPU_HOUR),
            utilization=6850,
            max_utilization=9520,
            min_utilization=4530,
            p50=7010,
            p95=8870,
            samples=12,
        ),
        (
            namespace_hour(
                HOUR, "ml-training", gpus=128, allocated=round(32.5 * GPU_HOUR), **stats(7230, 8950, 5520, 5)
            ),
            namespace_hour(HOUR, "inference", gpus=128, allocated=48 * GPU_HOUR, **stats(6580, 8210, 4830, 12)),
        ),
        (
            dimension_hour(HOUR, "label", "team", "ai-research", allocated=64 * GPU_HOUR, **stats(7850, 9230, 6210, 8)),
            dimension_hour(
                HOUR, "label", "team", "cv-team", allocated=round(32.5 * GPU_HOUR), **stats(6820, 8570, 5130, 4)
            ),
            dimension_hour(HOUR, "annotation", "cost-center", "cc-001"),
        ),
        (
            workload_hour(
                HOUR,
                "abc-def-123",
                slug="bert-training",
                name="bert-training-job",
                namespace="ml-training",
                allocated=8 * GPU_HOUR,
                requested_milli=8000,
                **{
                    "utilization": 8567,
                    "max_utilization": 9820,
                    "min_utilization": 7234,
                    "p50": 8512,
                    "p95": 9650,
                    "samples": 3600,
                },
                **{"memory_used": int(28.5 * GIB), "max_memory": int(31.2 * GIB), "memory_size": 32 * GIB},
                labels=LABELS,
                annotations=ANNOTATIONS,
            ),
            workload_hour(
                HOUR,
                "xyz-uvw-456",
                slug="inference-deployment",
                name="inference-server",
                kind="Deployment",
                namespace="ml-inference",
                allocated=4 * GPU_HOUR,
                requested_milli=4000,
                **{
                    "utilization": 6234,
                    "max_utilization": 8100,
                    "min_utilization": 4200,
                    "p50": 6100,
                    "p95": 7850,
                    "samples": 3600,
                },
                **{"memory_used": int(12.8 * GIB), "max_memory": int(15.6 * GIB), "memory_size": 16 * GIB},
                **{"replicas_milli": 2500, "max_replicas": 3, "min_replicas": 2},
                labels={"team": "production", "app": "inference"},
            ),
        ),
    )


def stats(utilization: int, highest: int, lowest: int, workloads: int) -> dict[str, int]:
    return {"utilization": utilization, "max_utilization": highest, "min_utilization": lowest, "workloads": workloads}
