-- Every workload by everything that it can be asked for: what there are few of is counted together, the rest has indexes.
ALTER TABLE workload ADD COLUMN waited_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workload ADD COLUMN pools TEXT NOT NULL DEFAULT 'default';
ALTER TABLE workload ADD COLUMN folded_image TEXT NOT NULL DEFAULT '';
UPDATE workload
SET folded_image = LOWER(COALESCE(json_extract(spec, '$.image'), '')),
    waited_ms = (
        SELECT COALESCE(SUM(phase_interval.to_at - phase_interval.from_at), 0)
        FROM phase_interval
        WHERE phase_interval.workload_uid = workload.uid
          AND phase_interval.phase IN ('Pending', 'Resuming')
          AND phase_interval.to_at IS NOT NULL
    );

-- `hidden` is 0 for what there is, 1 for what is deleted and whose pods still go, 2 for what is gone.
DROP TRIGGER workload_added;
DROP TRIGGER workload_moved;
DROP TRIGGER workload_removed;
DROP TABLE workload_count;
CREATE TABLE workload_count (
    hidden INTEGER NOT NULL,
    cluster_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    workspace_id INTEGER NOT NULL,
    user_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    priority INTEGER NOT NULL,
    pools TEXT NOT NULL,
    lane INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    PRIMARY KEY (hidden, cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, pools, lane)
) STRICT, WITHOUT ROWID;
INSERT INTO workload_count
SELECT CASE WHEN deleted_at IS NULL THEN 0 WHEN phase = 'Deleting' THEN 1 ELSE 2 END,
    cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, pools, 0, COUNT(*)
FROM workload
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10;

CREATE TRIGGER workload_added AFTER INSERT ON workload
BEGIN
    INSERT INTO workload_count
    VALUES (
        CASE WHEN NEW.deleted_at IS NULL THEN 0 WHEN NEW.phase = 'Deleting' THEN 1 ELSE 2 END,
        NEW.cluster_id, NEW.namespace, NEW.kind, NEW.phase, NEW.workspace_id, NEW.user_name, NEW.user_id, NEW.priority,
        NEW.pools, 0, 1
    )
    ON CONFLICT DO UPDATE SET workloads = workloads + 1;
END;
CREATE TRIGGER workload_moved AFTER UPDATE OF phase, deleted_at, priority, pools ON workload
WHEN OLD.phase <> NEW.phase
    OR OLD.priority <> NEW.priority
    OR OLD.pools <> NEW.pools
    OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL)
BEGIN
    UPDATE workload_count
    SET workloads = workloads - 1
    WHERE hidden = CASE WHEN OLD.deleted_at IS NULL THEN 0 WHEN OLD.phase = 'Deleting' THEN 1 ELSE 2 END
      AND cluster_id = OLD.cluster_id
      AND namespace = OLD.namespace
      AND kind = OLD.kind
      AND phase = OLD.phase
      AND workspace_id = OLD.workspace_id
      AND user_name = OLD.user_name
      AND user_id = OLD.user_id
      AND priority = OLD.priority
      AND pools = OLD.pools;
    INSERT INTO workload_count
    VALUES (
        CASE WHEN NEW.deleted_at IS NULL THEN 0 WHEN NEW.phase = 'Deleting' THEN 1 ELSE 2 END,
        NEW.cluster_id, NEW.namespace, NEW.kind, NEW.phase, NEW.workspace_id, NEW.user_name, NEW.user_id, NEW.priority,
        NEW.pools, 0, 1
    )
    ON CONFLICT DO UPDATE SET workloads = workloads + 1;
END;
CREATE TRIGGER workload_removed AFTER DELETE ON workload
BEGIN
    UPDATE workload_count
    SET workloads = workloads - 1
    WHERE hidden = CASE WHEN OLD.deleted_at IS NULL THEN 0 WHEN OLD.phase = 'Deleting' THEN 1 ELSE 2 END
      AND cluster_id = OLD.cluster_id
      AND namespace = OLD.namespace
      AND kind = OLD.kind
      AND phase = OLD.phase
      AND workspace_id = OLD.workspace_id
      AND user_name = OLD.user_name
      AND user_id = OLD.user_id
      AND priority = OLD.priority
      AND pools = OLD.pools;
END;

DROP INDEX workload_alike;
CREATE INDEX workload_alike ON workload (cluster_id, namespace, kind, phase, user_id, priority, pools)
    WHERE deleted_at IS NULL;
CREATE INDEX workload_phase_changed ON workload (phase_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_image ON workload (folded_image, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_ran ON workload (ran_ms, uid) WHERE deleted_at IS NULL AND running_since IS NULL;
CREATE INDEX workload_runs ON workload (running_since, uid) WHERE running_since IS NOT NULL;
CREATE INDEX workload_waited ON workload (waited_ms, uid) WHERE deleted_at IS NULL AND phase NOT IN ('Pending', 'Resuming');
CREATE INDEX workload_leaving ON workload (uid) WHERE phase = 'Deleting';
CREATE INDEX workload_gone ON workload (submitted_at, uid) WHERE deleted_at IS NOT NULL;
CREATE INDEX workload_gone_at ON workload (deleted_at, uid) WHERE deleted_at IS NOT NULL;

-- What workloads hold now, and how much of it nobody has used for long; only those that hold anything are here.
CREATE TABLE workload_use (
    workload_uid TEXT PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    allocated_milli INTEGER NOT NULL,
    idle_milli INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX workload_use_idle ON workload_use (cluster_id, idle_milli) WHERE idle_milli > 0;
INSERT INTO workload_use (workload_uid, cluster_id, allocated_milli)
SELECT workload_uid, cluster_id, SUM(gpu_milli)
FROM allocation
WHERE to_at IS NULL
GROUP BY workload_uid, cluster_id;
CREATE TRIGGER allocation_begun AFTER INSERT ON allocation WHEN NEW.to_at IS NULL
BEGIN
    INSERT INTO workload_use (workload_uid, cluster_id, allocated_milli)
    VALUES (NEW.workload_uid, NEW.cluster_id, NEW.gpu_milli)
    ON CONFLICT (workload_uid) DO UPDATE SET allocated_milli = allocated_milli + excluded.allocated_milli;
END;
CREATE TRIGGER allocation_over AFTER UPDATE OF to_at ON allocation WHEN OLD.to_at IS NULL AND NEW.to_at IS NOT NULL
BEGIN
    UPDATE workload_use
    SET allocated_milli = allocated_milli - OLD.gpu_milli
    WHERE workload_uid = OLD.workload_uid;
    DELETE FROM workload_use
    WHERE workload_uid = OLD.workload_uid
      AND allocated_milli <= 0;
END;
