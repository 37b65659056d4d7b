"""Collectors of GPU, host and pod samples. Each implements the Collector protocol of domain."""
