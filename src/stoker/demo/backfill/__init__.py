"""Writes the simulated history into the store: workloads, logs, training metrics, GPU samples and snapshots."""
