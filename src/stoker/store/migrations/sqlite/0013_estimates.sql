-- Priorities are walked value by value, in the order of creation.
DROP INDEX workload_by_priority;
