"""Metric series of one workload: GPU samples, pod samples and training metrics."""
