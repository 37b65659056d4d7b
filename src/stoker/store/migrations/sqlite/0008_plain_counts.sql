-- What workloads are counted by, and what they hold, is written by the statements that change them.
DROP TRIGGER workload_added;
DROP TRIGGER workload_moved;
DROP TRIGGER workload_removed;
DROP TRIGGER allocation_begun;
DROP TRIGGER allocation_over;
