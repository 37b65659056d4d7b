-- Nothing is indexed twice: a change of a workload writes less.
DROP INDEX workload_active;
DROP INDEX workload_live;
CREATE INDEX workload_live ON workload (cluster_id, workspace_id) WHERE ended_at IS NULL;
DROP INDEX change_at;
