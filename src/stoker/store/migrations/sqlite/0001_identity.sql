-- Who there is, what proves it, and what was done.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

CREATE TABLE secret (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE cluster (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    engine TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE department (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT;

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
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    UNIQUE (cluster_id, namespace)
) STRICT;
CREATE INDEX workspace_department ON workspace (department_id, name);

CREATE TABLE account (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    full_name TEXT NOT NULL,
    email TEXT NOT NULL,
    folded TEXT NOT NULL,
    password_hash TEXT,
    disabled INTEGER NOT NULL,
    default_workspace_id INTEGER REFERENCES workspace (id) ON DELETE SET NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT;
CREATE INDEX account_default_workspace ON account (default_workspace_id);

CREATE TABLE member (
    workspace_id INTEGER NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
) STRICT;
CREATE INDEX member_user ON member (user_id, workspace_id, role);

CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
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
CREATE INDEX api_key_user ON api_key (user_id, name);

CREATE TABLE application (
    client_id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL UNIQUE REFERENCES account (id) ON DELETE CASCADE,
    secret_sha256 TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;

CREATE TABLE session (
    id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    csrf_token TEXT NOT NULL,
    address TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX session_user ON session (user_id);
CREATE INDEX session_expiry ON session (expires_at);

CREATE TABLE login_attempt (
    id TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX login_attempt_subject ON login_attempt (subject, at);
CREATE INDEX login_attempt_at ON login_attempt (at);

CREATE TABLE audit (
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
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, id);
CREATE INDEX audit_action ON audit (action, id);
CREATE INDEX audit_target ON audit (target, id);
CREATE INDEX audit_result ON audit (result, id);

CREATE TABLE idempotency (
    user_id TEXT NOT NULL,
    key_sha256 TEXT NOT NULL,
    request_sha256 TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, key_sha256)
) STRICT;
CREATE INDEX idempotency_created ON idempotency (created_at);
