-- How many workloads there are of what, kept in the transaction that changes it: a total costs no scan.
-- A lane belongs to one connection, so that two that count at once do not wait for each other; a total adds them up.
CREATE TABLE workload_count (
    cluster_id TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    lane BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, namespace, kind, phase, lane)
) WITH (fillfactor = 50);
INSERT INTO workload_count (cluster_id, namespace, kind, phase, lane, workloads)
SELECT cluster_id, namespace, kind, phase, 0, COUNT(*)
FROM workload
WHERE deleted_at IS NULL
GROUP BY cluster_id, namespace, kind, phase;

CREATE FUNCTION count_workload(counted workload, difference BIGINT) RETURNS void LANGUAGE sql AS $$
    INSERT INTO workload_count AS known (cluster_id, namespace, kind, phase, lane, workloads)
    VALUES (counted.cluster_id, counted.namespace, counted.kind, counted.phase, pg_backend_pid() % 1024, difference)
    ON CONFLICT (cluster_id, namespace, kind, phase, lane) DO UPDATE SET workloads = known.workloads + difference
$$;
CREATE FUNCTION workload_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.deleted_at IS NULL THEN
        PERFORM count_workload(OLD, -1);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.deleted_at IS NULL THEN
        PERFORM count_workload(NEW, 1);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER workload_added AFTER INSERT ON workload FOR EACH ROW EXECUTE FUNCTION workload_changed();
CREATE TRIGGER workload_moved AFTER UPDATE OF phase, deleted_at ON workload FOR EACH ROW
WHEN (OLD.phase <> NEW.phase OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL))
EXECUTE FUNCTION workload_changed();
CREATE TRIGGER workload_removed AFTER DELETE ON workload FOR EACH ROW EXECUTE FUNCTION workload_changed();

CREATE INDEX workload_alike ON workload (cluster_id, namespace, kind, phase) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_text ON workload (folded_name, uid, cluster_id, namespace, kind, deleted_at)
    WHERE deleted_at IS NULL;
-- The newest first, and what has no time yet last: PostgreSQL reads an index in this order only as it was made.
DROP INDEX workload_started;
CREATE INDEX workload_started ON workload (started_at DESC NULLS LAST, uid DESC) WHERE deleted_at IS NULL;
DROP INDEX workload_ended;
CREATE INDEX workload_ended ON workload (ended_at DESC NULLS LAST, uid DESC) WHERE deleted_at IS NULL;
