"""Endpoints that the native API adds for workloads: lifecycle operations, events, log search, GPU metrics,
training metrics, explain."""
