-- The schema of a new PostgreSQL database.
-- Times (`..._at`, `..._since`, `..._until`) are UTC epoch milliseconds; NULL means "not yet".
-- GPUs and CPUs are counted in thousandths (`..._milli`).
-- Texts are compared by their bytes (COLLATE "C"), as SQLite does.

-- Finds a text in another one; SQLite has a function of this name.
CREATE FUNCTION instr(TEXT, TEXT) RETURNS INTEGER LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT strpos($1, $2) $$;

-- Instance -----------------------------------------------------------------------------------------------------------

-- Stores the last number of each named sequence, and named watermarks.
CREATE TABLE sequence (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BIGINT NOT NULL
);

-- Stores keys that the server generates once, such as the key that signs tokens.
CREATE TABLE secret (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);

-- Stores one row per cluster that this installation manages.
CREATE TABLE cluster (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    engine TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    config TEXT COLLATE "C" NOT NULL,
    capabilities TEXT COLLATE "C" NOT NULL,
    credential TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    unreachable_since BIGINT,
    unreachable_message TEXT COLLATE "C" NOT NULL
);

-- Elects one leader per cluster. A new leader increments `epoch`; a write with an older epoch is refused.
CREATE TABLE lease (
    cluster_id TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Organisation and identity ------------------------------------------------------------------------------------------

-- Groups workspaces.
CREATE TABLE department (
    id BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    description TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);

-- Stores a workspace: its namespace on one cluster, its quota (NULL means unlimited), its queue and its idle policy.
CREATE TABLE workspace (
    id BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    description TEXT COLLATE "C" NOT NULL,
    department_id BIGINT NOT NULL REFERENCES department (id),
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    namespace TEXT COLLATE "C" NOT NULL,
    gpu_milli BIGINT,
    cpu_milli BIGINT,
    memory_bytes BIGINT,
    queue_policy TEXT COLLATE "C" NOT NULL,
    preemption INTEGER NOT NULL,
    guaranteed_seconds BIGINT NOT NULL DEFAULT 0,
    idle_action TEXT COLLATE "C" NOT NULL DEFAULT 'off',
    idle_threshold DOUBLE PRECISION,
    idle_window_seconds BIGINT NOT NULL DEFAULT 1800,
    idle_grace_seconds BIGINT NOT NULL DEFAULT 900,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    UNIQUE (cluster_id, namespace)
);
CREATE INDEX workspace_by_department ON workspace (department_id, name);

-- Stores users and the service accounts of applications. `search_text` is the case-folded text that a search
-- looks in.
CREATE TABLE user_account (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    kind TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    full_name TEXT COLLATE "C" NOT NULL,
    email TEXT COLLATE "C" NOT NULL,
    search_text TEXT COLLATE "C" NOT NULL,
    password_hash TEXT COLLATE "C",
    disabled INTEGER NOT NULL,
    default_workspace_id BIGINT REFERENCES workspace (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX user_account_by_default_workspace ON user_account (default_workspace_id);

-- Grants a user a role in a workspace.
CREATE TABLE workspace_member (
    workspace_id BIGINT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    user_id TEXT COLLATE "C" NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    role TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX workspace_member_by_user ON workspace_member (user_id, workspace_id, role);

-- Credentials --------------------------------------------------------------------------------------------------------

-- Stores API keys by their hash. `hint` is the readable beginning of a key.
CREATE TABLE api_key (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_id TEXT COLLATE "C" NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    hint TEXT COLLATE "C" NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL UNIQUE,
    scopes TEXT COLLATE "C" NOT NULL,
    cidrs TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    last_used_from TEXT COLLATE "C" NOT NULL
);
CREATE INDEX api_key_by_user ON api_key (user_id, name);

-- Records the admin keys that were read from files of data dirs, so that a revoked one is not accepted again.
CREATE TABLE admin_key (
    sha256 TEXT COLLATE "C" PRIMARY KEY,
    imported_at BIGINT NOT NULL
);

-- Stores the client id and secret of each application; its role is that of its service account.
CREATE TABLE application (
    client_id TEXT COLLATE "C" PRIMARY KEY,
    user_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES user_account (id) ON DELETE CASCADE,
    secret_sha256 TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);

-- Stores browser sessions by the hash of their cookie.
CREATE TABLE session (
    id TEXT COLLATE "C" PRIMARY KEY,
    sha256 TEXT COLLATE "C" NOT NULL UNIQUE,
    user_id TEXT COLLATE "C" NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    csrf_token TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX session_by_user ON session (user_id);
CREATE INDEX session_by_expires_at ON session (expires_at);

-- Records login attempts; the login throttle counts them per subject.
CREATE TABLE login_attempt (
    id TEXT COLLATE "C" PRIMARY KEY,
    subject TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX login_attempt_by_subject ON login_attempt (subject, at);
CREATE INDEX login_attempt_by_at ON login_attempt (at);

-- Records every change that somebody made or tried to make.
CREATE TABLE audit_log (
    id TEXT COLLATE "C" PRIMARY KEY,
    at BIGINT NOT NULL,
    actor_id TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    credential TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    result TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL,
    trace_id TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_log_by_at ON audit_log (at);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);
CREATE INDEX audit_log_by_action ON audit_log (action, id);
CREATE INDEX audit_log_by_target ON audit_log (target, id);
CREATE INDEX audit_log_by_result ON audit_log (result, id);

-- Stores the answer to each request that carried an Idempotency-Key; a repeated request gets the same answer.
CREATE TABLE idempotency_key (
    user_id TEXT COLLATE "C" NOT NULL,
    key_sha256 TEXT COLLATE "C" NOT NULL,
    request_sha256 TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, key_sha256)
);
CREATE INDEX idempotency_key_by_created_at ON idempotency_key (created_at);

-- Workloads ----------------------------------------------------------------------------------------------------------

-- Stores one row per workload. A writer replaces only the `version` that it read, and increments it.
CREATE TABLE workload (
    uid TEXT COLLATE "C" PRIMARY KEY,
    slug TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    workspace_id BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    user_name TEXT COLLATE "C" NOT NULL,
    origin_api TEXT COLLATE "C" NOT NULL,
    -- A foreign workload (`managed` is 0) was made by others and is only observed. Its workspace is 0 and its user is
    -- empty if they have none here. `engine_ref` is the engine's own name for a workload,
    -- `engine_phase` the state that it reports of one that it runs by itself.
    managed BIGINT NOT NULL DEFAULT 1,
    engine_ref TEXT COLLATE "C" NOT NULL DEFAULT '',
    engine_phase TEXT COLLATE "C",
    api_version TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- The request. `gpu_milli`, `cpu_milli` and `memory_bytes` are those of one replica.
    priority BIGINT NOT NULL,
    preemptible BIGINT NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    max_retry BIGINT NOT NULL,
    gpu_milli BIGINT NOT NULL,
    cpu_milli BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    replicas BIGINT NOT NULL,
    spec TEXT COLLATE "C" NOT NULL,
    -- The state. `next_phase` is the phase that follows when all pods have terminated. `good_revision` is the latest
    -- revision of which every pod was ready. `notes` holds messages that stay valid while the workload runs.
    phase TEXT COLLATE "C" NOT NULL,
    next_phase TEXT COLLATE "C",
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    good_revision BIGINT NOT NULL DEFAULT 0,
    attempt BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    grace_seconds BIGINT,
    message TEXT COLLATE "C" NOT NULL,
    notes TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    -- The queue. `node_pools` are those in which its pods were last placed. `pending_message` and `pending_reason` say
    -- why replicas are pending. `reserved_nodes` have capacity reserved for this workload. The scheduler does not
    -- preempt it before `guaranteed_until`.
    requeued BIGINT NOT NULL,
    not_before BIGINT,
    node_pools TEXT COLLATE "C" NOT NULL DEFAULT 'default',
    pending_message TEXT COLLATE "C" NOT NULL DEFAULT '',
    pending_reason TEXT COLLATE "C" NOT NULL DEFAULT '',
    reserved_nodes TEXT COLLATE "C" NOT NULL DEFAULT '',
    guaranteed_until BIGINT,
    -- The times. `pending_ms` and `running_ms` are sums over finished intervals.
    submitted_at BIGINT NOT NULL,
    phase_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    deleted_at BIGINT,
    running_since BIGINT,
    running_ms BIGINT NOT NULL,
    pending_ms BIGINT NOT NULL DEFAULT 0,
    -- The case-folded texts that a search looks in.
    search_description TEXT COLLATE "C" NOT NULL,
    search_user TEXT COLLATE "C" NOT NULL,
    search_image TEXT COLLATE "C" NOT NULL DEFAULT ''
);

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
-- `DESC NULLS LAST` is the order of the lists; PostgreSQL scans an index only in the order in which it was created.
CREATE INDEX workload_by_submitted_at ON workload (submitted_at, uid) INCLUDE (deleted_at, workspace_id, name)
    WHERE deleted_at IS NULL;
CREATE INDEX workload_by_started_at ON workload (started_at DESC NULLS LAST, uid DESC, deleted_at)
    WHERE deleted_at IS NULL;
CREATE INDEX workload_by_ended_at ON workload (ended_at DESC NULLS LAST, uid DESC)
    INCLUDE (deleted_at, workspace_id, submitted_at)
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

-- Statistics of expressions. A list keeps the index of its order by filtering on an expression that no index has;
-- these let the planner estimate how many rows match.
CREATE STATISTICS workload_unindexed_cluster_id ON ((cluster_id || '')) FROM workload;
CREATE STATISTICS workload_unindexed_namespace ON ((namespace || '')) FROM workload;
CREATE STATISTICS workload_unindexed_kind ON ((kind || '')) FROM workload;
CREATE STATISTICS workload_unindexed_phase ON ((phase || '')) FROM workload;
CREATE STATISTICS workload_unindexed_user_id ON ((user_id || '')) FROM workload;
CREATE STATISTICS workload_unindexed_user_name ON ((user_name || '')) FROM workload;
CREATE STATISTICS workload_unindexed_node_pools ON ((node_pools || '')) FROM workload;
CREATE STATISTICS workload_unindexed_name ON ((name || '')) FROM workload;
CREATE STATISTICS workload_unindexed_slug ON ((slug || '')) FROM workload;
CREATE STATISTICS workload_unindexed_workspace_id ON ((workspace_id + 0)) FROM workload;
CREATE STATISTICS workload_unindexed_priority ON ((priority + 0)) FROM workload;
CREATE STATISTICS workload_unindexed_submitted_at ON ((submitted_at + 0)) FROM workload;
CREATE STATISTICS workload_unindexed_started_at ON ((started_at + 0)) FROM workload;
CREATE STATISTICS workload_unindexed_ended_at ON ((ended_at + 0)) FROM workload;
CREATE STATISTICS workload_unindexed_phase_at ON ((phase_at + 0)) FROM workload;
CREATE STATISTICS workload_unindexed_guaranteed_until ON ((guaranteed_until + 0)) FROM workload;

-- Stores the labels and annotations of a workload; `kind` says which of both.
CREATE TABLE workload_label (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workload_uid, kind, key)
);
CREATE INDEX workload_label_by_value ON workload_label (kind, key, value, workload_uid);

-- Stores the conditions of a workload, in the order of `version` and `position`.
CREATE TABLE workload_condition (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    position BIGINT NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (workload_uid, version, position)
);

-- Stores the phases that a workload went through; `to_at` of the current phase is NULL.
CREATE TABLE phase_interval (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT,
    PRIMARY KEY (workload_uid, version)
);

-- Stores the specs of earlier revisions of a Deployment or StatefulSet; a rollback reads them.
CREATE TABLE workload_revision (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    revision BIGINT NOT NULL,
    spec TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workload_uid, revision)
);

-- Stores the objects between a foreign workload and its pods, such as the ReplicaSets of a Deployment.
CREATE TABLE workload_object (
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    uid TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    owner_uid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workload_uid, uid)
);

-- Logs every event of every workload; event streams read it in the order of `seq`.
CREATE TABLE workload_event (
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
CREATE INDEX workload_event_by_workload ON workload_event (workload_uid, seq);

-- Counts workloads that share all of these columns; a total reads it instead of the workloads. `visibility` is 0 for an
-- existing workload, 1 for a deleted one whose pods still run and 2 for a deleted one without pods. Each connection
-- adds to its own `shard`, so that two writers do not wait for each other; a total is the sum over all shards. The free
-- half of each page lets PostgreSQL update a count in place.
CREATE TABLE workload_count (
    visibility BIGINT NOT NULL,
    cluster_id TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    workspace_id BIGINT NOT NULL,
    user_name TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL,
    node_pools TEXT COLLATE "C" NOT NULL,
    shard BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    PRIMARY KEY (
        visibility, cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, node_pools, shard
    )
) WITH (fillfactor = 50);

-- Pods and nodes -----------------------------------------------------------------------------------------------------

-- Stores the pods of all attempts. `released_at` is NULL while a pod occupies its node. `node_key` sorts node names in
-- natural order. `engine_uid` is the engine's own id of a pod, `owner_uid` the object that owns it directly,
-- if that is not the workload.
CREATE TABLE pod (
    uid TEXT COLLATE "C" PRIMARY KEY,
    workload_uid TEXT COLLATE "C" NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    cluster_id TEXT COLLATE "C" NOT NULL,
    engine_uid TEXT COLLATE "C" NOT NULL DEFAULT '',
    owner_uid TEXT COLLATE "C" NOT NULL DEFAULT '',
    name TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    node_key TEXT COLLATE "C" NOT NULL DEFAULT '',
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
CREATE INDEX pod_by_workload ON pod (workload_uid, attempt, rank, created_at);
CREATE INDEX pod_unreleased ON pod (cluster_id, workload_uid) WHERE released_at IS NULL;
CREATE INDEX pod_by_created_at ON pod (created_at, uid);
CREATE INDEX pod_by_ended_at ON pod (ended_at, uid);
CREATE INDEX pod_by_node_key ON pod (node_key, uid);
CREATE INDEX pod_by_node ON pod (node, uid);

-- Records which pod occupied which GPU from when to when; `to_at` of a current allocation is NULL. `slot` numbers the
-- GPUs of a pod. A GPU is identified by `gpu_uuid`, else by node and device; `device` is NULL while it is unknown.
CREATE TABLE allocation (
    pod_uid TEXT COLLATE "C" NOT NULL,
    slot BIGINT NOT NULL,
    workload_uid TEXT COLLATE "C" NOT NULL,
    cluster_id TEXT COLLATE "C" NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    device BIGINT,
    gpu_uuid TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    gpu_milli BIGINT NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT,
    PRIMARY KEY (pod_uid, slot)
);
CREATE INDEX allocation_current_by_device ON allocation (cluster_id, node, device) WHERE to_at IS NULL;
CREATE INDEX allocation_current_by_uuid ON allocation (cluster_id, gpu_uuid) WHERE to_at IS NULL;
CREATE INDEX allocation_current_by_workload ON allocation (workload_uid, model, gpu_milli) WHERE to_at IS NULL;
CREATE INDEX allocation_by_workload ON allocation (workload_uid, from_at);
CREATE INDEX allocation_by_time ON allocation (cluster_id, to_at, from_at);

-- Sums the current allocations of each workload, and the part of them that is idle. A workload without an allocation
-- has no row.
CREATE TABLE workload_allocation (
    workload_uid TEXT COLLATE "C" PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL,
    allocated_milli BIGINT NOT NULL,
    idle_milli BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX workload_allocation_by_idle ON workload_allocation (cluster_id, idle_milli) WHERE idle_milli > 0;

-- Stores the nodes that the engine reported; `removed` is 1 for a node that it no longer reports.
-- `sort_key` sorts their names in natural order: gpu-2 before gpu-10.
CREATE TABLE node (
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    name TEXT COLLATE "C" NOT NULL,
    sort_key TEXT COLLATE "C" NOT NULL DEFAULT '',
    pool TEXT COLLATE "C" NOT NULL DEFAULT '',
    body TEXT COLLATE "C" NOT NULL,
    seen_at BIGINT NOT NULL,
    removed BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, name)
);

-- Records from when to when a GPU was present, was faulty, or reported a fault itself on a healthy node. `to_at` of a
-- current state is NULL. `gpu` is the UUID of the GPU, else its node and device; `node` and `device` are where it is, or
-- was last in this interval.
CREATE TABLE gpu_availability (
    cluster_id TEXT COLLATE "C" NOT NULL,
    gpu TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT,
    node TEXT COLLATE "C" NOT NULL,
    device BIGINT NOT NULL,
    gpu_uuid TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    memory_bytes BIGINT NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (cluster_id, gpu, state, from_at)
);
CREATE INDEX gpu_availability_current ON gpu_availability (cluster_id, node) WHERE to_at IS NULL;
CREATE INDEX gpu_availability_reported ON gpu_availability (cluster_id, node) WHERE to_at IS NULL AND state = 'reported';
CREATE INDEX gpu_availability_by_to_at ON gpu_availability (cluster_id, to_at) WHERE to_at IS NOT NULL;

-- Telemetry ----------------------------------------------------------------------------------------------------------

-- Lists the GPUs of a cluster in the order in which samples store them. A changed list is a new row.
CREATE TABLE device_index (
    id BIGINT PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    sha256 TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX device_index_by_sha256 ON device_index (cluster_id, sha256);

-- Records the sampling times of the current hour.
CREATE TABLE sample_tick (
    cluster_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    device_index_id BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, at)
);

-- Stores the samples of one tick for a range of GPUs.
CREATE TABLE sample_stripe (
    cluster_id TEXT COLLATE "C" NOT NULL,
    first_gpu BIGINT NOT NULL,
    at BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, first_gpu, at)
);
CREATE INDEX sample_stripe_by_at ON sample_stripe (cluster_id, at);

-- Describes an hour of compressed samples; its data is in `sample_chunk`.
CREATE TABLE sample_block (
    id BIGINT PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    device_index_id BIGINT NOT NULL,
    ticks BIGINT NOT NULL,
    times BYTEA NOT NULL,
    chunk_gpus BIGINT NOT NULL,
    sealed_at BIGINT
);
CREATE INDEX sample_block_by_hour ON sample_block (cluster_id, hour_at, device_index_id);
CREATE INDEX sample_block_unsealed ON sample_block (cluster_id) WHERE sealed_at IS NULL;
CREATE INDEX sample_block_by_age ON sample_block (hour_at);

-- Stores the compressed samples of a range of GPUs.
CREATE TABLE sample_chunk (
    block_id BIGINT NOT NULL REFERENCES sample_block (id) ON DELETE CASCADE,
    first_gpu BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (block_id, first_gpu)
);

-- Stores the samples of pods and inference servers of the current hour.
CREATE TABLE pod_sample_tick (
    cluster_id TEXT COLLATE "C" NOT NULL,
    stripe BIGINT NOT NULL,
    at BIGINT NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, stripe, at, source)
);
CREATE INDEX pod_sample_tick_by_at ON pod_sample_tick (cluster_id, at, stripe);

-- Stores the compressed samples of one pod and one hour.
CREATE TABLE pod_sample_block (
    pod_uid TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (pod_uid, hour_at)
);
CREATE INDEX pod_sample_block_by_age ON pod_sample_block (hour_at);

-- Stores the latest encoded state of a cluster, one row per kind of view; API servers answer from it.
CREATE TABLE live_view (
    cluster_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, kind)
);

-- Stores since when each workload has been idle and which warnings its owner got, so that a restart resets neither.
CREATE TABLE idle_tracker (
    cluster_id TEXT COLLATE "C" PRIMARY KEY REFERENCES cluster (id),
    at BIGINT NOT NULL,
    body BYTEA NOT NULL
);

-- Stores the training metrics that were read from logs or reported by jobs.
CREATE TABLE training_chunk (
    workload_uid TEXT COLLATE "C" NOT NULL,
    pod_uid TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    position BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    points BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (workload_uid, pod_uid, number)
);
CREATE INDEX training_chunk_by_age ON training_chunk (last_at);

-- Stores the logs of pods in compressed chunks.
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
CREATE INDEX log_chunk_by_age ON log_chunk (last_at);
CREATE INDEX log_chunk_by_workload ON log_chunk (workload_uid, attempt, first_at);

-- Usage --------------------------------------------------------------------------------------------------------------
-- Amounts are milli-GPU-milliseconds; utilization is in hundredths of a percent.

-- Records which hours are closed and which have to be closed (again). `due` counts the reasons.
CREATE TABLE usage_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    closed_at BIGINT,
    close_count BIGINT NOT NULL,
    due BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
);
CREATE INDEX usage_hour_due ON usage_hour (cluster_id, hour_at) WHERE due > 0;

-- Accounts for every GPU-second of an hour. `workload_uid` is '' for GPUs that were not allocated.
CREATE TABLE ledger (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    workload_uid TEXT COLLATE "C" NOT NULL,
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
    PRIMARY KEY (cluster_id, hour_at, workload_uid, model)
) PARTITION BY RANGE (hour_at);
CREATE INDEX ledger_by_workload ON ledger (workload_uid, hour_at);
CREATE INDEX ledger_by_workspace ON ledger (workspace_id, hour_at);

-- Sums the ledger by day, without workloads. `lost` is the part of `faulty` that was allocated.
CREATE TABLE usage_day (
    cluster_id TEXT COLLATE "C" NOT NULL,
    day_at BIGINT NOT NULL,
    workspace_id BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    busy BIGINT NOT NULL,
    idle BIGINT NOT NULL,
    starting BIGINT NOT NULL,
    unmeasured BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    free BIGINT NOT NULL,
    faulty BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, day_at, workspace_id, namespace, user_id, model)
);
CREATE INDEX usage_day_by_workspace ON usage_day (workspace_id, day_at);

-- Sums the ledger by day and workload.
CREATE TABLE workload_day (
    cluster_id TEXT COLLATE "C" NOT NULL,
    day_at BIGINT NOT NULL,
    workload_uid TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    workspace_id BIGINT NOT NULL,
    busy BIGINT NOT NULL,
    idle BIGINT NOT NULL,
    starting BIGINT NOT NULL,
    unmeasured BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    free BIGINT NOT NULL,
    faulty BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, day_at, workload_uid, model, workspace_id)
);
CREATE INDEX workload_day_by_workspace ON workload_day (workspace_id, day_at);

-- Stores the statistics of a cluster and hour.
CREATE TABLE cluster_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    capacity BIGINT NOT NULL,
    allocated BIGINT NOT NULL,
    utilization BIGINT NOT NULL,
    min_utilization BIGINT NOT NULL,
    max_utilization BIGINT NOT NULL,
    p50 BIGINT NOT NULL,
    p95 BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at)
);

-- Stores the statistics of a namespace and hour.
CREATE TABLE namespace_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    allocated BIGINT NOT NULL,
    utilization BIGINT NOT NULL,
    min_utilization BIGINT NOT NULL,
    max_utilization BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, namespace)
) PARTITION BY RANGE (hour_at);
CREATE INDEX namespace_hour_by_namespace ON namespace_hour (cluster_id, namespace, hour_at);

-- Stores the statistics of a label or annotation value and hour.
CREATE TABLE dimension_hour (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    allocated BIGINT NOT NULL,
    utilization BIGINT NOT NULL,
    min_utilization BIGINT NOT NULL,
    max_utilization BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, kind, key, value)
) PARTITION BY RANGE (hour_at);
CREATE INDEX dimension_hour_by_value ON dimension_hour (cluster_id, kind, key, value, hour_at);

-- Stores the statistics of a workload and hour.
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
    min_utilization BIGINT NOT NULL,
    max_utilization BIGINT NOT NULL,
    p50 BIGINT NOT NULL,
    p95 BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    memory_used BIGINT NOT NULL,
    max_memory BIGINT NOT NULL,
    memory_size BIGINT NOT NULL,
    replicas_milli BIGINT NOT NULL,
    max_replicas BIGINT NOT NULL,
    min_replicas BIGINT NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    annotations TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, uid)
) PARTITION BY RANGE (hour_at);
CREATE INDEX workload_hour_by_utilization ON workload_hour (cluster_id, utilization, hour_at, uid);
CREATE INDEX workload_hour_by_namespace_utilization ON workload_hour (cluster_id, namespace, utilization, hour_at, uid);
CREATE INDEX workload_hour_by_namespace ON workload_hour (cluster_id, namespace, hour_at, uid);
CREATE INDEX workload_hour_by_kind ON workload_hour (cluster_id, kind, utilization, hour_at, uid);
CREATE INDEX workload_hour_by_name ON workload_hour (cluster_id, name, hour_at, uid);

-- Counts the workloads of an hour; '' stands for all namespaces or all kinds.
CREATE TABLE workload_hour_count (
    cluster_id TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, namespace, kind, hour_at)
);
CREATE INDEX workload_hour_count_by_age ON workload_hour_count (hour_at);

-- Stores the allocation of a cluster at regular times.
CREATE TABLE allocation_snapshot (
    id BIGINT PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    allocated_milli BIGINT NOT NULL,
    details BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX allocation_snapshot_by_cluster ON allocation_snapshot (cluster_id, at);
CREATE INDEX allocation_snapshot_by_age ON allocation_snapshot (at);

-- Records how many GPUs a workload requested until a change, so that an earlier hour is closed with the earlier value.
CREATE TABLE workload_request_history (
    workload_uid TEXT COLLATE "C" NOT NULL,
    until_at BIGINT NOT NULL,
    gpu_milli BIGINT NOT NULL,
    PRIMARY KEY (workload_uid, until_at)
);
CREATE INDEX workload_request_history_by_age ON workload_request_history (until_at);

-- Records the GPU quota of a namespace until a change; NULL means unlimited.
CREATE TABLE quota_history (
    cluster_id TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    until_at BIGINT NOT NULL,
    gpu_milli BIGINT,
    PRIMARY KEY (cluster_id, namespace, until_at)
);
CREATE INDEX quota_history_by_age ON quota_history (until_at);

-- Creates the partitions of a month for the tables that are partitioned by `hour_at`, unless they exist. The server
-- calls it before it writes the first hour of a month.
CREATE FUNCTION create_month_partitions(at BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    month TIMESTAMP := date_trunc('month', to_timestamp(at / 1000.0) AT TIME ZONE 'UTC');
    begins BIGINT := (extract(epoch FROM month) * 1000)::BIGINT;
    ends BIGINT := (extract(epoch FROM month + INTERVAL '1 month') * 1000)::BIGINT;
    parent TEXT;
BEGIN
    IF to_regclass('workload_hour_' || to_char(month, 'YYYY_MM')) IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtext('stoker create_month_partitions'));
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

-- Webhooks -----------------------------------------------------------------------------------------------------------

-- Stores the endpoints that receive events. `previous_secret` signs as well until `previous_secret_until`.
CREATE TABLE webhook (
    id TEXT COLLATE "C" PRIMARY KEY,
    url TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    workspace_id BIGINT REFERENCES workspace (id) ON DELETE CASCADE,
    events TEXT COLLATE "C" NOT NULL,
    secret TEXT COLLATE "C" NOT NULL,
    previous_secret TEXT COLLATE "C" NOT NULL DEFAULT '',
    previous_secret_until BIGINT NOT NULL DEFAULT 0,
    enabled BIGINT NOT NULL,
    disabled_reason TEXT COLLATE "C" NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX webhook_by_workspace ON webhook (workspace_id, created_at, id);

-- Stores the outbox: an event is written with the change that caused it, and sent afterwards in the order of `number`.
CREATE TABLE webhook_delivery (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    event_id TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    payload TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    next_attempt_at BIGINT,
    last_attempt_at BIGINT,
    status BIGINT,
    error TEXT COLLATE "C" NOT NULL
);
CREATE INDEX webhook_delivery_by_webhook ON webhook_delivery (webhook_id, number);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook_id, next_attempt_at, number) WHERE state = 'pending';
CREATE INDEX webhook_delivery_by_state ON webhook_delivery (webhook_id, state, number);
CREATE INDEX webhook_delivery_finished ON webhook_delivery (at) WHERE state <> 'pending';
