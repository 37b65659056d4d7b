"""Prometheus client, PromQL builders, and the metric and label names of GPU exporters."""
