-- Where every GPU-second went. Amounts are milli-GPU-milliseconds, utilisation is in hundredths of a percent.
CREATE TABLE gpu_span (
    cluster_id TEXT NOT NULL,
    node TEXT NOT NULL,
    device INTEGER NOT NULL,
    state TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    model TEXT NOT NULL,
    memory_bytes INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (cluster_id, node, device, state, from_at)
) STRICT;
CREATE INDEX gpu_span_open ON gpu_span (cluster_id, node) WHERE to_at IS NULL;
CREATE INDEX gpu_span_over ON gpu_span (cluster_id, to_at);

CREATE TABLE snapshot (
    id INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    allocated_milli INTEGER NOT NULL,
    details BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX snapshot_slot ON snapshot (cluster_id, at);
CREATE INDEX snapshot_age ON snapshot (at);

CREATE TABLE usage_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    closed_at INTEGER,
    closes INTEGER NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
) STRICT;
CREATE INDEX usage_hour_due ON usage_hour (cluster_id, hour_at) WHERE due > 0;

CREATE TABLE ledger (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    payer TEXT NOT NULL,
    model TEXT NOT NULL,
    workspace_id INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    user_id TEXT NOT NULL,
    faulty INTEGER NOT NULL,
    free INTEGER NOT NULL,
    starting INTEGER NOT NULL,
    unmeasured INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    idle INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, payer, model)
) STRICT;
CREATE INDEX ledger_of_payer ON ledger (payer, hour_at);
CREATE INDEX ledger_of_workspace ON ledger (workspace_id, hour_at);

CREATE TABLE cluster_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    id INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    utilization INTEGER NOT NULL,
    lowest INTEGER NOT NULL,
    highest INTEGER NOT NULL,
    p50 INTEGER NOT NULL,
    p95 INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
) STRICT;

CREATE TABLE namespace_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    id INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    utilization INTEGER NOT NULL,
    lowest INTEGER NOT NULL,
    highest INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, namespace)
) STRICT;
CREATE INDEX namespace_hour_of ON namespace_hour (cluster_id, namespace, hour_at);

CREATE TABLE dimension_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    id INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    utilization INTEGER NOT NULL,
    lowest INTEGER NOT NULL,
    highest INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, kind, key, value)
) STRICT;
CREATE INDEX dimension_hour_of ON dimension_hour (cluster_id, kind, key, value, hour_at);

CREATE TABLE workload_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    uid TEXT NOT NULL,
    id INTEGER NOT NULL,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    phase TEXT NOT NULL,
    allocated INTEGER NOT NULL,
    requested_milli INTEGER NOT NULL,
    utilization INTEGER NOT NULL,
    lowest INTEGER NOT NULL,
    highest INTEGER NOT NULL,
    p50 INTEGER NOT NULL,
    p95 INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    memory_used INTEGER NOT NULL,
    memory_highest INTEGER NOT NULL,
    memory_size INTEGER NOT NULL,
    replicas_milli INTEGER NOT NULL,
    replicas_highest INTEGER NOT NULL,
    replicas_lowest INTEGER NOT NULL,
    labels TEXT NOT NULL,
    annotations TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, uid)
) STRICT;
CREATE INDEX workload_hour_by_utilization ON workload_hour (cluster_id, utilization, hour_at, uid);
CREATE INDEX workload_hour_of_namespace ON workload_hour (cluster_id, namespace, utilization, hour_at, uid);
CREATE INDEX workload_hour_of_namespace_time ON workload_hour (cluster_id, namespace, hour_at, uid);
CREATE INDEX workload_hour_of_kind ON workload_hour (cluster_id, kind, utilization, hour_at, uid);
CREATE INDEX workload_hour_named ON workload_hour (cluster_id, name, hour_at, uid);

CREATE TABLE workload_hour_count (
    cluster_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, namespace, kind, hour_at)
) STRICT;
