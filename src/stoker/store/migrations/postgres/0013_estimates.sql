-- Priorities are walked value by value, in the order of creation.
DROP INDEX workload_by_priority;

-- A list keeps the index of its order by asking for values that no index has; here is how many have each of them.
CREATE STATISTICS workload_past_cluster_id ON ((cluster_id || '')) FROM workload;
CREATE STATISTICS workload_past_namespace ON ((namespace || '')) FROM workload;
CREATE STATISTICS workload_past_kind ON ((kind || '')) FROM workload;
CREATE STATISTICS workload_past_phase ON ((phase || '')) FROM workload;
CREATE STATISTICS workload_past_user_id ON ((user_id || '')) FROM workload;
CREATE STATISTICS workload_past_user_name ON ((user_name || '')) FROM workload;
CREATE STATISTICS workload_past_pools ON ((pools || '')) FROM workload;
CREATE STATISTICS workload_past_name ON ((name || '')) FROM workload;
CREATE STATISTICS workload_past_slug ON ((slug || '')) FROM workload;
CREATE STATISTICS workload_past_workspace_id ON ((workspace_id + 0)) FROM workload;
CREATE STATISTICS workload_past_priority ON ((priority + 0)) FROM workload;
CREATE STATISTICS workload_past_submitted_at ON ((submitted_at + 0)) FROM workload;
CREATE STATISTICS workload_past_started_at ON ((started_at + 0)) FROM workload;
CREATE STATISTICS workload_past_ended_at ON ((ended_at + 0)) FROM workload;
CREATE STATISTICS workload_past_phase_at ON ((phase_at + 0)) FROM workload;
