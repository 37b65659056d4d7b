-- How long a workspace's preemptible workloads keep a place, and until when those do that hold one.
ALTER TABLE workspace ADD COLUMN guaranteed_seconds INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workload ADD COLUMN guaranteed_until INTEGER;
CREATE INDEX workload_guaranteed ON workload (guaranteed_until, submitted_at, uid)
    WHERE deleted_at IS NULL AND guaranteed_until IS NOT NULL;
