-- Every workload by everything that it can be asked for: what there are few of is counted together, the rest has indexes.
ALTER TABLE workload
    ADD COLUMN waited_ms BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN pools TEXT COLLATE "C" NOT NULL DEFAULT 'default',
    ADD COLUMN folded_image TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE workload
SET folded_image = LOWER(COALESCE(CAST(spec AS json) ->> 'image', '')),
    waited_ms = (
        SELECT COALESCE(SUM(phase_interval.to_at - phase_interval.from_at), 0)
        FROM phase_interval
        WHERE phase_interval.workload_uid = workload.uid
          AND phase_interval.phase IN ('Pending', 'Resuming')
          AND phase_interval.to_at IS NOT NULL
    );

-- `hidden` is 0 for what there is, 1 for what is deleted and whose pods still go, 2 for what is gone.
DROP TRIGGER workload_added ON workload;
DROP TRIGGER workload_moved ON workload;
DROP TRIGGER workload_removed ON workload;
DROP FUNCTION workload_changed;
DROP FUNCTION count_workload;
DROP TABLE workload_count;
CREATE TABLE workload_count (
    hidden BIGINT NOT NULL,
    cluster_id TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    workspace_id BIGINT NOT NULL,
    user_name TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL,
    pools TEXT COLLATE "C" NOT NULL,
    lane BIGINT NOT NULL,
    workloads BIGINT NOT NULL,
    PRIMARY KEY (hidden, cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, pools, lane)
) WITH (fillfactor = 50);
CREATE FUNCTION hidden_as(counted workload) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN counted.deleted_at IS NULL THEN 0 WHEN counted.phase = 'Deleting' THEN 1 ELSE 2 END
$$;
INSERT INTO workload_count
SELECT hidden_as(workload), cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, pools, 0,
    COUNT(*)
FROM workload
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10;

CREATE FUNCTION count_workload(counted workload, difference BIGINT) RETURNS void LANGUAGE sql AS $$
    INSERT INTO workload_count AS known
    VALUES (
        hidden_as(counted), counted.cluster_id, counted.namespace, counted.kind, counted.phase, counted.workspace_id,
        counted.user_name, counted.user_id, counted.priority, counted.pools, pg_backend_pid() % 1024, difference
    )
    ON CONFLICT ON CONSTRAINT workload_count_pkey DO UPDATE SET workloads = known.workloads + difference
$$;
CREATE FUNCTION workload_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM count_workload(OLD, -1);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM count_workload(NEW, 1);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER workload_added AFTER INSERT ON workload FOR EACH ROW EXECUTE FUNCTION workload_changed();
CREATE TRIGGER workload_moved AFTER UPDATE OF phase, deleted_at, priority, pools ON workload FOR EACH ROW
WHEN (
    OLD.phase <> NEW.phase
    OR OLD.priority <> NEW.priority
    OR OLD.pools <> NEW.pools
    OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL)
)
EXECUTE FUNCTION workload_changed();
CREATE TRIGGER workload_removed AFTER DELETE ON workload FOR EACH ROW EXECUTE FUNCTION workload_changed();

DROP INDEX workload_alike;
CREATE INDEX workload_alike ON workload (cluster_id, namespace, kind, phase, user_id, priority, pools)
    WHERE deleted_at IS NULL;
CREATE INDEX workload_phase_changed ON workload (phase_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_ended_first ON workload (ended_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_by_image ON workload (folded_image, uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_ran ON workload (ran_ms, uid) WHERE deleted_at IS NULL AND running_since IS NULL;
CREATE INDEX workload_runs ON workload (running_since, uid) WHERE running_since IS NOT NULL;
CREATE INDEX workload_waited ON workload (waited_ms, uid) WHERE deleted_at IS NULL AND phase NOT IN ('Pending', 'Resuming');
CREATE INDEX workload_leaving ON workload (uid) WHERE phase = 'Deleting';
CREATE INDEX workload_gone ON workload (submitted_at, uid) WHERE deleted_at IS NOT NULL;
CREATE INDEX workload_gone_at ON workload (deleted_at, uid) WHERE deleted_at IS NOT NULL;

-- What workloads hold now, and how much of it nobody has used for long; only those that hold anything are here.
CREATE TABLE workload_use (
    workload_uid TEXT COLLATE "C" PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL,
    allocated_milli BIGINT NOT NULL,
    idle_milli BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX workload_use_idle ON workload_use (cluster_id, idle_milli) WHERE idle_milli > 0;
INSERT INTO workload_use (workload_uid, cluster_id, allocated_milli)
SELECT workload_uid, cluster_id, SUM(gpu_milli)
FROM allocation
WHERE to_at IS NULL
GROUP BY workload_uid, cluster_id;
CREATE FUNCTION allocation_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO workload_use AS known (workload_uid, cluster_id, allocated_milli)
        VALUES (NEW.workload_uid, NEW.cluster_id, NEW.gpu_milli)
        ON CONFLICT (workload_uid) DO UPDATE SET allocated_milli = known.allocated_milli + excluded.allocated_milli;
    ELSE
        UPDATE workload_use
        SET allocated_milli = allocated_milli - OLD.gpu_milli
        WHERE workload_uid = OLD.workload_uid;
        DELETE FROM workload_use
        WHERE workload_uid = OLD.workload_uid
          AND allocated_milli <= 0;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER allocation_begun AFTER INSERT ON allocation FOR EACH ROW
WHEN (NEW.to_at IS NULL) EXECUTE FUNCTION allocation_changed();
CREATE TRIGGER allocation_over AFTER UPDATE OF to_at ON allocation FOR EACH ROW
WHEN (OLD.to_at IS NULL AND NEW.to_at IS NOT NULL) EXECUTE FUNCTION allocation_changed();
