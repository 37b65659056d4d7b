-- Rows that are only found by their keys are kept in them, and nothing is indexed twice: a change of a workload writes less.
CREATE TABLE new_label (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (workload_uid, kind, key)
) STRICT, WITHOUT ROWID;
INSERT INTO new_label SELECT workload_uid, kind, key, value FROM workload_label;
DROP TABLE workload_label;
ALTER TABLE new_label RENAME TO workload_label;
CREATE INDEX workload_label_value ON workload_label (kind, key, value, workload_uid);

CREATE TABLE new_condition (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    place INTEGER NOT NULL,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (workload_uid, version, place)
) STRICT, WITHOUT ROWID;
INSERT INTO new_condition SELECT workload_uid, version, place, type, reason, message, at FROM condition;
DROP TABLE condition;
ALTER TABLE new_condition RENAME TO condition;

CREATE TABLE new_interval (
    workload_uid TEXT NOT NULL REFERENCES workload (uid) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    phase TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    PRIMARY KEY (workload_uid, version)
) STRICT, WITHOUT ROWID;
INSERT INTO new_interval SELECT workload_uid, version, phase, from_at, to_at FROM phase_interval;
DROP TABLE phase_interval;
ALTER TABLE new_interval RENAME TO phase_interval;

DROP INDEX workload_active;
DROP INDEX workload_live;
CREATE INDEX workload_live ON workload (cluster_id, workspace_id) WHERE ended_at IS NULL;
DROP INDEX change_at;
