-- Who there is, what proves it, and what was done.
CREATE TABLE counter (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BIGINT NOT NULL
);

CREATE TABLE secret (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE cluster (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    engine TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE department (
    id BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    description TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);

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
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    UNIQUE (cluster_id, namespace)
);
CREATE INDEX workspace_department ON workspace (department_id, name);

CREATE TABLE account (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    kind TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    full_name TEXT COLLATE "C" NOT NULL,
    email TEXT COLLATE "C" NOT NULL,
    folded TEXT COLLATE "C" NOT NULL,
    password_hash TEXT COLLATE "C",
    disabled INTEGER NOT NULL,
    default_workspace_id BIGINT REFERENCES workspace (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX account_default_workspace ON account (default_workspace_id);

CREATE TABLE member (
    workspace_id BIGINT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    user_id TEXT COLLATE "C" NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    role TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX member_user ON member (user_id, workspace_id, role);

CREATE TABLE api_key (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_id TEXT COLLATE "C" NOT NULL REFERENCES account (id) ON DELETE CASCADE,
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
CREATE INDEX api_key_user ON api_key (user_id, name);

CREATE TABLE application (
    client_id TEXT COLLATE "C" PRIMARY KEY,
    user_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES account (id) ON DELETE CASCADE,
    secret_sha256 TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);

CREATE TABLE session (
    id TEXT COLLATE "C" PRIMARY KEY,
    sha256 TEXT COLLATE "C" NOT NULL UNIQUE,
    user_id TEXT COLLATE "C" NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    csrf_token TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX "session_user" ON session (user_id);
CREATE INDEX session_expiry ON session (expires_at);

CREATE TABLE login_attempt (
    id TEXT COLLATE "C" PRIMARY KEY,
    subject TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX login_attempt_subject ON login_attempt (subject, at);
CREATE INDEX login_attempt_at ON login_attempt (at);

CREATE TABLE audit (
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
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, id);
CREATE INDEX audit_action ON audit (action, id);
CREATE INDEX audit_target ON audit (target, id);
CREATE INDEX audit_result ON audit (result, id);

CREATE TABLE idempotency (
    user_id TEXT COLLATE "C" NOT NULL,
    key_sha256 TEXT COLLATE "C" NOT NULL,
    request_sha256 TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, key_sha256)
);
CREATE INDEX idempotency_created ON idempotency (created_at);
