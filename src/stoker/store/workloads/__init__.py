"""Workloads and pods: rows and their compare-and-set transitions, the event log, counts, lists and allocations."""
