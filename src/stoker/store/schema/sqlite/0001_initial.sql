-- The schema of a new SQLite database.
-- Times (`..._at`, `..._since`, `..._until`) are UTC epoch milliseconds; NULL means "not yet".
-- GPUs and CPUs are counted in thousandths (`..._milli`).

-- Instance -----------------------------------------------------------------------------------------------------------

-- Stores the last number of each named sequence, and named watermarks.
CREATE TABLE sequence (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

-- Stores keys that the server generates once, such as the key that signs tokens.
CREATE TABLE secret (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Stores one row per cluster that this installation manages.
CREATE TABLE cluster (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    engine TEXT NOT NULL,
    description TEXT NOT NULL,
    config TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    credential TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    unreachable_since INTEGER,
    unreachable_message TEXT NOT NULL
) STRICT;

-- Elects one leader per cluster. A new leader increments `epoch`; a write with an older epoch is refused.
CREATE TABLE lease (
    cluster_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Organisation and identity ------------------------------------------------------------------------------------------

-- Groups workspaces.
CREATE TABLE department (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT;

-- Stores a workspace: its namespace on one cluster, its quota (NULL means unlimited), its queue and its idle policy.
CREATE TABLE workspace (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    department_id INTEGER NOT NULL REFERENCES department (id),
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    namespace TEXT NOT NULL,
    gpu_milli INTEGER,
    cpu_milli INTEGER,
    memory_bytes INTEGER,
    queue_policy TEXT NOT NULL,
    preemption INTEGER NOT NULL,
    guaranteed_seconds INTEGER NOT NULL DEFAULT 0,
    idle_action TEXT NOT NULL DEFAULT 'off',
    idle_threshold REAL,
    idle_window_seconds INTEGER NOT NULL DEFAULT 1800,
    idle_grace_seconds INTEGER NOT NULL DEFAULT 900,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    UNIQUE (cluster_id, namespace)
) STRICT;
CREATE INDEX workspace_by_department ON workspace (department_id, name);

-- Stores users and the service accounts of applications. `search_text` is the case-folded text that a search
-- looks in.
CREATE TABLE user_account (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL,
    search_text TEXT NOT NULL,
    password_hash TEXT,
    disabled INTEGER NOT NULL,
    default_workspace_id INTEGER REFERENCES workspace (id) ON DELETE SET NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT;
CREATE INDEX user_account_by_default_workspace ON user_account (default_workspace_id);

-- Grants a user a role in a workspace.
CREATE TABLE workspace_member (
    workspace_id INTEGER NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
) STRICT;
CREATE INDEX workspace_member_by_user ON workspace_member (user_id, workspace_id, role);

-- Credentials --------------------------------------------------------------------------------------------------------

-- Stores API keys by their hash. `hint` is the readable beginning of a key.
CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hint TEXT NOT NULL,
    sha256 TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    cidrs TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    last_used_from TEXT NOT NULL
) STRICT;
CREATE INDEX api_key_by_user ON api_key (user_id, name);

-- Records the admin keys that were read from files of data dirs, so that a revoked one is not accepted again.
CREATE TABLE admin_key (
    sha256 TEXT NOT NULL PRIMARY KEY,
    imported_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Stores the client id and secret of each application; its role is that of its service account.
CREATE TABLE application (
    client_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL UNIQUE REFERENCES user_account (id) ON DELETE CASCADE,
    secret_sha256 TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;

-- Stores browser sessions by the hash of their cookie.
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    csrf_token TEXT NOT NULL,
    address TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX session_by_user ON session (user_id);
CREATE INDEX session_by_expires_at ON session (expires_at);

-- Records login attempts; the login throttle counts them per subject.
CREATE TABLE login_attempt (
    id TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX login_attempt_by_subject ON login_attempt (subject, at);
CREATE INDEX login_attempt_by_at ON login_attempt (at);

-- Records every change that somebody made or tried to make.
CREATE TABLE audit_log (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    actor_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    credential TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    result TEXT NOT NULL,
    detail TEXT NOT NULL,
    trace_id TEXT NOT NULL
) STRICT;
CREATE INDEX audit_log_by_at ON audit_log (at);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);
CREATE INDEX audit_log_by_action ON audit_log (action, id);
CREATE INDEX audit_log_by_target ON audit_log (target, id);
CREATE INDEX audit_log_by_result ON audit_log (result, id);

-- Stores the answer to each request that carried an Idempotency-Key; a repeated request gets the same answer.
CREATE TABLE idempotency_key (
    user_id TEXT NOT NULL,
    key_sha256 TEXT NOT NULL,
    request_sha256 TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, key_sha256)
) STRICT;
CREATE INDEX idempotency_key_by_created_at ON idempotency_key (created_at);

-- Workloads ----------------------------------------------------------------------------------------------------------

-- Stores one row per workload. A writer replaces only the `version` that it read, and increments it.
CREATE TABLE workload (
    uid TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    kind TEXT NOT NULL,
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    workspace_id INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    user_id TEXT NOT NULL,
    user_name TEXT NOT NULL,
    origin_api TEXT NOT NULL,
    -- A foreign workload (`managed` is 0) was made by others and is only observed. Its workspace is 0 and its user is
    -- empty if they have none here. `engine_ref` is the engine's own name for a workload,
    -- `engine_phase` the state that it reports of one that it runs by itself.
    managed INTEGER NOT NULL DEFAULT 1,
    engine_ref TEXT NOT NULL DEFAULT '',
    engine_phase TEXT,
    api_version TEXT NOT NULL DEFAULT '',
    -- The request. `gpu_milli`, `cpu_milli` and `memory_bytes` are those of one replica.
    priority INTEGER NOT NULL,
    preemptible INTEGER NOT NULL,
    timeout_seconds INTEGER NOT NULL,
    max_retry INTEGER NOT NULL,
    gpu_milli INTEGER NOT NULL,
    cpu_milli INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    replicas INTEGER NOT NULL,
    spec TEXT NOT NULL,
    -- The state. `next_phase` is the phase that follows when all pods have terminated. `good_revision` is the latest
    -- revision of which every pod was ready. `notes` holds messages that stay valid while the workload runs.
    phase TEXT NOT NULL,
    next_phase TEXT,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    good_revision INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    grace_seconds INTEGER,
    message TEXT NOT NULL,
    notes TEXT NOT NULL DEFAULT '{}',
    -- The queue. `node_pools` are those in which its pods were last placed. `pending_message` and `pending_reason` say
    -- why replicas are pending. `reserved_nodes` have capacity reserved for this workload. The scheduler does not
    -- preempt it before `guaranteed_until`.
    requeued INTEGER NOT NULL,
    not_before INTEGER,
    node_pools TEXT NOT NULL DEFAULT 'default',
    pending_message TEXT NOT NULL DEFAULT '',
    pending_reason TEXT NOT NULL DEFAULT '',
    reserved_nodes TEXT NOT NULL DEFAULT '',
    guaranteed_until INTEGER,
    -- The times. `pending_ms` and `running_ms` are sums over finished intervals.
    submitted_at INTEGER NOT NULL,
    phase_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    deleted_at INTEGER,
    running_since INTEGER,
    running_ms INTEGER NOT NULL,
    pending_ms INTEGER NOT NULL DEFAULT 0,
    -- The case-folded texts that a search looks in.
    search_description TEXT NOT NULL,
    search_user TEXT NOT NULL,
    search_image TEXT NOT NULL DEFAULT ''
) STRICT;

-- Indexes of the controller and the scheduler.
CREATE INDEX workload_unfinished ON workload (cluster_id, workspace_id) WHERE ended_at IS NULL;
CREATE INDEX workload_pending ON workload (workspace_id, requeued, priority, submitted_at, uid)
    WHERE phase IN ('Pending', 'Resuming');
CREATE INDEX workload_deleting ON workload (uid) WHERE phase = 'Deleting';
CREATE UNIQUE INDEX workload_by_engine_ref ON workload (cluster_id, engine_ref) WHERE managed = 0 AND ended_at IS NULL;

-- Indexes of lists that are filtered by an equality.
CREATE INDEX workload_by_workspace ON workload (workspace_id, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_user ON workload (user_id, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_phase ON workload (phase, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_kind ON workload (kind, submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_namespace ON workload (cluster_id, namespace, kind, phase, user_id, priority, node_pools)
    WHERE deleted_at IS NULL;

-- Indexes of lists that are sorted by a time or searched by a text. The columns after `uid` cover the query.
CREATE INDEX workload_by_submitted_at ON workload (submitted_at, uid, deleted_at, workspace_id, name)
    WHERE deleted_at IS NULL;
CREATE INDEX workload_by_started_at ON workload (started_at, uid, deleted_at) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_ended_at ON workload (ended_at, uid, deleted_at, workspace_id, submitted_at)
    WHERE deleted_at IS NULL;
CREATE INDEX workload_by_phase_at ON workload (phase_at, uid, deleted_at) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_guaranteed_until ON workload (guaranteed_until, submitted_at, uid)
    WHERE deleted_at IS NULL AND guaranteed_until IS NOT NULL;
CREATE INDEX workload_by_name ON workload (name, uid, slug, deleted_at) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_image ON workload (search_image, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_description ON workload (search_description, uid, deleted_at)
    WHERE deleted_at IS NULL AND search_description <> '';
CREATE INDEX workload_by_gpus ON workload ((gpu_milli * replicas), uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_deleted_by_submitted_at ON workload (submitted_at, uid) WHERE deleted_at IS NOT NULL;
CREATE INDEX workload_deleted_by_deleted_at ON workload (deleted_at, uid) WHERE deleted_at IS NOT NULL;

-- Indexes of lists that are sorted by a duration. One that still grows is sorted by the time at which it would have
-- started from zero.
CREATE INDEX workload_by_running_ms ON workload (running_ms, uid) WHERE deleted_at IS NULL AND running_since IS NULL;
CREATE INDEX workload_by_running_start ON workload ((running_since - running_ms), uid)
    WHERE deleted_at IS NULL AND running_since IS NOT NULL;
CREATE INDEX workload_by_pending_ms ON workload (pending_ms, uid)
    WHERE deleted_at IS NULL AND phase NOT IN ('Pending', 'Resuming', 'Submitted');
CREATE INDEX workload_by_pending_start ON workload ((phase_at - pending_ms), uid)
    WHERE deleted_at IS NULL AND phase IN ('Pending', 'Resuming', 'Submitted');

-- Stores the labels and annotations of a workload; `kind` says which of both.
CREATE TABLE workload_label (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (workload_uid, kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX workload_label_by_value ON workload_label (kind, key, value, workload_uid);

-- Stores the conditions of a workload, in the order of `version` and `position`.
CREATE TABLE workload_condition (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (workload_uid, version, position)
) STRICT, WITHOUT ROWID;

-- Stores the phases that a workload went through; `to_at` of the current phase is NULL.
CREATE TABLE phase_interval (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    phase TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    PRIMARY KEY (workload_uid, version)
) STRICT, WITHOUT ROWID;

-- Stores the specs of earlier revisions of a Deployment or StatefulSet; a rollback reads them.
CREATE TABLE workload_revision (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (workload_uid, revision)
) STRICT;

-- Stores the objects between a foreign workload and its pods, such as the ReplicaSets of a Deployment.
CREATE TABLE workload_object (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    uid TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    namespace TEXT NOT NULL,
    owner_uid TEXT NOT NULL,
    PRIMARY KEY (workload_uid, uid)
) STRICT, WITHOUT ROWID;

-- Logs every event of every workload; event streams read it in the order of `seq`.
CREATE TABLE workload_event (
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
CREATE INDEX workload_event_by_workload ON workload_event (workload_uid, seq);

-- Counts workloads that share all of these columns; a total reads it instead of the workloads. `visibility` is 0 for an
-- existing workload, 1 for a deleted one whose pods still run and 2 for a deleted one without pods. Each connection
-- adds to its own `shard`, so that two writers do not wait for each other; a total is the sum over all shards.
CREATE TABLE workload_count (
    visibility INTEGER NOT NULL,
    cluster_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    workspace_id INTEGER NOT NULL,
    user_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    priority INTEGER NOT NULL,
    node_pools TEXT NOT NULL,
    shard INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    PRIMARY KEY (
        visibility, cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, node_pools, shard
    )
) STRICT, WITHOUT ROWID;

-- Pods and nodes -----------------------------------------------------------------------------------------------------

-- Stores the pods of all attempts. `released_at` is NULL while a pod occupies its node. `node_key` sorts node names in
-- natural order. `engine_uid` is the engine's own id of a pod, `owner_uid` the object that owns it directly,
-- if that is not the workload.
CREATE TABLE pod (
    uid TEXT PRIMARY KEY,
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    cluster_id TEXT NOT NULL,
    engine_uid TEXT NOT NULL DEFAULT '',
    owner_uid TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    node TEXT NOT NULL,
    node_key TEXT NOT NULL DEFAULT '',
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
CREATE INDEX pod_by_workload ON pod (workload_uid, attempt, rank, created_at);
CREATE INDEX pod_unreleased ON pod (cluster_id, workload_uid) WHERE released_at IS NULL;
CREATE INDEX pod_by_created_at ON pod (created_at, uid);
CREATE INDEX pod_by_ended_at ON pod (ended_at, uid);
CREATE INDEX pod_by_node_key ON pod (node_key, uid);
CREATE INDEX pod_by_node ON pod (node, uid);

-- Records which pod occupied which GPU from when to when; `to_at` of a current allocation is NULL. `slot` numbers the
-- GPUs of a pod. A GPU is identified by `gpu_uuid`, else by node and device; `device` is NULL while it is unknown.
CREATE TABLE allocation (
    pod_uid TEXT NOT NULL,
    slot INTEGER NOT NULL,
    workload_uid TEXT NOT NULL,
    cluster_id TEXT NOT NULL,
    node TEXT NOT NULL,
    device INTEGER,
    gpu_uuid TEXT NOT NULL,
    model TEXT NOT NULL,
    gpu_milli INTEGER NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    PRIMARY KEY (pod_uid, slot)
) STRICT;
CREATE INDEX allocation_current_by_device ON allocation (cluster_id, node, device) WHERE to_at IS NULL;
CREATE INDEX allocation_current_by_uuid ON allocation (cluster_id, gpu_uuid) WHERE to_at IS NULL;
CREATE INDEX allocation_current_by_workload ON allocation (workload_uid, model, gpu_milli) WHERE to_at IS NULL;
CREATE INDEX allocation_by_workload ON allocation (workload_uid, from_at);
CREATE INDEX allocation_by_time ON allocation (cluster_id, to_at, from_at);

-- Sums the current allocations of each workload, and the part of them that is idle. A workload without an allocation
-- has no row.
CREATE TABLE workload_allocation (
    workload_uid TEXT PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    allocated_milli INTEGER NOT NULL,
    idle_milli INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX workload_allocation_by_idle ON workload_allocation (cluster_id, idle_milli) WHERE idle_milli > 0;

-- Stores the nodes that the engine reported; `removed` is 1 for a node that it no longer reports.
-- `sort_key` sorts their names in natural order: gpu-2 before gpu-10.
CREATE TABLE node (
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    name TEXT NOT NULL,
    sort_key TEXT NOT NULL DEFAULT '',
    pool TEXT NOT NULL DEFAULT '',
    body TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, name)
) STRICT;

-- Records from when to when a GPU was present, was faulty, or reported a fault itself on a healthy node. `to_at` of a
-- current state is NULL. `gpu` is the UUID of the GPU, else its node and device; `node` and `device` are where it is, or
-- was last in this interval.
CREATE TABLE gpu_availability (
    cluster_id TEXT NOT NULL,
    gpu TEXT NOT NULL,
    state TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    node TEXT NOT NULL,
    device INTEGER NOT NULL,
    gpu_uuid TEXT NOT NULL,
    model TEXT NOT NULL,
    memory_bytes INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (cluster_id, gpu, state, from_at)
) STRICT;
CREATE INDEX gpu_availability_current ON gpu_availability (cluster_id, node) WHERE to_at IS NULL;
CREATE INDEX gpu_availability_reported ON gpu_availability (cluster_id, node) WHERE to_at IS NULL AND state = 'reported';
CREATE INDEX gpu_availability_by_to_at ON gpu_availability (cluster_id, to_at) WHERE to_at IS NOT NULL;

-- Telemetry ----------------------------------------------------------------------------------------------------------

-- Lists the GPUs of a cluster in the order in which samples store them. A changed list is a new row.
CREATE TABLE device_index (
    id INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    sha256 TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX device_index_by_sha256 ON device_index (cluster_id, sha256);

-- Records the sampling times of the current hour.
CREATE TABLE sample_tick (
    cluster_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    device_index_id INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, at)
) STRICT;

-- Stores the samples of one tick for a range of GPUs.
CREATE TABLE sample_stripe (
    cluster_id TEXT NOT NULL,
    first_gpu INTEGER NOT NULL,
    at INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (cluster_id, first_gpu, at)
) STRICT;
CREATE INDEX sample_stripe_by_at ON sample_stripe (cluster_id, at);

-- Describes an hour of compressed samples; its data is in `sample_chunk`.
CREATE TABLE sample_block (
    id INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    device_index_id INTEGER NOT NULL,
    ticks INTEGER NOT NULL,
    times BLOB NOT NULL,
    chunk_gpus INTEGER NOT NULL,
    sealed_at INTEGER
) STRICT;
CREATE INDEX sample_block_by_hour ON sample_block (cluster_id, hour_at, device_index_id);
CREATE INDEX sample_block_unsealed ON sample_block (cluster_id) WHERE sealed_at IS NULL;
CREATE INDEX sample_block_by_age ON sample_block (hour_at);

-- Stores the compressed samples of a range of GPUs.
CREATE TABLE sample_chunk (
    block_id INTEGER NOT NULL REFERENCES sample_block (id) ON DELETE CASCADE,
    first_gpu INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (block_id, first_gpu)
) STRICT;

-- Stores the samples of pods and inference servers of the current hour.
CREATE TABLE pod_sample_tick (
    cluster_id TEXT NOT NULL,
    stripe INTEGER NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (cluster_id, stripe, at, source)
) STRICT;
CREATE INDEX pod_sample_tick_by_at ON pod_sample_tick (cluster_id, at, stripe);

-- Stores the compressed samples of one pod and one hour.
CREATE TABLE pod_sample_block (
    pod_uid TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (pod_uid, hour_at)
) STRICT;
CREATE INDEX pod_sample_block_by_age ON pod_sample_block (hour_at);

-- Stores the latest encoded state of a cluster, one row per kind of view; API servers answer from it.
CREATE TABLE live_view (
    cluster_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (cluster_id, kind)
) STRICT;

-- Stores since when each workload has been idle and which warnings its owner got, so that a restart resets neither.
CREATE TABLE idle_tracker (
    cluster_id TEXT PRIMARY KEY REFERENCES cluster (id),
    at INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- Stores the training metrics that were read from logs or reported by jobs.
CREATE TABLE training_chunk (
    workload_uid TEXT NOT NULL,
    pod_uid TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    position INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    points INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (workload_uid, pod_uid, number)
) STRICT;
CREATE INDEX training_chunk_by_age ON training_chunk (last_at);

-- Stores the logs of pods in compressed chunks.
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
CREATE INDEX log_chunk_by_age ON log_chunk (last_at);
CREATE INDEX log_chunk_by_workload ON log_chunk (workload_uid, attempt, first_at);

-- Usage --------------------------------------------------------------------------------------------------------------
-- Amounts are milli-GPU-milliseconds; utilization is in hundredths of a percent.

-- Records which hours are closed and which have to be closed (again). `due` counts the reasons.
CREATE TABLE usage_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    closed_at INTEGER,
    close_count INTEGER NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
) STRICT;
CREATE INDEX usage_hour_due ON usage_hour (cluster_id, hour_at) WHERE due > 0;

-- Accounts for every GPU-second of an hour. `workload_uid` is '' for GPUs that were not allocated.
CREATE TABLE ledger (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    workload_uid TEXT NOT NULL,
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
    PRIMARY KEY (cluster_id, hour_at, workload_uid, model)
) STRICT;
CREATE INDEX ledger_by_workload ON ledger (workload_uid, hour_at);
CREATE INDEX ledger_by_workspace ON ledger (workspace_id, hour_at);

-- Sums the ledger by day, without workloads. `lost` is the part of `faulty` that was allocated.
CREATE TABLE usage_day (
    cluster_id TEXT NOT NULL,
    day_at INTEGER NOT NULL,
    workspace_id INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    user_id TEXT NOT NULL,
    model TEXT NOT NULL,
    busy INTEGER NOT NULL,
    idle INTEGER NOT NULL,
    starting INTEGER NOT NULL,
    unmeasured INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    free INTEGER NOT NULL,
    faulty INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, day_at, workspace_id, namespace, user_id, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_day_by_workspace ON usage_day (workspace_id, day_at);

-- Sums the ledger by day and workload.
CREATE TABLE workload_day (
    cluster_id TEXT NOT NULL,
    day_at INTEGER NOT NULL,
    workload_uid TEXT NOT NULL,
    model TEXT NOT NULL,
    workspace_id INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    idle INTEGER NOT NULL,
    starting INTEGER NOT NULL,
    unmeasured INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    free INTEGER NOT NULL,
    faulty INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, day_at, workload_uid, model, workspace_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX workload_day_by_workspace ON workload_day (workspace_id, day_at);

-- Stores the statistics of a cluster and hour.
CREATE TABLE cluster_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    id INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    utilization INTEGER NOT NULL,
    min_utilization INTEGER NOT NULL,
    max_utilization INTEGER NOT NULL,
    p50 INTEGER NOT NULL,
    p95 INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
) STRICT;

-- Stores the statistics of a namespace and hour.
CREATE TABLE namespace_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    id INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    utilization INTEGER NOT NULL,
    min_utilization INTEGER NOT NULL,
    max_utilization INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, namespace)
) STRICT;
CREATE INDEX namespace_hour_by_namespace ON namespace_hour (cluster_id, namespace, hour_at);

-- Stores the statistics of a label or annotation value and hour.
CREATE TABLE dimension_hour (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    id INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    utilization INTEGER NOT NULL,
    min_utilization INTEGER NOT NULL,
    max_utilization INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, kind, key, value)
) STRICT;
CREATE INDEX dimension_hour_by_value ON dimension_hour (cluster_id, kind, key, value, hour_at);

-- Stores the statistics of a workload and hour.
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
    min_utilization INTEGER NOT NULL,
    max_utilization INTEGER NOT NULL,
    p50 INTEGER NOT NULL,
    p95 INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    memory_used INTEGER NOT NULL,
    max_memory INTEGER NOT NULL,
    memory_size INTEGER NOT NULL,
    replicas_milli INTEGER NOT NULL,
    max_replicas INTEGER NOT NULL,
    min_replicas INTEGER NOT NULL,
    labels TEXT NOT NULL,
    annotations TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, uid)
) STRICT;
CREATE INDEX workload_hour_by_utilization ON workload_hour (cluster_id, utilization, hour_at, uid);
CREATE INDEX workload_hour_by_namespace_utilization ON workload_hour (cluster_id, namespace, utilization, hour_at, uid);
CREATE INDEX workload_hour_by_namespace ON workload_hour (cluster_id, namespace, hour_at, uid);
CREATE INDEX workload_hour_by_kind ON workload_hour (cluster_id, kind, utilization, hour_at, uid);
CREATE INDEX workload_hour_by_name ON workload_hour (cluster_id, name, hour_at, uid);

-- Counts the workloads of an hour; '' stands for all namespaces or all kinds.
CREATE TABLE workload_hour_count (
    cluster_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, namespace, kind, hour_at)
) STRICT;
CREATE INDEX workload_hour_count_by_age ON workload_hour_count (hour_at);

-- Stores the allocation of a cluster at regular times.
CREATE TABLE allocation_snapshot (
    id INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    allocated_milli INTEGER NOT NULL,
    details BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX allocation_snapshot_by_cluster ON allocation_snapshot (cluster_id, at);
CREATE INDEX allocation_snapshot_by_age ON allocation_snapshot (at);

-- Records how many GPUs a workload requested until a change, so that an earlier hour is closed with the earlier value.
CREATE TABLE workload_request_history (
    workload_uid TEXT NOT NULL,
    until_at INTEGER NOT NULL,
    gpu_milli INTEGER NOT NULL,
    PRIMARY KEY (workload_uid, until_at)
) STRICT;
CREATE INDEX workload_request_history_by_age ON workload_request_history (until_at);

-- Records the GPU quota of a namespace until a change; NULL means unlimited.
CREATE TABLE quota_history (
    cluster_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    until_at INTEGER NOT NULL,
    gpu_milli INTEGER,
    PRIMARY KEY (cluster_id, namespace, until_at)
) STRICT;
CREATE INDEX quota_history_by_age ON quota_history (until_at);

-- Webhooks -----------------------------------------------------------------------------------------------------------

-- Stores the endpoints that receive events. `previous_secret` signs as well until `previous_secret_until`.
CREATE TABLE webhook (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    workspace_id INTEGER REFERENCES workspace (id) ON DELETE CASCADE,
    events TEXT NOT NULL,
    secret TEXT NOT NULL,
    previous_secret TEXT NOT NULL DEFAULT '',
    previous_secret_until INTEGER NOT NULL DEFAULT 0,
    enabled INTEGER NOT NULL,
    disabled_reason TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_by_workspace ON webhook (workspace_id, created_at, id);

-- Stores the outbox: an event is written with the change that caused it, and sent afterwards in the order of `number`.
CREATE TABLE webhook_delivery (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id TEXT NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    event_id TEXT NOT NULL,
    event TEXT NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at INTEGER,
    last_attempt_at INTEGER,
    status INTEGER,
    error TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_delivery_by_webhook ON webhook_delivery (webhook_id, number);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook_id, next_attempt_at, number) WHERE state = 'pending';
CREATE INDEX webhook_delivery_by_state ON webhook_delivery (webhook_id, state, number);
CREATE INDEX webhook_delivery_finished ON webhook_delivery (at) WHERE state <> 'pending';
