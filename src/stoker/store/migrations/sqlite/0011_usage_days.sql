-- The ledger added up by day, for long reports: once by workload, and once without workloads. `lost` is the part of
-- `faulty` that was held; the rest is as in the ledger.
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
CREATE INDEX usage_day_of_workspace ON usage_day (workspace_id, day_at);
INSERT INTO usage_day
SELECT cluster_id, hour_at - hour_at % 86400000, workspace_id, namespace, user_id, model, SUM(busy), SUM(idle),
    SUM(starting), SUM(unmeasured), SUM(CASE WHEN payer = '' THEN 0 ELSE faulty END), SUM(free), SUM(faulty)
FROM ledger
GROUP BY 1, 2, 3, 4, 5, 6;

CREATE TABLE workload_day (
    cluster_id TEXT NOT NULL,
    day_at INTEGER NOT NULL,
    payer TEXT NOT NULL,
    model TEXT NOT NULL,
    workspace_id INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    idle INTEGER NOT NULL,
    starting INTEGER NOT NULL,
    unmeasured INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    free INTEGER NOT NULL,
    faulty INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, day_at, payer, model, workspace_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX workload_day_of_workspace ON workload_day (workspace_id, day_at);
INSERT INTO workload_day
SELECT cluster_id, hour_at - hour_at % 86400000, payer, model, workspace_id, SUM(busy), SUM(idle), SUM(starting),
    SUM(unmeasured), SUM(CASE WHEN payer = '' THEN 0 ELSE faulty END), SUM(free), SUM(faulty)
FROM ledger
GROUP BY 1, 2, 3, 4, 5;
