"""Quota usage of each workspace, the admitted workloads in eviction order, and guaranteed minimum runtimes."""
