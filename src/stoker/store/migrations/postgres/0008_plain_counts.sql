-- What workloads are counted by, and what they hold, is written by the statements that change them.
DROP TRIGGER workload_added ON workload;
DROP TRIGGER workload_moved ON workload;
DROP TRIGGER workload_removed ON workload;
DROP TRIGGER allocation_begun ON allocation;
DROP TRIGGER allocation_over ON allocation;
DROP FUNCTION workload_changed;
DROP FUNCTION allocation_changed;
DROP FUNCTION count_workload;
DROP FUNCTION hidden_as;
