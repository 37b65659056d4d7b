-- What a workload holds now is added up in an index alone.
CREATE INDEX allocation_held ON allocation (workload_uid, model, gpu_milli) WHERE to_at IS NULL;
