-- Who is told of what happens, and what is done about GPUs that are held and not used.
CREATE TABLE webhook (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    workspace_id INTEGER REFERENCES workspace (id) ON DELETE CASCADE,
    events TEXT NOT NULL,
    secret TEXT NOT NULL,
    old_secret TEXT NOT NULL DEFAULT '',
    old_secret_until INTEGER NOT NULL DEFAULT 0,
    enabled INTEGER NOT NULL,
    disabled_because TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_of_workspace ON webhook (workspace_id, created_at, id);

CREATE TABLE webhook_delivery (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id TEXT NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    event_id TEXT NOT NULL,
    event TEXT NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    next_at INTEGER,
    tried_at INTEGER,
    status INTEGER,
    error TEXT NOT NULL
) STRICT;
CREATE INDEX webhook_delivery_of ON webhook_delivery (webhook_id, number);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook_id, next_at, number) WHERE state = 'pending';
CREATE INDEX webhook_delivery_over ON webhook_delivery (at) WHERE state <> 'pending';

ALTER TABLE workspace ADD COLUMN idle_action TEXT NOT NULL DEFAULT 'off';
ALTER TABLE workspace ADD COLUMN idle_threshold REAL;
ALTER TABLE workspace ADD COLUMN idle_window_seconds INTEGER NOT NULL DEFAULT 1800;
ALTER TABLE workspace ADD COLUMN idle_grace_seconds INTEGER NOT NULL DEFAULT 900;

CREATE TABLE idle_watch (
    cluster_id TEXT PRIMARY KEY REFERENCES cluster (id),
    at INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
