-- Lists of workloads and pods, all of them by indexes: one that has everything names are looked for with, and for what
-- moves with the clock one by when it would have begun.
DROP INDEX workload_by_text;
DROP INDEX workload_by_name;
ALTER TABLE workload DROP COLUMN folded_name;
CREATE INDEX workload_by_name ON workload (name, uid, slug, deleted_at) WHERE deleted_at IS NULL;
DROP INDEX workload_newest;
CREATE INDEX workload_newest ON workload (submitted_at, uid, deleted_at) WHERE deleted_at IS NULL;
DROP INDEX workload_ended_first;
DROP INDEX workload_runs;
CREATE INDEX workload_runs ON workload ((running_since - ran_ms), uid)
    WHERE deleted_at IS NULL AND running_since IS NOT NULL;
CREATE INDEX workload_waits ON workload ((phase_at - waited_ms), uid)
    WHERE deleted_at IS NULL AND phase IN ('Pending', 'Resuming');
CREATE INDEX workload_by_gpus ON workload ((gpu_milli * replicas), uid) WHERE deleted_at IS NULL;
CREATE INDEX workload_described ON workload (folded_description, uid, deleted_at)
    WHERE deleted_at IS NULL AND folded_description <> '';
CREATE INDEX pod_newest ON pod (created_at, uid);
CREATE INDEX pod_ended ON pod (ended_at, uid);
CREATE INDEX pod_on_node ON pod (node, uid);

-- Where a text is in another, by the name that SQLite has for it.
CREATE FUNCTION instr(TEXT, TEXT) RETURNS INTEGER LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT strpos($1, $2) $$;
