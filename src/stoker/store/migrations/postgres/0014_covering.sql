-- What is not deleted is counted in an index alone.
DROP INDEX workload_started;
CREATE INDEX workload_started ON workload (started_at DESC NULLS LAST, uid DESC, deleted_at) WHERE deleted_at IS NULL;
DROP INDEX workload_ended;
CREATE INDEX workload_ended ON workload (ended_at DESC NULLS LAST, uid DESC, deleted_at) WHERE deleted_at IS NULL;
DROP INDEX workload_phase_changed;
CREATE INDEX workload_phase_changed ON workload (phase_at, uid, deleted_at) WHERE deleted_at IS NULL;
