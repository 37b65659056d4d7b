-- What was created or ended in a range of time is sorted by name or workspace in an index alone.
DROP INDEX workload_newest;
CREATE INDEX workload_newest ON workload (submitted_at, uid, deleted_at, workspace_id, name) WHERE deleted_at IS NULL;
DROP INDEX workload_ended;
CREATE INDEX workload_ended ON workload (ended_at, uid, deleted_at, workspace_id, submitted_at)
    WHERE deleted_at IS NULL;
