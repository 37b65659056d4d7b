-- Where every GPU-second went. Amounts are milli-GPU-milliseconds, utilisation is in hundredths of a percent.
CREATE TABLE gpu_span (
    cluster_id TEXT COLLATE "C" NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    device BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT,
    model TEXT COLLATE "C" NOT NULL,
    memory_bytes BIGINT NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (cluster_id, node, device, state, from_at)
);
CREATE INDEX gpu_span_open ON gpu_span (cluster_id, node) WHERE to_at IS NULL;
CREATE INDEX gpu_span_over ON gpu_span (cluster_id, to_at);

CREATE TABLE snapshot (
    id BIGINT PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    allocated_milli BIGINT NOT NULL,
    details BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX snapshot_slot ON snapshot (cluster_id, at);
CREATE INDEX snapshot_age ON snapshot (at);

CREATE TABLE usage_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    closed_at BIGINT,
    closes BIGINT NOT NULL,
    due BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
);
CREATE INDEX usage_hour_due ON usage_hour (cluster_id, hour_at) WHERE due > 0;

CREATE TABLE ledger (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    payer TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    workspace_id BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    faulty BIGINT NOT NULL,
    free BIGINT NOT NULL,
    starting BIGINT NOT NULL,
    unmeasured BIGINT NOT NULL,
    busy BIGINT NOT NULL,
    idle BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, payer, model)
) PARTITION BY RANGE (hour_at);
CREATE INDEX ledger_of_payer ON ledger (payer, hour_at);
CREATE INDEX ledger_of_workspace ON ledger (workspace_id, hour_at);

CREATE TABLE cluster_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    capacity BIGINT NOT NULL,
    allocated BIGINT NOT NULL,
    utilization BIGINT NOT NULL,
    lowest BIGINT NOT NULL,
    highest BIGINT NOT NULL,
    p50 BIGINT NOT NULL,
    p95 BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
);

CREATE TABLE namespace_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    allocated BIGINT NOT NULL,
    utilization BIGINT NOT NULL,
    lowest BIGINT NOT NULL,
    highest BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, namespace)
) PARTITION BY RANGE (hour_at);
CREATE INDEX namespace_hour_of ON namespace_hour (cluster_id, namespace, hour_at);

CREATE TABLE dimension_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    allocated BIGINT NOT NULL,
    utilization BIGINT NOT NULL,
    lowest BIGINT NOT NULL,
    highest BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, kind, key, value)
) PARTITION BY RANGE (hour_at);
CREATE INDEX dimension_hour_of ON dimension_hour (cluster_id, kind, key, value, hour_at);

CREATE TABLE workload_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    uid TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    slug TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    allocated BIGINT NOT NULL,
    requested_milli BIGINT NOT NULL,
    utilization BIGINT NOT NULL,
    lowest BIGINT NOT NULL,
    highest BIGINT NOT NULL,
    p50 BIGINT NOT NULL,
    p95 BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    memory_used BIGINT NOT NULL,
    memory_highest BIGINT NOT NULL,
    memory_size BIGINT NOT NULL,
    replicas_milli BIGINT NOT NULL,
    replicas_highest BIGINT NOT NULL,
    replicas_lowest BIGINT NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    annotations TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, uid)
) PARTITION BY RANGE (hour_at);
CREATE INDEX workload_hour_by_utilization ON workload_hour (cluster_id, utilization, hour_at, uid);
CREATE INDEX workload_hour_of_namespace ON workload_hour (cluster_id, namespace, utilization, hour_at, uid);
CREATE INDEX workload_hour_of_namespace_time ON workload_hour (cluster_id, namespace, hour_at, uid);
CREATE INDEX workload_hour_of_kind ON workload_hour (cluster_id, kind, utilization, hour_at, uid);
CREATE INDEX workload_hour_named ON workload_hour (cluster_id, name, hour_at, uid);

CREATE TABLE workload_hour_count (
    cluster_id TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, namespace, kind, hour_at)
);

-- Tables of hours are cut by month; a month has its part before its first hour is written.
CREATE FUNCTION make_month(at BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    month TIMESTAMP := date_trunc('month', to_timestamp(at / 1000.0) AT TIME ZONE 'UTC');
    begins BIGINT := (extract(epoch FROM month) * 1000)::BIGINT;
    ends BIGINT := (extract(epoch FROM month + INTERVAL '1 month') * 1000)::BIGINT;
    parent TEXT;
BEGIN
    IF to_regclass('workload_hour_' || to_char(month, 'YYYY_MM')) IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtext('stoker make_month'));
        FOREACH parent IN ARRAY ARRAY['ledger', 'namespace_hour', 'dimension_hour', 'workload_hour'] LOOP
            EXECUTE format(
                'CREATE TABLE IF NOT EXISTS %I PARTITION OF %I FOR VALUES FROM (%s) TO (%s)',
                parent || '_' || to_char(month, 'YYYY_MM'), parent, begins, ends
            );
        END LOOP;
    END IF;
    RETURN begins;
END
$$;
