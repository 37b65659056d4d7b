"""Free capacity: per node, an index of all nodes, reclaimable capacity, and a cache of requests that do not
fit."""
