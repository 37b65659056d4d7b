-- Who is told of what happens, and what is done about GPUs that are held and not used.
CREATE TABLE webhook (
    id TEXT COLLATE "C" PRIMARY KEY,
    url TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    workspace_id BIGINT REFERENCES workspace (id) ON DELETE CASCADE,
    events TEXT COLLATE "C" NOT NULL,
    secret TEXT COLLATE "C" NOT NULL,
    old_secret TEXT COLLATE "C" NOT NULL DEFAULT '',
    old_secret_until BIGINT NOT NULL DEFAULT 0,
    enabled BIGINT NOT NULL,
    disabled_because TEXT COLLATE "C" NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX webhook_of_workspace ON webhook (workspace_id, created_at, id);

CREATE TABLE webhook_delivery (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    event_id TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    payload TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    tries BIGINT NOT NULL,
    next_at BIGINT,
    tried_at BIGINT,
    status BIGINT,
    error TEXT COLLATE "C" NOT NULL
);
CREATE INDEX webhook_delivery_of ON webhook_delivery (webhook_id, number);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook_id, next_at, number) WHERE state = 'pending';
CREATE INDEX webhook_delivery_over ON webhook_delivery (at) WHERE state <> 'pending';

ALTER TABLE workspace ADD COLUMN idle_action TEXT COLLATE "C" NOT NULL DEFAULT 'off';
ALTER TABLE workspace ADD COLUMN idle_threshold DOUBLE PRECISION;
ALTER TABLE workspace ADD COLUMN idle_window_seconds BIGINT NOT NULL DEFAULT 1800;
ALTER TABLE workspace ADD COLUMN idle_grace_seconds BIGINT NOT NULL DEFAULT 900;

CREATE TABLE idle_watch (
    cluster_id TEXT COLLATE "C" PRIMARY KEY REFERENCES cluster (id),
    at BIGINT NOT NULL,
    body BYTEA NOT NULL
);
