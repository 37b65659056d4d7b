"""A list over very many workloads, as the vendor's client sends it, through the whole API on both databases.

`STOKER_BENCH_ROWS` says how many there are, a million if nothing is said. They are what a year would have left behind:
most have ended, a few thousand run, some wait.
"""

import gc
import os
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
from tests.api.harness import Harness
from tests.postgres import PostgresServer

from bench.startup import judged
from stoker.domain.clock import format_rfc3339
from stoker.store.cluster import clusters

NUMBER = int(os.environ.get("STOKER_BENCH_ROWS", "1_000_000"))
TURNS = int(os.environ.get("STOKER_BENCH_TURNS", "40"))
WORKSPACES = 60
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
INDEXED_MS, TEXT_MS = 30.0, 300.0
PATH = "/api/v1/workloads"
SPEC = '{"image":"python:3.11","entry_point":"python train.py --config config.yaml"}'
Run = Callable[[str, dict[str, object]], Any]
NUMBERS = """
INSERT INTO numbers
WITH RECURSIVE s(w) AS (SELECT 0 UNION ALL SELECT w + 1 FROM s WHERE w + 1 < :number)
SELECT w
FROM s
"""
ADD_WORKSPACES = """
INSERT INTO workspace (id, name, description, department_id, cluster_id, namespace, queue_policy, preemption,
                       created_at, updated_at, version)
SELECT 1000 + w, 'team-' || w, '', 1, :cluster_id, 'team-' || w, 'fifo', 0, 0, 0, 1
FROM numbers
WHERE w < :workspaces
"""
FILL = """
INSERT INTO workload (
    uid, slug, name, description, search_description, kind, cluster_id, workspace_id, namespace,
    user_id, user_name, search_user, origin_api, priority, preemptible, timeout_seconds, max_retry,
    gpu_milli, cpu_milli, memory_bytes, replicas, spec, phase, version, revision, attempt, retries, requeued,
    not_before, next_phase, message, submitted_at, phase_at, started_at, ended_at, running_since, running_ms,
    pending_ms, deleted_at, node_pools, search_image
)
SELECT uid, name || '-bcdfg', name, '', '', kind,
    :cluster_id, 1000 + team, 'team-' || team,
    'user-' || account, 'user-' || account, 'user-' || account, 'safe', priority, 0, 0, 0,
    gpus * 1000, 8000, 8589934592, 1, spec, phase, 3, 1, CASE WHEN phase = 'Pending' THEN 0 ELSE 1 END, 0, 0,
    NULL, NULL, '', at, CASE WHEN phase IN ('Pending', 'Running') THEN at ELSE at + ran END,
    CASE WHEN phase = 'Pending' THEN NULL ELSE at END,
    CASE WHEN phase IN ('Pending', 'Running') THEN NULL ELSE at + ran END,
    CASE WHEN phase = 'Running' THEN at ELSE NULL END,
    CASE WHEN phase IN ('Pending', 'Running') THEN 0 ELSE ran END, waited, NULL, 'default', image
FROM (
    SELECT SUBSTR(CAST(1000000000 + w AS TEXT), 2, 8) || '-' || SUBSTR(CAST(1000000000 + w AS TEXT), 10)
            || '000-7000-8000-000000000000' AS uid,
        CASE spread % 10 WHEN 0 THEN 'llama' WHEN 1 THEN 'bert' WHEN 2 THEN 'resnet' WHEN 3 THEN 'whisper'
            WHEN 4 THEN 'mixtral' WHEN 5 THEN 'dpo' WHEN 6 THEN 'sft' WHEN 7 THEN 'eval' WHEN 8 THEN 'ablation'
            ELSE 'tokenizer' END || '-run-' || w AS name,
        CASE dice % 5 WHEN 0 THEN 'Job' WHEN 1 THEN 'Deployment' WHEN 2 THEN 'Authoring' ELSE 'PyTorchJob' END AS kind,
        place % 397 % :workspaces AS team, place % 397 AS account,
        CASE WHEN dice % 10 = 3 THEN 125 WHEN dice % 100 = 7 THEN 150 ELSE 80 END AS priority,
        CASE spread % 4 WHEN 0 THEN 0 WHEN 1 THEN 8 ELSE 1 END AS gpus,
        CASE WHEN w * 1000 > CAST(:number AS BIGINT) * 995 AND dice % 4 < 2 THEN 'Running'
            WHEN w * 1000 > CAST(:number AS BIGINT) * 995 AND dice % 4 = 2 THEN 'Pending'
            WHEN dice % 13 = 1 THEN 'Failed' WHEN dice % 29 = 1 THEN 'Stopped' ELSE 'Completed' END AS phase,
        :began + w * (:year / CAST(:number AS BIGINT)) AS at, dice * 8641 AS ran, dice * 61 AS waited,
        'registry.example/team-' || (place % 397 % :workspaces) || '/'
            || CASE dice % 3 WHEN 0 THEN 'vllm' WHEN 1 THEN 'rocm' ELSE 'python' END || ':' || (dice % 5) AS image,
        CAST(:spec AS TEXT) AS spec
    FROM (
        SELECT w, (w * 7919) % 10007 AS dice, (w * 104729) % 9973 AS spread, (w * 15485863) % 9967 AS place
        FROM numbers
    ) AS thrown
) AS made
ORDER BY 1
"""
COUNT = """
INSERT INTO workload_count
SELECT 0, cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, node_pools, 0, COUNT(*)
FROM workload
GROUP BY cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, node_pools
"""
HOLD = """
INSERT INTO workload_allocation (workload_uid, cluster_id, allocated_milli)
SELECT uid, cluster_id, gpu_milli
FROM workload
WHERE phase = 'Running'
  AND gpu_milli > 0
"""
INDEXED = {
    "newest first": {"sortBy": "createdAt", "sortOrder": "desc"},
    "phase==Running by createdAt": {"filterBy": "phase==Running", "sortBy": "createdAt"},
    "phase==Failed by name": {"filterBy": "phase==Failed", "sortBy": "name"},
    "project, type by completedAt": {"filterBy": "projectName==team-7,type==Job", "sortBy": "completedAt"},
    "submittedBy by totalRunningTimeSeconds": {
        "filterBy": "submittedBy==user-17",
        "sortBy": "totalRunningTimeSeconds",
        "sortOrder": "desc",
    },
    "name== ": {"filterBy": "name==bert-run-77777", "sortBy": "createdAt"},
    "last week by name": {"filterBy": "createdAt>={week}", "sortBy": "name"},
    "last week, Failed by priority": {"filterBy": "createdAt>={week},phase==Failed", "sortBy": "priority"},
    "allocatedGPU>=1 by allocatedGPU": {"filterBy": "allocatedGPU>=1", "sortBy": "allocatedGPU", "sortOrder": "desc"},
    "by totalPendingTimeSeconds": {"sortBy": "totalPendingTimeSeconds", "sortOrder": "desc"},
    "by departmentName": {"sortBy": "departmentName"},
    "by submittedBy": {"sortBy": "submittedBy", "sortOrder": "desc"},
    "by projectName, page 20": {"sortBy": "projectName", "offset": "1000"},
    "priority>=125 by phaseUpdatedAt": {"filterBy": "priority>=125", "sortBy": "phaseUpdatedAt"},
    "project by name": {"filterBy": "projectName==team-7", "sortBy": "name"},
    "type by totalRunningTimeSeconds": {"filterBy": "type==Job", "sortBy": "totalRunningTimeSeconds"},
    "half a year by completedAt": {"filterBy": "createdAt>={half}", "sortBy": "completedAt"},
    "totalPendingTimeSeconds== by name": {"filterBy": "totalPendingTimeSeconds==300", "sortBy": "name"},
    "totalRunningTimeSeconds>= by itself": {
        "filterBy": "totalRunningTimeSeconds>=80000",
        "sortBy": "totalRunningTimeSeconds",
    },
    "completedAt>= last week by projectName": {"filterBy": "completedAt>={week}", "sortBy": "projectName"},
}
TEXT = {
    "name=@ rare": {"filterBy": "name=@-77777", "sortBy": "createdAt"},
    "name=@ common": {"filterBy": "name=@llama", "sortBy": "createdAt"},
    "name=@ nothing": {"filterBy": "name=@no-such-thing", "sortBy": "totalRunningTimeSeconds"},
    "name=^": {"filterBy": "name=^llama-run-77", "sortBy": "createdAt"},
    "name=$": {"filterBy": "name=$-4242", "sortBy": "name"},
    "projectName=@": {"filterBy": "projectName=@eam-7", "sortBy": "name"},
    "name!@ Failed": {"filterBy": "name!@bert,phase==Failed", "sortBy": "completedAt"},
    "search rare": {"search": "-run-77777"},
    "search nothing": {"search": "no-such-thing"},
    "search a project": {"search": "team-7", "sortBy": "createdAt"},
    "search an image": {"search": "vllm", "sortBy": "name"},
}
OTHERS = {
    "/api/custom/workloads?limit=50": INDEXED_MS,
    "/api/custom/workloads?limit=50&sortBy=runtime&phase=Failed": INDEXED_MS,
    "/api/custom/workloads?workloadId=run-77777": TEXT_MS,
    "/api/workloads?name=run-77777": TEXT_MS,
}
"""The same workloads in the lists of the other families, with totals."""


def sqlite() -> Iterator[str]:
    """filters, orders and search over very many workloads on SQLite: p99 of whole requests"""
    yield from _measured("")


def postgres() -> Iterator[str]:
    """the same on PostgreSQL with 512 MB of shared buffers"""
    server = PostgresServer(fsync=False, shared_buffers="512MB")
    try:
        server.start()
        with server.database() as url:
            yield from _measured(url)
    finally:
        server.remove()


def _measured(database: str) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        Harness(Path(folder) / "data", database) as harness,
    ):
        local = harness.run(harness.installation.store.read(lambda tx: clusters.find(tx, "local")))
        assert local is not None
        now = time.time_ns() // 1_000_000
        begun = time.perf_counter()
        if database:
            _fill_postgres(database, local.id, now)
        else:
            _fill_sqlite(Path(folder) / "data" / "stoker.db", local.id, now)
        yield f"{NUMBER:,} workloads built in {time.perf_counter() - begun:.0f} s"
        gc.collect()
        gc.freeze()  # as a server does once it is ready
        words = {"{week}": format_rfc3339(now - 7 * DAY_MS), "{half}": format_rfc3339(now - YEAR_MS // 2)}
        for queries, most in ((INDEXED, INDEXED_MS), (TEXT, TEXT_MS)):
            for name, query in queries.items():
                asked = str(httpx.QueryParams(query))
                for word, moment in words.items():
                    asked = asked.replace(quote(word), quote(moment))
                yield _line(harness, name, f"{PATH}?{asked}", most)
        for path, most in OTHERS.items():
            yield _line(harness, path, path, most)
        yield "A text is looked for in every name: the time grows with their number, and 300 ms are those of a million."


def _line(harness: Harness, name: str, path: str, most: float) -> str:
    answer, took = harness.get(path, as_="admin"), []
    for _ in range(TURNS):
        began = time.perf_counter()
        answer = harness.get(path, as_="admin")
        took.append((time.perf_counter() - began) * 1000)
    assert answer.status_code == 200, answer.text
    p99 = statistics.quantiles(took, n=100)[98]
    body = answer.json()
    rows = len(body.get("workloads") or body.get("items") or body.get("data", {}).get("data", ()))
    return f"{name:<60} {rows:>3} rows, median {statistics.median(took):6.1f} ms, p99 {p99:6.1f} ms{judged(p99, most)}"


def _fill_sqlite(path: Path, cluster_id: str, now: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -500000")
    made = "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'workload' AND type = 'index' AND sql IS NOT NULL"
    known = connection.execute(made).fetchall()
    connection.execute("BEGIN")
    for name, _ in known:
        connection.execute(f"DROP INDEX {name}")
    _fill(connection.execute, cluster_id, now)
    for _, statement in known:
        connection.execute(statement)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _fill_postgres(url: str, cluster_id: str, now: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:

        def run(sql: str, params: dict[str, object]) -> object:
            return connection.execute(re.sub(r"(?<!:):(\w+)", r"%(\1)s", sql.replace("%", "%%")).encode(), params)

        made = (
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'workload' AND indexdef NOT LIKE '%UNIQUE%'"
        )
        known = connection.execute(made).fetchall()
        run("SET maintenance_work_mem = '512MB'", {})
        for name, _ in known:
            run(f"DROP INDEX {name}", {})
        _fill(run, cluster_id, now)
        for _, statement in known:
            run(statement, {})
        run("VACUUM ANALYZE", {})


def _fill(run: Run, cluster_id: str, now: int) -> None:
    """Rows first, then the indexes: it is many times as fast."""
    known: dict[str, object] = {
        "cluster_id": cluster_id,
        "number": NUMBER,
        "workspaces": WORKSPACES,
        "year": YEAR_MS,
        "spec": SPEC,
    }
    run("CREATE TEMPORARY TABLE numbers (w BIGINT)", {})
    run(NUMBERS, known)
    run(ADD_WORKSPACES, known)
    run(FILL, {**known, "began": now - YEAR_MS})
    run(COUNT, {})
    run(HOLD, {})


BENCHES = (sqlite, postgres)
