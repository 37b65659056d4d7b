-- What was asked for, what carries it, and everything that is read back later.
CREATE TABLE workload (
    uid TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    description TEXT NOT NULL,
    folded_description TEXT NOT NULL,
    kind TEXT NOT NULL,
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    workspace_id INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    user_id TEXT NOT NULL,
    user_name TEXT NOT NULL,
    folded_user TEXT NOT NULL,
    origin_api TEXT NOT NULL,
    priority INTEGER NOT NULL,
    preemptible INTEGER NOT NULL,
    timeout_seconds INTEGER NOT NULL,
    max_retry INTEGER NOT NULL,
    gpu_milli INTEGER NOT NULL,
    cpu_milli INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    replicas INTEGER NOT NULL,
    spec TEXT NOT NULL,
    phase TEXT NOT NULL,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    requeued INTEGER NOT NULL,
    not_before INTEGER,
    then_phase TEXT,
    message TEXT NOT NULL,
    waiting TEXT NOT NULL DEFAULT '',
    submitted_at INTEGER NOT NULL,
    phase_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    running_since INTEGER,
    ran_ms INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
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
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (workload_uid, kind, key)
) STRICT;
CREATE INDEX workload_label_value ON workload_label (kind, key, value, workload_uid);

CREATE TABLE condition (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    place INTEGER NOT NULL,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (workload_uid, version, place)
) STRICT;

CREATE TABLE phase_interval (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    phase TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    PRIMARY KEY (workload_uid, version)
) STRICT;

CREATE TABLE pod (
    uid TEXT PRIMARY KEY,
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    cluster_id TEXT NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    node TEXT NOT NULL,
    devices TEXT NOT NULL,
    phase TEXT NOT NULL,
    ready INTEGER NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    message TEXT NOT NULL,
    restarts INTEGER NOT NULL,
    gpu_milli INTEGER NOT NULL,
    cpu_milli INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    port INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    released_at INTEGER
) STRICT;
CREATE INDEX pod_of_workload ON pod (workload_uid, attempt, rank, created_at);
CREATE INDEX pod_held ON pod (cluster_id, workload_uid) WHERE released_at IS NULL;

CREATE TABLE allocation (
    pod_uid TEXT NOT NULL,
    device INTEGER NOT NULL,
    workload_uid TEXT NOT NULL,
    cluster_id TEXT NOT NULL,
    node TEXT NOT NULL,
    model TEXT NOT NULL,
    gpu_milli INTEGER NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    PRIMARY KEY (pod_uid, device)
) STRICT;
CREATE INDEX allocation_open ON allocation (cluster_id, node, device) WHERE to_at IS NULL;
CREATE INDEX allocation_of_workload ON allocation (workload_uid, from_at);
CREATE INDEX allocation_time ON allocation (cluster_id, to_at, from_at);

CREATE TABLE node (
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, name)
) STRICT;

CREATE TABLE change (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    workload_uid TEXT NOT NULL,
    slug TEXT NOT NULL,
    workspace_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL
) STRICT;
CREATE INDEX change_at ON change (at, seq);
CREATE INDEX change_of_workload ON change (workload_uid, seq);

CREATE TABLE log_chunk (
    pod_uid TEXT NOT NULL,
    number INTEGER NOT NULL,
    workload_uid TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    position INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (pod_uid, number)
) STRICT;
CREATE INDEX log_chunk_age ON log_chunk (last_at);
CREATE INDEX log_chunk_of_workload ON log_chunk (workload_uid, attempt, first_at);

CREATE TABLE lease (
    cluster_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
