"""Clusters, nodes, GPUs and workloads of all clusters: live views, lists and aggregates."""
