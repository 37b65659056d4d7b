-- How many workloads there are of what, kept in the transaction that changes it: a total costs no scan.
CREATE TABLE workload_count (
    cluster_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    lane INTEGER NOT NULL,
    workloads INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, namespace, kind, phase, lane)
) STRICT;
INSERT INTO workload_count (cluster_id, namespace, kind, phase, lane, workloads)
SELECT cluster_id, namespace, kind, phase, 0, COUNT(*)
FROM workload
WHERE deleted_at IS NULL
GROUP BY cluster_id, namespace, kind, phase;

CREATE TRIGGER workload_added AFTER INSERT ON workload WHEN NEW.deleted_at IS NULL
BEGIN
    INSERT INTO workload_count (cluster_id, namespace, kind, phase, lane, workloads)
    VALUES (NEW.cluster_id, NEW.namespace, NEW.kind, NEW.phase, 0, 1)
    ON CONFLICT (cluster_id, namespace, kind, phase, lane) DO UPDATE SET workloads = workloads + 1;
END;
CREATE TRIGGER workload_moved AFTER UPDATE OF phase, deleted_at ON workload
WHEN OLD.phase <> NEW.phase OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL)
BEGIN
    UPDATE workload_count
    SET workloads = workloads - 1
    WHERE cluster_id = OLD.cluster_id
      AND namespace = OLD.namespace
      AND kind = OLD.kind
      AND phase = OLD.phase
      AND OLD.deleted_at IS NULL;
    INSERT INTO workload_count (cluster_id, namespace, kind, phase, lane, workloads)
    SELECT NEW.cluster_id, NEW.namespace, NEW.kind, NEW.phase, 0, 1
    WHERE NEW.deleted_at IS NULL
    ON CONFLICT (cluster_id, namespace, kind, phase, lane) DO UPDATE SET workloads = workloads + 1;
END;
CREATE TRIGGER workload_removed AFTER DELETE ON workload WHEN OLD.deleted_at IS NULL
BEGIN
    UPDATE workload_count
    SET workloads = workloads - 1
    WHERE cluster_id = OLD.cluster_id
      AND namespace = OLD.namespace
      AND kind = OLD.kind
      AND phase = OLD.phase;
END;

CREATE INDEX workload_alike ON workload (cluster_id, namespace, kind, phase) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_text ON workload (folded_name, uid, cluster_id, namespace, kind, deleted_at)
    WHERE deleted_at IS NULL;
