"""Clusters, nodes, GPU availability, leases, live views and the state that the scheduler reads."""
