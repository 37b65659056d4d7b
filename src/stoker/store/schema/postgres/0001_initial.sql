-- What was asked for, what carries it, and everything that is read back later.
CREATE TABLE workload (
    uid TEXT COLLATE "C" PRIMARY KEY,
    slug TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT COLLATE "C" NOT NULL,
    folded_name TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    folded_description TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    workspace_id BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    user_name TEXT COLLATE "C" NOT NULL,
    folded_user TEXT COLLATE "C" NOT NULL,
    origin_api TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL,
    preemptible BIGINT NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    max_retry BIGINT NOT NULL,
    gpu_milli BIGINT NOT NULL,
    cpu_milli BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    replicas BIGINT NOT NULL,
    spec TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    requeued BIGINT NOT NULL,
    not_before BIGINT,
    then_phase TEXT COLLATE "C",
    message TEXT COLLATE "C" NOT NULL,
    waiting TEXT COLLATE "C" NOT NULL DEFAULT '',
    submitted_at BIGINT NOT NULL,
    phase_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    running_since BIGINT,
    ran_ms BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX workload_active ON workload (cluster_id, phase) WHERE ended_at IS NULL;
CREATE INDEX workload_queue ON workload (workspace_id, requeued, priority, submitted_at, uid)
    WHERE phase IN ('Pending', 'Resuming');
CREATE INDEX workload_live ON workload (workspace_id) WHERE ended_at IS NULL;
CREATE INDEX workload_newest ON workload (submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_of_workspace ON workload (workspace_id, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_of_user ON workload (user_id, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_phase ON workload (phase, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_kind ON workload (kind, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_started ON workload (started_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_ended ON workload (ended_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_priority ON workload (priority, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_name ON workload (name, uid) WHERE deleted_at IS NULL;

CREATE TABLE workload_label (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workload_uid, kind, key)
);
CREATE INDEX workload_label_value ON workload_label (kind, key, value, workload_uid);

CREATE TABLE condition (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    place BIGINT NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (workload_uid, version, place)
);

CREATE TABLE phase_interval (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT,
    PRIMARY KEY (workload_uid, version)
);

CREATE TABLE pod (
    uid TEXT COLLATE "C" PRIMARY KEY,
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    cluster_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    devices TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    ready BIGINT NOT NULL,
    exit_code BIGINT,
    signal BIGINT,
    message TEXT COLLATE "C" NOT NULL,
    restarts BIGINT NOT NULL,
    gpu_milli BIGINT NOT NULL,
    cpu_milli BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    port BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    released_at BIGINT
);
CREATE INDEX pod_of_workload ON pod (workload_uid, attempt, rank, created_at);
CREATE INDEX pod_held ON pod (cluster_id, workload_uid) WHERE released_at IS NULL;

CREATE TABLE allocation (
    pod_uid TEXT COLLATE "C" NOT NULL,
    device BIGINT NOT NULL,
    workload_uid TEXT COLLATE "C" NOT NULL,
    cluster_id TEXT COLLATE "C" NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    gpu_milli BIGINT NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT,
    PRIMARY KEY (pod_uid, device)
);
CREATE INDEX allocation_open ON allocation (cluster_id, node, device) WHERE to_at IS NULL;
CREATE INDEX allocation_of_workload ON allocation (workload_uid, from_at);
CREATE INDEX allocation_time ON allocation (cluster_id, to_at, from_at);

CREATE TABLE node (
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    name TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    seen_at BIGINT NOT NULL,
    gone BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, name)
);

CREATE TABLE change (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    workload_uid TEXT COLLATE "C" NOT NULL,
    slug TEXT COLLATE "C" NOT NULL,
    workspace_id BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL
);
CREATE INDEX change_at ON change (at, seq);
CREATE INDEX change_of_workload ON change (workload_uid, seq);

CREATE TABLE log_chunk (
    pod_uid TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    workload_uid TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    position BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (pod_uid, number)
);
CREATE INDEX log_chunk_age ON log_chunk (last_at);
CREATE INDEX log_chunk_of_workload ON log_chunk (workload_uid, attempt, first_at);

CREATE TABLE lease (
    cluster_id TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
